# SPDX-License-Identifier: Apache-2.0
"""The products with matrices of equally long rows that users call: they check operands, and know of units."""

from __future__ import annotations

from typing import Any

from ..calls import product
from ..laws.products import EVENTS, NUMBERS
from ..table import call_by, descriptions
from .format import FIXED

__all__ = ["binary_fcnmm", "binary_fcnmv", "fcnmm", "fcnmv"]

MV, MM = descriptions(FIXED, NUMBERS)
EVENT_MV, EVENT_MM = descriptions(FIXED, EVENTS)


def binary_fcnmv(
    weights: Any,
    indices: Any,
    spikes: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Sum the weights of who spikes, with a matrix of `shape` (n_pre, n_post) whose rows store equally many elements.

    Row i stores the elements `weights[i]`, or one weight of size 1 for all, in the columns `indices[i]`; duplicates add
    up. If `transpose`, n_pre spikes give (n_post,), and only the rows of who spikes are visited: the fast way.
    Otherwise n_post spikes give (n_pre,).

    A spike is True, or a number that is not zero, and counts as one. Gradients: by the weights, and by the spikes as if
    each counted as its number; if `weighted`, it does, as a `WeightedArray`. Quantities of `brainunit` give a
    quantity, of the product of the units. `indices_sorted=True` promises that the columns of each row ascend: then long
    rows are quicker on GPUs, and on CPUs where threads share a product. A `FixedNumPerPre` knows it itself.

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


def binary_fcnmm(
    weights: Any,
    indices: Any,
    matrix: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> Any:
    """Do what `binary_fcnmv` does for each column of a matrix of spikes.

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


def fcnmv(
    weights: Any,
    indices: Any,
    vector: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix whose rows store equally many elements, as in `binary_fcnmv`, with a vector of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmv(jnp.ones(1), indices, jnp.array([0.5, 2.0]), shape=(2, 3), transpose=True)
    Array([0.5, 2. , 2.5], dtype=float32)
    """
    return product(MV, weights, (indices,), ("vector", vector), shape, transpose, backend, indices_sorted)


def fcnmm(
    weights: Any,
    indices: Any,
    matrix: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply a matrix whose rows store equally many elements, as in `binary_fcnmv`, with a matrix of numbers.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmm(jnp.ones(1), indices, jnp.eye(3), shape=(2, 3))
    Array([[1., 0., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    return product(MM, weights, (indices,), ("matrix", matrix), shape, transpose, backend, indices_sorted)


call_by({MV: fcnmv, MM: fcnmm, EVENT_MV: binary_fcnmv, EVENT_MM: binary_fcnmm})
