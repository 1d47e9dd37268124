# SPDX-License-Identifier: Apache-2.0
"""What functions and matrices do with plasticity: operands are checked, units taken off, and the operator is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import ShapeError
from .. import units
from ..coo.format import COORDINATES
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description
from ..fixed.format import FIXED
from ..laws.updates import UPDATES
from ..operands import checked_indices, promises
from ..structure import check_indices, check_once
from ..table import apply
from .checked import bounded, one_of, sides_of, weights_of

__all__ = ["COLUMNS_OF_DENSE", "ELEMENTS", "INDEXED", "ROWS", "ROWS_OF_DENSE", "SLICES", "on_post", "on_pre"]

ROWS = Description(CSR, UPDATES)
INDEXED = Description(CSR, UPDATES, indexed=True, post=True)
SLICES = Description(FIXED, UPDATES)
ELEMENTS = Description(COORDINATES, UPDATES)
ROWS_OF_DENSE = Description(DENSE, UPDATES)
COLUMNS_OF_DENSE = Description(DENSE, UPDATES, post=True)


def on_pre(
    of: Description, where: str, weight: Any, structure: Sequence[Any], spikes: Any, trace: Any, *rest: Any, **how: Any
) -> Any:
    """Add to each weight of a row that spikes the trace of its column; rows are what arrays of indices are cut into.

    `rest` are the bounds of weights, and the shape of the matrix, (pre, post).
    """
    *bounds, shape = rest
    sides = ("pre_spike", spikes, shape[0]), ("post_trace", trace, shape[1])
    return _updated(of, where, weight, structure, sides, bounds, **how)


def on_post(
    of: Description, where: str, weight: Any, structure: Sequence[Any], trace: Any, spikes: Any, *rest: Any, **how: Any
) -> Any:
    """Add to each weight of a column that spikes the trace of its row; columns are what arrays of indices are cut into.

    `rest` are as in `on_pre`.
    """
    *bounds, shape = rest
    sides = ("post_spike", spikes, shape[1]), ("pre_trace", trace, shape[0])
    return _updated(of, where, weight, structure, sides, bounds, **how)


def _updated(
    of: Description,
    where: str,
    weight: Any,
    structure: Sequence[Any],
    sides: tuple[tuple[str, Any, int], tuple[str, Any, int]],
    bounds: Sequence[Any],
    *,
    backend: str | None,
    after: Any,
    within: bool | None = None,
) -> Any:
    """Check what an update needs, make it, and hold weights to their bounds.

    `sides` are spikes and trace: the name, for messages, values, and how many. Whether all indices are known to be
    `within` range is looked at if that is None.
    """
    own, other = (size for _, _, size in sides)
    count = len(of.format.arrays)
    arrays, known = of.format.checked(where, structure[:count], (own, other), within)
    for places in structure[count:]:
        arrays.append(checked_indices(where, "weight_indices", places, 1))
        if arrays[-1].shape != arrays[0].shape:
            raise ShapeError(
                f"{where}: weight_indices has shape {places.shape}; pass one place for each of {arrays[0].shape[0]}"
            )
        known &= check_once(check_indices, where, "weight_indices", arrays[-1], within=within, bound=arrays[-1].size)
    weights, unit = weights_of(where, weight, of.format.stored(arrays, (own, other)) if arrays else None)
    operands = sides_of(where, sides[::-1] if of.post else sides, weights.dtype, unit)
    first = jnp.zeros(0, "float32") if after is None else one_of(where, after)
    out = jax.ShapeDtypeStruct(weights.shape, weights.dtype)
    how: dict[str, Any] = {"backend": backend, **promises(indices_within=known)}
    (found,) = apply(of, weights, *arrays, *operands, first, outs=[out], **how)
    return units.join(bounded(where, found, unit, *bounds), unit)
