# SPDX-License-Identifier: Apache-2.0
"""Weights after spikes: synapses of neurons that spiked add the trace of the other end.

Amplitudes, signs and decay are in the trace, which the caller scales. A spike is True, or a number that is not zero,
and counts once. Then all weights are clipped to `w_min` and `w_max`, if these are given: numbers, or arrays that
broadcast to the weights; if they cross, all weights become `w_max`. The result has the dtype, the unit and the order of
the weights. `after` is any array that must be computed first: pass the result of a product with the same weights, and
XLA changes them in place instead of copying them.
"""

from __future__ import annotations

import jax

from ..._documented import documented
from ...typing import ArrayLike, IndexLike
from .. import entries
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

_UPDATE = {"weight": "Floating weights, (nse,).", **entries.BOUNDS, **entries.SPIKES}
_COLUMNS = {
    "indices": "The presynaptic neuron of each synapse, int32 or int64, (nse,).",
    "indptr": "Where the synapses of each postsynaptic neuron begin, int32 or int64, (n_post + 1,).",
}
_WRONG = {"TypeError": "If the weights are not floating, indices are not integers, or traces are complex."}
_RETURNS = "The new weights, in the shape, dtype, unit and order of the old ones."
_of_compressed = documented(_UPDATE | _COLUMNS, _WRONG | entries.INDPTR | entries.CHECKED, _RETURNS)
_of_dense = documented(
    _UPDATE | {"weight": "Floating weights, (n_pre, n_post)."},
    {"TypeError": "If the weights are not floating, or traces are complex.", **entries.CHECKED},
    _RETURNS,
)
_of_equal_rows = documented(
    _UPDATE, {**_WRONG, "ValueError": "If concrete indices are out of range.", **entries.CHECKED}, _RETURNS
)


# ---- compressed matrices


@_of_compressed
def update_csr_on_binary_pre(
    weight: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    pre_spike: ArrayLike,
    post_trace: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the postsynaptic trace to the weights of presynaptic neurons that spiked, in compressed sparse rows.

    Only the rows of neurons that spiked are read. A spike counts as one, whatever its value. Then all weights are
    clipped to the bounds.

    Args:
        indices: The postsynaptic neuron of each synapse, int32 or int64, (nse,).
        indptr: Where the synapses of each presynaptic neuron begin, int32 or int64, (n_pre + 1,).

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> spikes, trace = jnp.array([True, False]), jnp.array([0.1, 0.2, 0.3])
        >>> brainevent.update_csr_on_binary_pre(jnp.ones(3), indices, indptr, spikes, trace, shape=(2, 3))
        Array([1.1, 1.3, 1. ], dtype=float32)
    """
    where, shape = "update_csr_on_binary_pre", checked_shape("update_csr_on_binary_pre", shape)
    return on_pre(ROWS, where, weight, (indices, indptr), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


@_of_compressed
def update_csr_on_binary_post(
    weight: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    weight_indices: IndexLike,
    pre_trace: ArrayLike,
    post_spike: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the presynaptic trace to the weights of postsynaptic neurons that spiked, in compressed sparse rows.

    The weights are in the order of compressed sparse rows, and `indices` and `indptr` cut the same elements into
    columns: `csr_to_csc_index` returns them with `weight_indices`. Only the columns of neurons that spiked are read.

    Args:
        indices: The presynaptic neuron of each synapse, sorted by postsynaptic neuron, int32 or int64, (nse,).
        weight_indices: The place in `weight` of each of these synapses, int32 or int64, (nse,).

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indptr, rows, places = brainevent.csr_to_csc_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]), shape=(2, 3))
        >>> trace, spikes = jnp.array([0.1, 0.2]), jnp.array([False, False, True])
        >>> brainevent.update_csr_on_binary_post(jnp.ones(3), rows, indptr, places, trace, spikes, shape=(2, 3))
        Array([1. , 1.1, 1.2], dtype=float32)
    """
    where, shape = "update_csr_on_binary_post", checked_shape("update_csr_on_binary_post", shape)
    structure = (indices, indptr, weight_indices)
    return on_post(INDEXED, where, weight, structure, post_spike, pre_trace, (w_min, w_max), shape, backend, after)


@_of_compressed
def update_csc_on_binary_pre(
    weight: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    pre_spike: ArrayLike,
    post_trace: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the postsynaptic trace to the weights of presynaptic neurons that spiked, in compressed sparse columns.

    The synapses are sorted by row for it: once for concrete arrays, and at each call in a compiled program. A `CSC`
    with `precompute_weight_indices()` carries the order with it.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> rows, indptr = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3])
        >>> spikes, trace = jnp.array([True, False]), jnp.array([0.1, 0.2, 0.3])
        >>> brainevent.update_csc_on_binary_pre(jnp.ones(3), rows, indptr, spikes, trace, shape=(2, 3))
        Array([1.1, 1.3, 1. ], dtype=float32)
    """
    where, shape = "update_csc_on_binary_pre", checked_shape("update_csc_on_binary_pre", shape)
    (indices, indptr), _ = CSR.checked(where, (indices, indptr), shape[::-1], None)
    structure = turned_once(indptr, indices, shape[::-1])
    return on_pre(INDEXED, where, weight, structure, pre_spike, post_trace, (w_min, w_max), shape, backend, after)


@_of_compressed
def update_csc_on_binary_post(
    weight: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    pre_trace: ArrayLike,
    post_spike: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the presynaptic trace to the weights of postsynaptic neurons that spiked, in compressed sparse columns.

    Only the columns of neurons that spiked are read. A spike counts as one, whatever its value. Then all weights are
    clipped to the bounds.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> rows, indptr = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3])
        >>> trace, spikes = jnp.array([0.1, 0.2]), jnp.array([False, False, True])
        >>> brainevent.update_csc_on_binary_post(jnp.ones(3), rows, indptr, trace, spikes, shape=(2, 3))
        Array([1. , 1.1, 1.2], dtype=float32)
    """
    where, shape = "update_csc_on_binary_post", checked_shape("update_csc_on_binary_post", shape)
    return on_post(ROWS, where, weight, (indices, indptr), post_spike, pre_trace, (w_min, w_max), shape, backend, after)


# ---- dense matrices, and those with rows or columns of equal length


@_of_dense
def update_dense_on_binary_pre(
    weight: ArrayLike,
    pre_spike: ArrayLike,
    post_trace: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the postsynaptic trace to the rows of presynaptic neurons that spiked, in a dense matrix.

    Elements that are zero change, too. Then all weights are clipped to the bounds.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.update_dense_on_binary_pre(jnp.zeros((2, 2)), jnp.array([False, True]), jnp.array([1.0, 2.0]))
        Array([[0., 0.],
               [1., 2.]], dtype=float32)
    """
    where = "update_dense_on_binary_pre"
    shape = dense_shape(where, weight)
    return on_pre(ROWS_OF_DENSE, where, weight, (), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


@_of_dense
def update_dense_on_binary_post(
    weight: ArrayLike,
    pre_trace: ArrayLike,
    post_spike: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the presynaptic trace to the columns of postsynaptic neurons that spiked, in a dense matrix.

    Elements that are zero change, too. Then all weights are clipped to the bounds.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.update_dense_on_binary_post(jnp.zeros((2, 2)), jnp.array([1.0, 2.0]), jnp.array([False, True]))
        Array([[0., 1.],
               [0., 2.]], dtype=float32)
    """
    where = "update_dense_on_binary_post"
    shape = dense_shape(where, weight)
    return on_post(COLUMNS_OF_DENSE, where, weight, (), post_spike, pre_trace, (w_min, w_max), shape, backend, after)


@_of_equal_rows
def update_fixed_post_conn_on_binary_pre(
    data: ArrayLike,
    indices: IndexLike,
    pre_spike: ArrayLike,
    post_trace: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the postsynaptic trace to the weights of presynaptic neurons that spiked, with c targets for each.

    This is the update of a `FixedNumPerPre`. Only the rows of neurons that spiked are read.

    Args:
        data: Floating weights, (n_pre, c).
        indices: The c postsynaptic neurons of each presynaptic one, int32 or int64, (n_pre, c).

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, spikes, trace = jnp.array([[0, 2], [1, 2]]), jnp.array([False, True]), jnp.array([1.0, 2.0, 3.0])
        >>> brainevent.update_fixed_post_conn_on_binary_pre(jnp.zeros((2, 2)), indices, spikes, trace, shape=(2, 3))
        Array([[0., 0.],
               [2., 3.]], dtype=float32)
    """
    where, shape = "update_fixed_post_conn_on_binary_pre", checked_shape("update_fixed_post_conn_on_binary_pre", shape)
    return on_pre(SLICES, where, data, (indices,), pre_spike, post_trace, (w_min, w_max), shape, backend, after)


@_of_equal_rows
def update_fixed_pre_conn_on_binary_post(
    data: ArrayLike,
    indices: IndexLike,
    pre_trace: ArrayLike,
    post_spike: ArrayLike,
    w_min: ArrayLike | None = None,
    w_max: ArrayLike | None = None,
    *,
    shape: tuple[int, int],
    backend: str | None = None,
    after: ArrayLike | None = None,
) -> jax.Array:
    """Add the presynaptic trace to the weights of postsynaptic neurons that spiked, with c sources for each.

    This is the update of a `FixedNumPerPost`. Only the rows of neurons that spiked are read.

    Args:
        data: Floating weights, (n_post, c).
        indices: The c presynaptic neurons of each postsynaptic one, int32 or int64, (n_post, c).

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, trace, spikes = jnp.array([[0], [1], [1]]), jnp.array([1.0, 2.0]), jnp.array([True, False, True])
        >>> brainevent.update_fixed_pre_conn_on_binary_post(jnp.zeros((3, 1)), indices, trace, spikes, shape=(2, 3))
        Array([[1.],
               [0.],
               [2.]], dtype=float32)
    """
    where, shape = "update_fixed_pre_conn_on_binary_post", checked_shape("update_fixed_pre_conn_on_binary_post", shape)
    return on_post(SLICES, where, data, (indices,), post_spike, pre_trace, (w_min, w_max), shape, backend, after)
