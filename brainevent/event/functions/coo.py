# SPDX-License-Identifier: Apache-2.0
"""Functions that users call for products with matrices in coordinates: operands are checked, units split off."""

from __future__ import annotations

import jax

from ..._documented import documented
from ...typing import ArrayLike, EventLike, IndexLike
from .. import entries
from ..calls import product
from ..coo.format import COORDINATES
from ..description import Shape
from ..laws.products import EVENTS, NUMBERS
from ..table import call_by, descriptions

__all__ = ["binary_coomm", "binary_coomv", "coomm", "coomv"]

MV, MM = descriptions(COORDINATES, NUMBERS)
EVENT_MV, EVENT_MM = descriptions(COORDINATES, EVENTS)


_documented = documented(entries.COORDINATES, entries.PRODUCTS)


@_documented
def binary_coomv(
    data: ArrayLike,
    row: IndexLike,
    col: IndexLike,
    v: EventLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for a matrix in coordinates.

    Element i is `data[i]` in row `row[i]` and column `col[i]`. Elements may come in any order, and duplicates add up.
    Every stored element is read, however few neurons spiked: where few do, `binary_csrmv` is faster.

    A spike counts as one, whatever its value. The result is differentiable with respect to the weights, and with
    respect to the spikes as if each counted as its value.

    Args:
        v: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> row, col, data = jnp.array([0, 0, 1]), jnp.array([0, 2, 2]), jnp.array([1.0, 2.0, 4.0])
        >>> brainevent.binary_coomv(data, row, col, jnp.array([False, False, True]), shape=(2, 3))
        Array([2., 4.], dtype=float32)
        >>> brainevent.binary_coomv(data, row, col, jnp.array([1, 1]), shape=(2, 3), transpose=True)
        Array([1., 0., 6.], dtype=float32)
    """
    return product(EVENT_MV, data, (row, col), ("v", v), shape, transpose, backend)


@_documented
def binary_coomm(
    data: ArrayLike,
    row: IndexLike,
    col: IndexLike,
    B: EventLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `v` of `binary_coomv`.

    Args:
        B: The spikes, one vector a column, (k, n); (m, n) if `transpose`.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
        >>> brainevent.binary_coomm(jnp.ones(1), row, col, jnp.array([[1, 0], [0, 0], [1, 1]]), shape=(2, 3))
        Array([[2., 1.],
               [1., 1.]], dtype=float32)
    """
    return product(EVENT_MM, data, (row, col), ("B", B), shape, transpose, backend)


@_documented
def coomv(
    data: ArrayLike,
    row: IndexLike,
    col: IndexLike,
    v: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in coordinates, or its transpose, with a vector of numbers.

    The matrix is stored as for `binary_coomv`. The product is differentiable with respect to `data` and `v`.

    Args:
        v: Real numbers, (k,); (m,) if `transpose`.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
        >>> brainevent.coomv(jnp.ones(1), row, col, jnp.array([0.5, 1.0, 2.0]), shape=(2, 3))
        Array([2.5, 2. ], dtype=float32)
    """
    return product(MV, data, (row, col), ("v", v), shape, transpose, backend)


@_documented
def coomm(
    data: ArrayLike,
    row: IndexLike,
    col: IndexLike,
    B: ArrayLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in coordinates, or its transpose, with a dense matrix of numbers.

    The matrix is stored as for `binary_coomv`. The product is differentiable with respect to `data` and `B`.

    Args:
        B: Real numbers, (k, n); (m, n) if `transpose`.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
        >>> brainevent.coomm(jnp.ones(1), row, col, jnp.eye(3), shape=(2, 3))
        Array([[1., 0., 1.],
               [0., 0., 1.]], dtype=float32)
    """
    return product(MM, data, (row, col), ("B", B), shape, transpose, backend)


call_by({MV: coomv, MM: coomm, EVENT_MV: binary_coomv, EVENT_MM: binary_coomm})
