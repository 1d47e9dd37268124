# SPDX-License-Identifier: Apache-2.0
"""How functions and matrices call operators of plasticity: operands are checked, and units are split off."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ...errors import ShapeError
from ..coo.format import COORDINATES
from ..csr.format import CSR
from ..dense.format import DENSE
from ..description import Description, Shape
from ..fixed.format import FIXED
from ..laws.updates import UPDATES
from ..operands import checked_indices, promises
from ..structure import check_indices, check_once
from ..table import apply
from .checked import bounded, one_of, spikes_of, trace_of, weights_of

__all__ = ["COLUMNS_OF_DENSE", "ELEMENTS", "INDEXED", "ROWS", "ROWS_OF_DENSE", "SLICES", "on_post", "on_pre", "updated"]

ROWS = Description(CSR, UPDATES)
INDEXED = Description(CSR, UPDATES, indexed=True, post=True)
SLICES = Description(FIXED, UPDATES)
ELEMENTS = Description(COORDINATES, UPDATES)
ROWS_OF_DENSE = Description(DENSE, UPDATES)
COLUMNS_OF_DENSE = Description(DENSE, UPDATES, post=True)


def updated(
    of: Description,
    where: str,
    weight: Any,
    structure: Sequence[Any],
    spikes: Any,
    trace: Any,
    bounds: Sequence[Any],
    shape: Shape,
    backend: str | None,
    after: Any,
    *,
    post: bool,
    within: bool | None = None,
) -> Any:
    """Check the operands of an update, make it, and clip the weights to their bounds.

    Neurons that spike are rows of the matrix of `shape` (pre, post), or if `post` its columns; arrays of indices are
    cut by them. `within` says whether all indices are known to be in range; None to look.
    """
    own, other = shape[post], shape[not post]
    side, other_side = ("post", "pre") if post else ("pre", "post")
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
    x = spikes_of(where, f"{side}_spike", spikes, own)
    added = trace_of(where, f"{other_side}_trace", trace, other, weights.dtype, unit)
    operands = (added, x) if of.post else (x, added)
    first = jnp.zeros(0, "float32") if after is None else one_of(where, after)
    out = jax.ShapeDtypeStruct(weights.shape, weights.dtype)
    how: dict[str, Any] = {"backend": backend, **promises(indices_within=known)}
    (found,) = apply(of, weights, *arrays, *operands, first, outs=[out], **how)
    return units.join(bounded(where, found, unit, *bounds), unit)


on_pre, on_post = (functools.partial(updated, post=post) for post in (False, True))
