# SPDX-License-Identifier: Apache-2.0
"""Weights after spikes: a spike adds, to each synapse of its neuron, the trace of the neuron at the other end.

Amplitudes, signs and decay are in the trace, which the caller scales. A spike is True, or a number that is not zero,
and counts once. Then weights are held between `w_min` and `w_max`, touched or not, where these are given: numbers, or
arrays that broadcast to the weights; if they cross, all weights become `w_max`. What is returned has the type, the unit
and the order of the weights. `after` is any array that must be there first: pass what a product with the same weights
gave, and XLA changes them in place, where it would copy them.
"""

from __future__ import annotations

from typing import Any

from ..csr.conversions import turned_once
from ..csr.format import CSR
from ..structure import checked_shape
from .calls import COLUMNS_OF_DENSE, INDEXED, ROWS, ROWS_OF_DENSE, SLICES, on_post, on_pre
from .checked import dense_shape

__all__ = [
    "update_csc_on_binary_post",
    "update_csc_on_binary_pre",
    "update_csr_on_binary_post",
    "update_csr_on_binary_pre",
    "update_dense_on_binary_post",
    "update_dense_on_binary_pre",
    "update_fixed_post_conn_on_binary_pre",
    "update_fixed_pre_conn_on_binary_post",
]


def update_csr_on_binary_pre(
    weight: Any,
    indices: Any,
    indptr: Any,
    pre_spike: Any,
    post_trace: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add to each weight of a row that spikes the trace of its column, in a matrix of `shape` (pre, post).

    The matrix is in compressed sparse rows, and only rows of neurons that spiked are visited.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> spikes, trace = jnp.array([True, False]), jnp.array([0.1, 0.2, 0.3])
    >>> brainevent.update_csr_on_binary_pre(jnp.ones(3), indices, indptr, spikes, trace, shape=(2, 3))
    Array([1.1, 1.3, 1. ], dtype=float32)
    """
    where, shape = "update_csr_on_binary_pre", checked_shape("update_csr_on_binary_pre", shape)
    return on_pre(ROWS, where, weight, (indices, indptr), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


def update_csr_on_binary_post(
    weight: Any,
    indices: Any,
    indptr: Any,
    weight_indices: Any,
    pre_trace: Any,
    post_spike: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add to each weight of a column that spikes the trace of its row, in a matrix of `shape` (pre, post).

    The weights are in the order of compressed sparse rows. `indices` and `indptr` cut the same elements into columns,
    and `weight_indices` says where each of them has its weight: `csr_to_csc_index` returns all three. Only columns
    of neurons that spiked are visited.

    >>> import jax.numpy as jnp, brainevent
    >>> indptr, rows, places = brainevent.csr_to_csc_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]), shape=(2, 3))
    >>> trace, spikes = jnp.array([0.1, 0.2]), jnp.array([False, False, True])
    >>> brainevent.update_csr_on_binary_post(jnp.ones(3), rows, indptr, places, trace, spikes, shape=(2, 3))
    Array([1. , 1.1, 1.2], dtype=float32)
    """
    where, shape = "update_csr_on_binary_post", checked_shape("update_csr_on_binary_post", shape)
    structure = (indices, indptr, weight_indices)
    return on_post(INDEXED, where, weight, structure, post_spike, pre_trace, (w_min, w_max), shape, backend, after)


def update_csc_on_binary_pre(
    weight: Any,
    indices: Any,
    indptr: Any,
    pre_spike: Any,
    post_trace: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Do what `update_csr_on_binary_pre` does with a matrix in compressed sparse columns.

    Its elements are sorted by rows for it: once for arrays that are known, and at each call in a compiled program.
    A `CSC` with `precompute_weight_indices()` carries the order with it.
    """
    where, shape = "update_csc_on_binary_pre", checked_shape("update_csc_on_binary_pre", shape)
    (indices, indptr), _ = CSR.checked(where, (indices, indptr), shape[::-1], None)
    structure = turned_once(indptr, indices, shape[::-1])
    return on_pre(INDEXED, where, weight, structure, pre_spike, post_trace, (w_min, w_max), shape, backend, after)


def update_csc_on_binary_post(
    weight: Any,
    indices: Any,
    indptr: Any,
    pre_trace: Any,
    post_spike: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add to each weight of a column that spikes the trace of its row; the matrix is in compressed sparse columns.

    >>> import jax.numpy as jnp, brainevent
    >>> rows, indptr = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3])
    >>> trace, spikes = jnp.array([0.1, 0.2]), jnp.array([False, False, True])
    >>> brainevent.update_csc_on_binary_post(jnp.ones(3), rows, indptr, trace, spikes, shape=(2, 3))
    Array([1. , 1.1, 1.2], dtype=float32)
    """
    where, shape = "update_csc_on_binary_post", checked_shape("update_csc_on_binary_post", shape)
    return on_post(ROWS, where, weight, (indices, indptr), post_spike, pre_trace, (w_min, w_max), shape, backend, after)


def update_dense_on_binary_pre(
    weight: Any,
    pre_spike: Any,
    post_trace: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add the trace to each row of a dense matrix that spikes, to elements that are zero, too.

    >>> import jax.numpy as jnp, brainevent
    >>> brainevent.update_dense_on_binary_pre(jnp.zeros((2, 2)), jnp.array([False, True]), jnp.array([1.0, 2.0]))
    Array([[0., 0.],
           [1., 2.]], dtype=float32)
    """
    where = "update_dense_on_binary_pre"
    shape = dense_shape(where, weight)
    return on_pre(ROWS_OF_DENSE, where, weight, (), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


def update_dense_on_binary_post(
    weight: Any,
    pre_trace: Any,
    post_spike: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add the trace to each column of a dense matrix that spikes, to elements that are zero, too.

    >>> import jax.numpy as jnp, brainevent
    >>> brainevent.update_dense_on_binary_post(jnp.zeros((2, 2)), jnp.array([1.0, 2.0]), jnp.array([False, True]))
    Array([[0., 1.],
           [0., 2.]], dtype=float32)
    """
    where = "update_dense_on_binary_post"
    shape = dense_shape(where, weight)
    return on_post(COLUMNS_OF_DENSE, where, weight, (), post_spike, pre_trace, (w_min, w_max), shape, backend, after)


def update_fixed_post_conn_on_binary_pre(
    data: Any,
    indices: Any,
    pre_spike: Any,
    post_trace: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add to each weight of a pre neuron that spikes the trace of its target; data and indices are (pre, number).

    >>> import jax.numpy as jnp, brainevent
    >>> indices, spikes, trace = jnp.array([[0, 2], [1, 2]]), jnp.array([False, True]), jnp.array([1.0, 2.0, 3.0])
    >>> brainevent.update_fixed_post_conn_on_binary_pre(jnp.zeros((2, 2)), indices, spikes, trace, shape=(2, 3))
    Array([[0., 0.],
           [2., 3.]], dtype=float32)
    """
    where, shape = "update_fixed_post_conn_on_binary_pre", checked_shape("update_fixed_post_conn_on_binary_pre", shape)
    return on_pre(SLICES, where, data, (indices,), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


def update_fixed_pre_conn_on_binary_post(
    data: Any,
    indices: Any,
    pre_trace: Any,
    post_spike: Any,
    w_min: Any = None,
    w_max: Any = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: Any = None,
) -> Any:
    """Add to each weight of a post neuron that spikes the trace of its source; data and indices are (post, number)."""
    where, shape = "update_fixed_pre_conn_on_binary_post", checked_shape("update_fixed_pre_conn_on_binary_post", shape)
    return on_post(SLICES, where, data, (indices,), post_spike, pre_trace, (w_min, w_max), shape, backend, after)
