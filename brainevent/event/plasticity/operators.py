# SPDX-License-Identifier: Apache-2.0
"""The operators of plasticity: each returns all weights, of which those at neurons that spike have changed.

A spike of a neuron changes the weights of its own synapses, and adds to each the trace of the neuron at the other end.
All other weights stay as they are, to the bit. What an index out of range would name is left alone. The last operand,
`after`, is read by nobody: an array, or none of its elements, that must be there before weights may change in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...backends.numba import numba_kernel
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..csr.operators import binary_csrmv_indexed_p, binary_csrmv_p
from ..dense.operators import binary_densemv_p
from ..fixed.operators import binary_fcnmv_p
from ..precision import precise
from . import reference

__all__ = [
    "fcn_plasticity_row_p",
    "update_csr_on_binary_post_p",
    "update_csr_on_binary_pre_p",
    "update_dense_on_binary_post_p",
    "update_dense_on_binary_pre_p",
]


# ---- elements that are stored slice by slice


def _on_cpu(weights: Any, name: str, *operands: Any, **how: Any) -> list[Any]:
    """Run a Numba kernel; spikes are booleans, and what is added is in numbers that it can add."""
    from . import on_cpu

    kernel = getattr(on_cpu, name)(weights.dtype.name, **how)
    call = numba_kernel(kernel, weights, input_output_aliases={0: 0})
    return [call(weights, *operands)]


def _numba_csr_pre(*, outs: Sequence[Any], indices_within: bool = False, **_: Any) -> Callable[..., Any]:
    def run(weights: Any, indices: Any, indptr: Any, spikes: Any, trace: Any, after: Any) -> list[Any]:
        rest = is_active(spikes), trace.astype(precise(weights.dtype)), after
        return _on_cpu(weights, "of_slices", indices, indptr, *rest, within=indices_within)

    return run


def _numba_csr_post(*, outs: Sequence[Any], indices_within: bool = False, **_: Any) -> Callable[..., Any]:
    def run(weights: Any, indices: Any, indptr: Any, perm: Any, trace: Any, spikes: Any, after: Any) -> list[Any]:
        rest = trace.astype(precise(weights.dtype)), is_active(spikes), after
        return _on_cpu(weights, "of_indexed_slices", indices, indptr, perm, *rest, within=indices_within)

    return run


def _cuda_csr_pre(*, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from .on_gpu import updated

    def run(weights: Any, indices: Any, indptr: Any, spikes: Any, trace: Any, after: Any) -> list[Any]:
        numbers = {"slices": spikes.shape[0], "stored": indices.size, "size": trace.shape[0]}
        rest = is_active(spikes), trace.astype(precise(weights.dtype)), after
        return [updated("of_slices", spikes.shape[0], (weights, indices, indptr, *rest), **numbers)]

    return run


def _cuda_csr_post(*, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from .on_gpu import updated

    def run(weights: Any, indices: Any, indptr: Any, perm: Any, trace: Any, spikes: Any, after: Any) -> list[Any]:
        numbers = {"slices": spikes.shape[0], "stored": weights.size, "size": trace.shape[0]}
        rest = trace.astype(precise(weights.dtype)), is_active(spikes), after
        return [updated("of_indexed_slices", spikes.shape[0], (weights, indices, indptr, perm, *rest), **numbers)]

    return run


# ---- rows of as many elements


def _numba_fixed(*, outs: Sequence[Any], indices_within: bool = False) -> Callable[..., Any]:
    def run(weights: Any, indices: Any, spikes: Any, trace: Any, after: Any) -> list[Any]:
        rest = is_active(spikes), trace.astype(precise(weights.dtype)), after
        return _on_cpu(weights, "of_equal_slices", indices, *rest, within=indices_within)

    return run


def _cuda_fixed(*, outs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    from .on_gpu import updated

    def run(weights: Any, indices: Any, spikes: Any, trace: Any, after: Any) -> list[Any]:
        numbers = {"slices": indices.shape[0], "number": indices.shape[1], "size": trace.shape[0]}
        rest = is_active(spikes), trace.astype(precise(weights.dtype)), after
        return [updated("of_equal_slices", indices.shape[0], (weights, indices, *rest), **numbers)]

    return run


# ---- dense matrices


def _numba_dense_pre(*, outs: Sequence[Any]) -> Callable[..., Any]:
    return lambda weights, spikes, trace, after: _on_cpu(
        weights, "of_rows", is_active(spikes), trace.astype(precise(weights.dtype)), after
    )


def _numba_dense_post(*, outs: Sequence[Any]) -> Callable[..., Any]:
    return lambda weights, trace, spikes, after: _on_cpu(
        weights, "of_columns", trace.astype(precise(weights.dtype)), is_active(spikes), after
    )


def _cuda_dense(*, outs: Sequence[Any], pre: bool) -> Callable[..., Any]:
    from .on_gpu import updated

    def run(weights: Any, *rest: Any) -> list[Any]:
        spikes, trace, after = rest if pre else (rest[1], rest[0], rest[2])
        spikes, trace = is_active(spikes), trace.astype(precise(weights.dtype))
        numbers = {"rows": weights.shape[0], "columns": weights.shape[1]}
        if pre:
            return [updated("of_rows", weights.shape[0], (weights, spikes, trace, after), **numbers)]
        return [updated("of_columns", weights.shape[1], (weights, trace, spikes, after), **numbers)]

    return run


# ---- the operators


def _of_elements(places: Mapping[str, tuple[Any, int]], *operands: Any) -> tuple[Any, ...]:
    """Return operands in which rows begin and end where they do among the elements of a part."""
    begin, size = places["e"]
    weights, indices, indptr, *rest = operands
    return (weights, indices, jnp.clip(jnp.maximum(indptr, 0) - begin.astype(indptr.dtype), 0, size), *rest)


def _linear(operator: XLACustomKernel, operands: int, trace: int, of_trace: Callable[..., Any]) -> None:
    """Give the derivatives of what is linear in weights and in the trace together, and has none by spikes.

    `of_trace(cotangent, *operands, size, **params)` sums the cotangents of the weights that a trace was added to.
    """

    def by_trace(tangent: Any, weights: Any, *rest: Any, **params: Any) -> Any:
        rest = (*rest[: trace - 1], tangent, *rest[trace:])
        return operator(jnp.zeros_like(weights), *rest, **params)

    def transposed(cotangents: Any, *given: Any, outs: Any, **params: Any) -> list[Any]:
        (cotangent,) = cotangents
        found: list[Any] = [None] * operands
        if is_undefined_primal(given[0]):
            found[0] = cotangent
        if is_undefined_primal(given[trace]):
            wanted = given[trace].aval
            out = jax.ShapeDtypeStruct(wanted.shape, cotangent.dtype)
            (summed,) = of_trace(cotangent, *given, outs=[out], **params)
            found[trace] = summed.astype(wanted.dtype)
        return found

    rules: list[Any] = [None] * operands
    rules[0], rules[trace] = lambda tangent, *_, **__: [tangent], by_trace
    operator.def_jvp_rule2(*rules)
    operator.def_transpose_rule(transposed)


def _of_csr_pre(ct: Any, _: Any, indices: Any, indptr: Any, spikes: Any, *__: Any, outs: Any, **how: Any) -> Any:
    shape = (spikes.shape[0], outs[0].shape[0])
    return binary_csrmv_p(ct, indices, indptr, spikes, shape=shape, transpose=True, outs=outs, **_known(how))


def _of_csr_post(
    ct: Any, _: Any, indices: Any, indptr: Any, perm: Any, __: Any, spikes: Any, *___: Any, outs: Any, **how: Any
) -> Any:
    shape = (spikes.shape[0], outs[0].shape[0])
    product = binary_csrmv_indexed_p
    return product(ct, indices, indptr, perm, spikes, shape=shape, transpose=True, outs=outs, **_known(how))


def _of_fixed(ct: Any, _: Any, indices: Any, spikes: Any, *__: Any, outs: Any, **how: Any) -> Any:
    shape = (spikes.shape[0], outs[0].shape[0])
    return binary_fcnmv_p(ct, indices, spikes, shape=shape, transpose=True, outs=outs, **_known(how))


def _of_dense_pre(ct: Any, _: Any, spikes: Any, *__: Any, outs: Any, **___: Any) -> Any:
    return binary_densemv_p(ct, spikes, transpose=True, outs=outs)


def _of_dense_post(ct: Any, _: Any, __: Any, spikes: Any, *___: Any, outs: Any, **____: Any) -> Any:
    return binary_densemv_p(ct, spikes, transpose=False, outs=outs)


def _known(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name == "indices_within"}


def _define(
    name: str, doc: str, tag: str, numba: Any, cuda: Any, reference: Any, rule: str, **sharding: Any
) -> XLACustomKernel:
    operator = XLACustomKernel(name, doc)
    operator.def_numba_kernel(numba)
    operator.def_cuda_raw_kernel(cuda, language="nvrtc")
    operator.def_reference(reference)
    operator.def_tags(tag, "plasticity")
    operator.def_sharding_rule(rule, **sharding)
    return operator


update_csr_on_binary_pre_p = _define(
    "binary_csr_plast",
    """Add to each weight of a row that spikes the trace of its column.

    Operands: weights, indices, indptr, a spike for each row, a trace for each column, and `after`.

    >>> import jax.numpy as jnp, brainevent
    >>> structure = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0, 3.0])
    >>> brainevent.update_csr_on_binary_pre_p(jnp.zeros(3), *structure, spikes, trace, jnp.zeros(0))
    [Array([1., 3., 0.], dtype=float32)]
    """,
    "csr",
    _numba_csr_pre,
    _cuda_csr_pre,
    reference.of_slices,
    "e, e, p, m, k, a -> e",
    of_part=_of_elements,
)
update_csr_on_binary_post_p = _define(
    "csr2csc_on_post",
    """Add to each weight of a column that spikes the trace of its row.

    Operands: weights, rows and pointers of the matrix cut into columns, where each of its elements has its weight, a
    trace for each row, a spike for each column, and `after`.

    >>> import jax.numpy as jnp, brainevent
    >>> pointers, rows, places = brainevent.csr_to_csc_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]), shape=(2, 3))
    >>> trace, spikes = jnp.array([1.0, 2.0]), jnp.array([False, False, True])
    >>> operator = brainevent.update_csr_on_binary_post_p
    >>> operator(jnp.zeros(3), rows, pointers, places, trace, spikes, jnp.zeros(0))
    [Array([0., 1., 2.], dtype=float32)]
    """,
    "csr",
    _numba_csr_post,
    _cuda_csr_post,
    reference.of_indexed_slices,
    "w, e, p, e, m, k, a -> w",
    need_replication_factors=("w", "e"),
)
fcn_plasticity_row_p = _define(
    "fcn_plasticity_row",
    """Add to each weight of a row that spikes the trace that its index names, where rows have as many elements.

    Operands: weights and indices (rows, number), a spike for each row, a trace for each column, and `after`.

    >>> import jax.numpy as jnp, brainevent
    >>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0, 3.0])
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcn_plasticity_row_p(jnp.zeros((2, 2)), indices, spikes, trace, jnp.zeros(0))
    [Array([[1., 3.],
           [0., 0.]], dtype=float32)]
    """,
    "fcn",
    _numba_fixed,
    _cuda_fixed,
    reference.of_equal_slices,
    "r c, r c, r, k, a -> r c",
)
update_dense_on_binary_pre_p = _define(
    "dense_on_pre",
    """Add the trace to each row that spikes. Operands: weights, a spike for each row, the trace, and `after`.

    >>> import jax.numpy as jnp, brainevent
    >>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0])
    >>> brainevent.update_dense_on_binary_pre_p(jnp.zeros((2, 2)), spikes, trace, jnp.zeros(0))
    [Array([[1., 2.],
           [0., 0.]], dtype=float32)]
    """,
    "dense",
    _numba_dense_pre,
    functools.partial(_cuda_dense, pre=True),
    reference.of_rows,
    "m k, m, k, a -> m k",
)
update_dense_on_binary_post_p = _define(
    "dense_on_post",
    """Add the trace to each column that spikes. Operands: weights, the trace, a spike for each column, and `after`.

    >>> import jax.numpy as jnp, brainevent
    >>> trace, spikes = jnp.array([1.0, 2.0]), jnp.array([True, False])
    >>> brainevent.update_dense_on_binary_post_p(jnp.zeros((2, 2)), trace, spikes, jnp.zeros(0))
    [Array([[1., 0.],
           [2., 0.]], dtype=float32)]
    """,
    "dense",
    _numba_dense_post,
    functools.partial(_cuda_dense, pre=False),
    reference.of_columns,
    "m k, m, k, a -> m k",
)

_linear(update_csr_on_binary_pre_p, 6, 4, _of_csr_pre)
_linear(update_csr_on_binary_post_p, 7, 4, _of_csr_post)
_linear(fcn_plasticity_row_p, 5, 3, _of_fixed)
_linear(update_dense_on_binary_pre_p, 4, 2, _of_dense_pre)
_linear(update_dense_on_binary_post_p, 4, 1, _of_dense_post)
