# SPDX-License-Identifier: Apache-2.0
"""A product of a dense matrix with events: checks its operands, and takes care of units."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...errors import ShapeError
from .. import units
from ..activity import is_active
from ..operands import checked_weights, checked_x
from .operators import binary_densemm_p, binary_densemv_p

__all__ = ["dense_product"]


def dense_product(
    weights: Any, spikes: Any, spike_unit: Any, rank: int, *, transpose: bool, backend: str | None = None
) -> Any:
    """Sum the weights of active neurons: `binary_densemv` for spikes of rank 1, `binary_densemm` for rank 2."""
    where, operator = ("binary_densemv", binary_densemv_p) if rank == 1 else ("binary_densemm", binary_densemm_p)
    weights, weight_unit = units.split(weights)
    weights = jnp.asarray(weights)
    if weights.ndim != 2:
        raise ShapeError(f"{where}: weights has shape {weights.shape}; pass a matrix, of two dimensions")
    spikes, shape = checked_x(where, "spikes", spikes, rank, weights.shape, transpose=transpose)
    if jnp.issubdtype(weights.dtype, jnp.integer):  # no kernel adds integers
        found = jnp.matmul(weights.T if transpose else weights, is_active(spikes).astype(weights.dtype))
        return units.join(found, units.product(weight_unit, spike_unit))
    weights = checked_weights(where, "weights", weights, weights.shape)
    out = jax.ShapeDtypeStruct(shape, weights.dtype)
    (found,) = operator(weights, spikes, outs=[out], transpose=bool(transpose), backend=backend)
    return units.join(found, units.product(weight_unit, spike_unit))
