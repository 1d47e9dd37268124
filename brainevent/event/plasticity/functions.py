# SPDX-License-Identifier: Apache-2.0
"""Weights after spikes: a spike adds, to each synapse of its neuron, the trace of the neuron at the other end.

Amplitudes, signs and decay are in the trace, which the caller scales. A spike is True, or a number that is not zero,
and counts once. Then weights are held between `w_min` and `w_max`, touched or not, where these are given: numbers, or
arrays that broadcast to the weights; if they cross, all weights become `w_max`. What is returned has the type, the unit
and the order of the weights. `after` is any array that must be there first: pass what a product with the same weights
gave, and XLA changes them in place, where it would copy them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import ShapeError
from ...operator.custom_kernel import XLACustomKernel
from .. import units
from ..csr.checked import checked_structure
from ..csr.conversions import turned_once
from ..operands import checked_indices, promises
from ..structure import check_indices, check_once, checked_shape
from . import benchmark_data
from .checked import bounded, dense_shape, one_of, sides_of, weights_of
from .operators import (
    fcn_plasticity_row_p,
    update_csr_on_binary_post_p,
    update_csr_on_binary_pre_p,
    update_dense_on_binary_post_p,
    update_dense_on_binary_pre_p,
)
from .reference import of_coordinates

__all__ = [
    "update_coordinates",
    "update_csc_on_binary_post",
    "update_csc_on_binary_pre",
    "update_csr_on_binary_post",
    "update_csr_on_binary_pre",
    "update_dense_on_binary_post",
    "update_dense_on_binary_pre",
    "update_fixed_post_conn_on_binary_pre",
    "update_fixed_pre_conn_on_binary_post",
    "update_indexed_on_pre",
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
    structure, within = checked_structure(where, indices, indptr, shape)
    sides = ("pre_spike", pre_spike, shape[0]), ("post_trace", post_trace, shape[1])
    how = {"backend": backend, **promises(indices_within=within)}
    return _updated(where, update_csr_on_binary_pre_p, weight, structure, sides, (w_min, w_max), after, how)


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
    structure, within = checked_structure(where, indices, indptr, shape[::-1])
    places = checked_indices(where, "weight_indices", weight_indices, 1)
    if places.shape != structure[0].shape:
        raise ShapeError(
            f"{where}: weight_indices has shape {places.shape}; pass one place for each of {structure[0].shape[0]}"
        )
    within &= check_once(check_indices, where, "weight_indices", places, bound=places.size)
    sides = ("pre_trace", pre_trace, shape[0]), ("post_spike", post_spike, shape[1])
    how = {"backend": backend, **promises(indices_within=within)}
    operands = (*structure, places)
    return _updated(where, update_csr_on_binary_post_p, weight, operands, sides, (w_min, w_max), after, how)


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
    (indices, indptr), _ = checked_structure(where, indices, indptr, shape[::-1])
    structure = turned_once(indptr, indices, shape[::-1])
    how: dict[str, Any] = {"shape": shape, "backend": backend, "after": after}
    return update_indexed_on_pre(weight, *structure, pre_spike, post_trace, w_min, w_max, **how)


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
    structure, within = checked_structure(where, indices, indptr, shape[::-1])
    sides = ("post_spike", post_spike, shape[1]), ("pre_trace", pre_trace, shape[0])
    how = {"backend": backend, **promises(indices_within=within)}
    return _updated(where, update_csr_on_binary_pre_p, weight, structure, sides, (w_min, w_max), after, how)


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
    rows, columns = dense_shape(where, weight)
    sides = ("pre_spike", pre_spike, rows), ("post_trace", post_trace, columns)
    how = {"backend": backend}
    return _updated(where, update_dense_on_binary_pre_p, weight, (), sides, (w_min, w_max), after, how)


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
    rows, columns = dense_shape(where, weight)
    sides = ("pre_trace", pre_trace, rows), ("post_spike", post_spike, columns)
    how = {"backend": backend}
    return _updated(where, update_dense_on_binary_post_p, weight, (), sides, (w_min, w_max), after, how)


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
    sides = ("pre_spike", pre_spike, shape[0]), ("post_trace", post_trace, shape[1])
    return _of_fixed(where, data, indices, sides, (w_min, w_max), shape, backend, after)


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
    sides = ("post_spike", post_spike, shape[1]), ("pre_trace", pre_trace, shape[0])
    return _of_fixed(where, data, indices, sides, (w_min, w_max), shape[::-1], backend, after)


# ---- what they share


def _of_fixed(
    where: str, data: Any, indices: Any, sides: Any, bounds: Any, cut: tuple[int, int], backend: Any, after: Any
) -> Any:
    """Update rows of as many elements, in a matrix of the shape in which it is cut into rows."""
    indices = checked_indices(where, "indices", indices, 2)
    if indices.shape[0] != cut[0]:
        raise ShapeError(f"{where}: indices has shape {indices.shape}; pass one row for each of {cut[0]} neurons")
    within = check_once(check_indices, where, "indices", indices, bound=cut[1], ndim=2)
    how = {"backend": backend, **promises(indices_within=within)}
    return _updated(where, fcn_plasticity_row_p, data, (indices,), sides, bounds, after, how)


def update_indexed_on_pre(
    weight: Any,
    indices: Any,
    indptr: Any,
    places: Any,
    pre_spike: Any,
    post_trace: Any,
    w_min: Any,
    w_max: Any,
    *,
    shape: tuple[int, int],
    backend: str | None,
    after: Any,
) -> Any:
    """Update rows whose element j has the weight `weight[places[j]]`: of a matrix in compressed columns."""
    where = "update_csc_on_binary_pre"
    structure, within = checked_structure(where, indices, indptr, shape)
    sides = ("post_trace", post_trace, shape[1]), ("pre_spike", pre_spike, shape[0])
    within &= check_once(check_indices, where, "places", places, bound=places.size)
    how = {"backend": backend, **promises(indices_within=within)}
    operands = (*structure, places)
    return _updated(where, update_csr_on_binary_post_p, weight, operands, sides, (w_min, w_max), after, how)


def update_coordinates(
    where: str, weight: Any, own: Any, other: Any, spikes: Any, trace: Any, bounds: Any, *, backend: Any, after: Any
) -> Any:
    """Update elements in any order, each of which is looked at: `own` are the neurons that spike."""
    weights, unit = weights_of(where, weight, other.shape)
    x, added = sides_of(where, (spikes, trace), weights.dtype, unit)
    return units.join(bounded(where, of_coordinates(weights, own, other, x, added), unit, *bounds), unit)


def _updated(
    where: str,
    operator: XLACustomKernel,
    weight: Any,
    structure: tuple[Any, ...],
    sides: tuple[tuple[str, Any, int], tuple[str, Any, int]],
    bounds: tuple[Any, Any],
    after: Any,
    how: dict[str, Any],
) -> Any:
    """Check what an update needs, make it, and hold weights to their bounds."""
    weights, unit = weights_of(where, weight, structure[0].shape if structure else None)
    operands = sides_of(where, sides, weights.dtype, unit)
    first = jnp.zeros(0, "float32") if after is None else one_of(where, after)
    out = jax.ShapeDtypeStruct(weights.shape, weights.dtype)
    (found,) = operator(weights, *structure, *operands, first, outs=[out], **how)
    return units.join(bounded(where, found, unit, *bounds), unit)


def _called(operator: XLACustomKernel, count: int) -> Callable[..., Any]:
    """Return a function that calls an operator, with or without the last operand."""

    def call(*operands: Any, shape: Any = None, backend: str | None = None) -> Any:
        rest = () if len(operands) == count else (jnp.zeros(0, "float32"),)
        return operator(*operands, *rest, backend=backend)

    return call


for _operator, _count in (
    (update_csr_on_binary_pre_p, 6),
    (update_csr_on_binary_post_p, 7),
    (fcn_plasticity_row_p, 5),
    (update_dense_on_binary_pre_p, 4),
    (update_dense_on_binary_post_p, 4),
):
    _operator.def_call(_called(_operator, _count))
    _operator.def_benchmark_data(benchmark_data.of(_operator.name))
