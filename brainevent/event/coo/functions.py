# SPDX-License-Identifier: Apache-2.0
"""The products with matrices in coordinates that users call: they check operands, and know of units."""

from __future__ import annotations

from typing import Any

from ..calls import product
from ..description import Shape
from ..laws.products import EVENTS, NUMBERS
from ..table import call_by, descriptions
from .format import COORDINATES

__all__ = ["binary_coomm", "binary_coomv", "coomm", "coomv"]

MV, MM = descriptions(COORDINATES, NUMBERS)
EVENT_MV, EVENT_MM = descriptions(COORDINATES, EVENTS)


def binary_coomv(
    data: Any, row: Any, col: Any, v: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (m, k) in coordinates.

    Element i is `data[i]`, or one weight of size 1 for all, in row `row[i]` and column `col[i]`; in any order, and
    duplicates add up. k spikes give (m,); if `transpose`, m spikes give (k,). All elements are looked at, whoever
    spikes: another format is faster where few do.

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number. Quantities of `brainunit` give a quantity, of the product of the units.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col, data = jnp.array([0, 0, 1]), jnp.array([0, 2, 2]), jnp.array([1.0, 2.0, 4.0])
    >>> brainevent.binary_coomv(data, row, col, jnp.array([False, False, True]), shape=(2, 3))
    Array([2., 4.], dtype=float32)
    >>> brainevent.binary_coomv(data, row, col, jnp.array([1, 1]), shape=(2, 3), transpose=True)
    Array([1., 0., 6.], dtype=float32)
    """
    return product(EVENT_MV, data, (row, col), ("v", v), shape, transpose, backend)


def binary_coomm(
    data: Any,
    row: Any,
    col: Any,
    B: Any,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `binary_coomv` does for each column of a matrix of spikes.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.binary_coomm(jnp.ones(1), row, col, jnp.array([[1, 0], [0, 0], [1, 1]]), shape=(2, 3))
    Array([[2., 1.],
           [1., 1.]], dtype=float32)
    """
    return product(EVENT_MM, data, (row, col), ("B", B), shape, transpose, backend)


def coomv(
    data: Any, row: Any, col: Any, v: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Multiply a matrix in coordinates, as in `binary_coomv`, with a vector of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.coomv(jnp.ones(1), row, col, jnp.array([0.5, 1.0, 2.0]), shape=(2, 3))
    Array([2.5, 2. ], dtype=float32)
    """
    return product(MV, data, (row, col), ("v", v), shape, transpose, backend)


def coomm(
    data: Any,
    row: Any,
    col: Any,
    B: Any,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix in coordinates, as in `binary_coomv`, with a matrix of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> row, col = jnp.array([0, 0, 1]), jnp.array([0, 2, 2])
    >>> brainevent.coomm(jnp.ones(1), row, col, jnp.eye(3), shape=(2, 3))
    Array([[1., 0., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    return product(MM, data, (row, col), ("B", B), shape, transpose, backend)


call_by({MV: coomv, MM: coomm, EVENT_MV: binary_coomv, EVENT_MM: binary_coomm})
