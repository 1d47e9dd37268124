# SPDX-License-Identifier: Apache-2.0
"""Functions that users call for products with matrices of equally long rows: operands are checked, units split off."""

from __future__ import annotations

import jax

from ..._documented import documented
from ...typing import ArrayLike, EventLike, IndexLike, Shape
from .. import entries
from ..calls import product
from ..fixed.format import FIXED
from ..laws.products import EVENTS, NUMBERS
from ..table import call_by, descriptions

__all__ = ["binary_fcnmm", "binary_fcnmv", "fcnmm", "fcnmv"]

MV, MM = descriptions(FIXED, NUMBERS)
EVENT_MV, EVENT_MM = descriptions(FIXED, EVENTS)


_FORM = "If concrete indices are out of range, or `weighted` contradicts the form of the events."
_of_events = documented(entries.EQUAL, entries.PRODUCTS | {"ValueError": _FORM})
_of_numbers = documented(entries.EQUAL, entries.PRODUCTS)


@_of_events
def binary_fcnmv(
    weights: ArrayLike,
    indices: IndexLike,
    spikes: EventLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for a matrix whose rows store the same number of elements.

    Row i stores the elements `weights[i]` in the columns `indices[i]`; duplicates add up. `transpose=True` is the fast
    direction: only the rows of neurons that spiked are read.

    A spike counts as one, whatever its value. The result is differentiable with respect to the weights, and with
    respect to the spikes as if each counted as its value.

    Args:
        spikes: Booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices = jnp.array([[0, 2], [1, 2]])
        >>> weights = jnp.array([[1.0, 2.0], [4.0, 8.0]])
        >>> spikes = jnp.array([True, True])
        >>> brainevent.binary_fcnmv(weights, indices, spikes, shape=(2, 3), transpose=True)
        Array([ 1.,  4., 10.], dtype=float32)
        >>> brainevent.binary_fcnmv(weights, indices, jnp.array([1, 0, 1]), shape=(2, 3))
        Array([3., 8.], dtype=float32)
    """
    return product(
        EVENT_MV, weights, (indices,), ("spikes", spikes), shape, transpose, backend, indices_sorted, weighted
    )


@_of_events
def binary_fcnmm(
    weights: ArrayLike,
    indices: IndexLike,
    matrix: EventLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `spikes` of `binary_fcnmv`.

    Args:
        matrix: The spikes, one vector a column, (k, n); (m, n) if `transpose`.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices = jnp.array([[0, 2], [1, 2]])
        >>> spikes = jnp.array([[True, False, True], [False, False, True]])
        >>> brainevent.binary_fcnmm(jnp.ones(1), indices, spikes, shape=(2, 3), transpose=True)
        Array([[1., 0., 1.],
               [0., 0., 1.],
               [1., 0., 2.]], dtype=float32)
    """
    return product(
        EVENT_MM, weights, (indices,), ("matrix", matrix), shape, transpose, backend, indices_sorted, weighted
    )


@_of_numbers
def fcnmv(
    weights: ArrayLike,
    indices: IndexLike,
    vector: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix whose rows store the same number of elements, or its transpose, with a vector of numbers.

    The matrix is stored as for `binary_fcnmv`. The product is differentiable with respect to `weights` and `vector`.

    Args:
        vector: Real numbers, (k,); (m,) if `transpose`.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices = jnp.array([[0, 2], [1, 2]])
        >>> brainevent.fcnmv(jnp.ones(1), indices, jnp.array([0.5, 2.0]), shape=(2, 3), transpose=True)
        Array([0.5, 2. , 2.5], dtype=float32)
    """
    return product(MV, weights, (indices,), ("vector", vector), shape, transpose, backend, indices_sorted)


@_of_numbers
def fcnmm(
    weights: ArrayLike,
    indices: IndexLike,
    matrix: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix whose rows store the same number of elements, or its transpose, with a dense matrix.

    The matrix is stored as for `binary_fcnmv`. The product is differentiable with respect to `weights` and `matrix`.

    Args:
        matrix: Real numbers, (k, n); (m, n) if `transpose`.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices = jnp.array([[0, 2], [1, 2]])
        >>> brainevent.fcnmm(jnp.ones(1), indices, jnp.eye(3), shape=(2, 3))
        Array([[1., 0., 1.],
               [0., 1., 1.]], dtype=float32)
    """
    return product(MM, weights, (indices,), ("matrix", matrix), shape, transpose, backend, indices_sorted)


call_by({MV: fcnmv, MM: fcnmm, EVENT_MV: binary_fcnmv, EVENT_MM: binary_fcnmm})
