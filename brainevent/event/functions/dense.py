# SPDX-License-Identifier: Apache-2.0
"""Functions that users call for products of a dense matrix with events: operands are checked, units split off."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ..._documented import documented
from ...errors import ShapeError
from ...typing import ArrayLike, EventLike
from .. import entries
from ..activity import is_active
from ..calls import by_values, checked_x, weights_of
from ..dense.format import DENSE
from ..description import Description
from ..form import split_operand
from ..laws.products import EVENTS, VALUED
from ..laws.rules import has_kernel_for
from ..operands import promoted
from ..table import apply, call_by, descriptions

__all__ = ["binary_densemm", "binary_densemv"]

EVENT_MV, EVENT_MM = descriptions(DENSE, EVENTS)


_documented = documented(
    entries.MATRIX | {"weights": "Numbers, (m, k). Integers are added as integers, by `jax.numpy`."},
    entries.PRODUCTS
    | {"TypeError": "If an operand is complex.", "ValueError": "If `weighted` contradicts the form of the events."},
)


@_documented
def binary_densemv(
    weights: ArrayLike,
    spikes: EventLike,
    *,
    transpose: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for a dense matrix.

    A spike counts as one, whatever its value. The result is differentiable with respect to the weights, and with
    respect to the spikes as if each counted as its value.

    Args:
        spikes: Booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> weights = jnp.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
        >>> brainevent.binary_densemv(weights, jnp.array([True, False, True]))
        Array([ 5., 40.], dtype=float32)
        >>> brainevent.binary_densemv(weights, jnp.array([0.0, 0.5]), transpose=True)
        Array([ 8., 16., 32.], dtype=float32)
    """
    return _product(EVENT_MV, weights, spikes, transpose, backend, weighted)


@_documented
def binary_densemm(
    weights: ArrayLike,
    spikes: EventLike,
    *,
    transpose: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `spikes` of `binary_densemv`.

    Args:
        spikes: The spikes, one vector a column, (k, n); (m, n) if `transpose`.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> weights = jnp.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
        >>> brainevent.binary_densemm(weights, jnp.array([[1, 0], [0, 0], [1, 1]]))
        Array([[ 5.,  4.],
               [40., 32.]], dtype=float32)
    """
    return _product(EVENT_MM, weights, spikes, transpose, backend, weighted)


def _product(of: Description, weights: Any, spikes: Any, transpose: bool, backend: str | None, weighted: bool) -> Any:
    where, of = of.name, by_values(of, spikes, weighted=weighted)
    event = of.law.event
    weights, weight_unit = units.split(weights)
    spikes, spike_unit = split_operand(spikes, event=True)
    weights, transpose = jnp.asarray(weights), bool(transpose)
    if weights.ndim != 2:
        raise ShapeError(f"{where}: weights has shape {weights.shape}; pass a matrix, of two dimensions")
    spikes = checked_x(of, "spikes", spikes, weights.shape, transpose=transpose)
    weights = promoted(weights, spikes, event=event)
    if jnp.issubdtype(weights.dtype, jnp.integer):  # no kernel adds integers
        found = jnp.matmul(
            weights.T if transpose else weights, (is_active(spikes) if event else spikes).astype(weights.dtype)
        )
    else:
        weights = weights_of(of, weights, (), weights.shape)
        if of.law is VALUED and not has_kernel_for(apply.operator(of), {"backend": backend}):
            backend = None  # the name is that of a kernel of the product with events
        out = jax.ShapeDtypeStruct((weights.shape[transpose], *spikes.shape[1:]), weights.dtype)
        (found,) = apply(of, weights, spikes, outs=[out], transpose=transpose, backend=backend)
    return units.join(found, units.product(weight_unit, spike_unit))


call_by({EVENT_MV: binary_densemv, EVENT_MM: binary_densemm})
