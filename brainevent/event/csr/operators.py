# SPDX-License-Identifier: Apache-2.0
"""The operators on matrices in compressed sparse rows: their kernels, derivatives, batches and shards.

Products are called as `operator(data, indices, indptr, x, shape=(m, k), transpose=...)`: `A @ x` with x of k rows, or
`A.T @ x` with x of m rows. Those named "indexed" have one more operand before x: stored element j has the weight
`data[perm[j]]`. `indices_sorted=True` promises that the columns of each row ascend, and `indices_within=True` that all
indices are in range; kernels need not look. Without that, an index that is out of range adds nothing, a weight that is
nowhere is the nearest, and row pointers that are none give sums of some stored elements, no matter which. Devices share
the stored elements, and so the rows: each has the row pointers of all, and what they sum is reduced. They may share the
columns of a matrix x, too.
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
from ..linear import relate
from ..precision import precise
from . import reference

__all__ = [
    "binary_csrmm_indexed_p",
    "binary_csrmm_p",
    "binary_csrmv_indexed_p",
    "binary_csrmv_p",
    "csr_per_element_p",
    "csrmm_indexed_p",
    "csrmm_p",
    "csrmv_indexed_p",
    "csrmv_p",
    "of_elements",
]

_VARIANTS = [  # of the kernels in CUDA C++; the first is used until `tune` has found a faster one
    {"clustered": True, "per_slice": 128, "wide": True},
    {"clustered": False, "per_slice": 128, "wide": True},
    {"clustered": False, "per_slice": 128, "wide": False},
    {"clustered": False, "per_slice": 1024, "wide": True},
]


def _numba(*, event: bool, indexed: bool) -> Callable[..., Any]:
    def generator(
        *,
        outs: Sequence[Any],
        shape: tuple[int, int],
        transpose: bool,
        indices_sorted: bool = False,
        indices_within: bool = False,
        **_: Any,
    ) -> Callable[..., Any]:
        from .. import on_cpu_threads
        from .on_cpu import kernel

        (out,) = outs

        def run(data: Any, indices: Any, indptr: Any, *rest: Any) -> list[Any]:
            perm, x = rest if indexed else (indptr, *rest)
            homogeneous, sums = data.size == 1, precise(data.dtype)  # Numba has no arithmetic in 16 bits
            found = kernel(
                data.dtype.name,
                event=event,
                homogeneous=homogeneous,
                indexed=indexed and not homogeneous,
                within=indices_within,
                transpose=transpose,
                ndim=x.ndim,
                threads=on_cpu_threads.are_worth_it(indices.size),
                long=on_cpu_threads.are_long(indptr.size - 1, indices.size, in_order=indices_sorted),
            )
            x = is_active(x) if event else x.astype(sums)
            call = numba_kernel(found, outs=jax.ShapeDtypeStruct(out.shape, sums))
            return [call(data.reshape(-1), indices, indptr, perm, x).astype(out.dtype)]

        return run

    return generator


def _cuda(*, event: bool, indexed: bool) -> Callable[..., Any]:
    def generator(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **how: Any) -> Callable[..., Any]:
        from .on_gpu import cuda_product

        return cuda_product(outs, transpose=transpose, event=event, indexed=indexed, **how)

    return generator


def _reference(*, event: bool, indexed: bool) -> Callable[..., Any]:
    def of_operands(
        data: Any, indices: Any, indptr: Any, *rest: Any, shape: tuple[int, int], transpose: bool, **_: Any
    ) -> list[Any]:
        perm, x = rest if indexed else (None, *rest)
        if perm is not None and data.size != 1:
            data = data[jnp.clip(perm, 0, max(0, data.size - 1))]
        return [reference.product(data, indices, indptr, x, shape=shape, transpose=transpose, event=event)]

    return of_operands


def _define(kind: str, *, event: bool, indexed: bool) -> XLACustomKernel:
    """Define an operator of a kind, "mv" or "mm", with all but what leads to other operators."""
    operator = XLACustomKernel(f"{'binary_' if event else ''}csr{kind}{'_indexed' if indexed else ''}")
    operator.def_numba_kernel(_numba(event=event, indexed=indexed))
    operator.def_cuda_raw_kernel(_cuda(event=event, indexed=indexed), variants=_VARIANTS, language="nvrtc")
    operator.def_reference(_reference(event=event, indexed=indexed))
    operator.def_tags("csr", "binary" if event else "float", *(["indexed"] if indexed else []))
    rule = functools.partial(_cut, indexed=indexed)
    operator.def_sharding_rule(rule, reduction_factors=("e",), of_part=functools.partial(of_elements, pointers=2))
    return operator


def _cut(data: Any, indices: Any, indptr: Any, *rest: Any, indexed: bool, **_: Any) -> str:
    """Write the sharding rule: the stored elements are `e`, and sums over a part of them are partial."""
    each = "e" if data.shape == indices.shape and not indexed else "w"
    columns = " n" * (rest[-1].ndim - 1)
    return f"{each}, e, p, {'e, ' * indexed}k{columns} -> m{columns}"


def of_elements(places: Mapping[str, tuple[Any, int]], *operands: Any, pointers: int) -> tuple[Any, ...]:
    """Return operands in which rows begin and end where they do among the elements of a part."""
    begin, size = places["e"]
    indptr = operands[pointers]
    local = jnp.clip(jnp.maximum(indptr, 0) - begin.astype(indptr.dtype), 0, size)
    return (*operands[:pointers], local, *operands[pointers + 1 :])


csrmv_p = _define("mv", event=False, indexed=False)
csrmm_p = _define("mm", event=False, indexed=False)
csrmv_indexed_p = _define("mv", event=False, indexed=True)
csrmm_indexed_p = _define("mm", event=False, indexed=True)
binary_csrmv_p = _define("mv", event=True, indexed=False)
binary_csrmm_p = _define("mm", event=True, indexed=False)
binary_csrmv_indexed_p = _define("mv", event=True, indexed=True)
binary_csrmm_indexed_p = _define("mm", event=True, indexed=True)


# ---- one product in every language


def _cpp(**how: Any) -> Callable[..., Any]:
    from .on_cpp import cpp_product

    return cpp_product(**how)


def _numba_cuda(**how: Any) -> Callable[..., Any]:
    from .on_numba_cuda import numba_cuda_product

    return numba_cuda_product(**how)


def _warp(**how: Any) -> Callable[..., Any]:
    from .on_warp import warp_product

    return warp_product(**how)


def _triton(**how: Any) -> Callable[..., Any]:
    from .on_triton import triton_product

    return triton_product(**how)


def _pallas_on_gpu(**how: Any) -> Callable[..., Any]:
    from .on_pallas import gpu_product

    return gpu_product(**how)


def _pallas_on_tpu(**how: Any) -> Callable[..., Any]:
    from .on_pallas import tpu_product

    return tpu_product(**how)


binary_csrmv_p.def_cpp_kernel(_cpp)
binary_csrmv_p.def_numba_cuda_kernel(_numba_cuda)
binary_csrmv_p.def_warp_kernel(_warp)
binary_csrmv_p.def_triton_kernel(_triton)
binary_csrmv_p.def_pallas_kernel("gpu", _pallas_on_gpu)
binary_csrmv_p.def_pallas_kernel("tpu", _pallas_on_tpu)


# ---- what gives weights their gradient


def _numba_per_element(*, outs: Sequence[Any]) -> Callable[..., Any]:
    from .on_cpu import per_element

    (out,) = outs

    def run(indices: Any, indptr: Any, of_rows: Any, of_columns: Any) -> list[Any]:
        sums = precise(out.dtype)
        call = numba_kernel(per_element, outs=jax.ShapeDtypeStruct(out.shape, sums))
        return [call(indices, indptr, of_rows.astype(sums), of_columns.astype(sums)).astype(out.dtype)]

    return run


def _cuda_per_element(*, outs: Sequence[Any]) -> Callable[..., Any]:
    from .on_gpu import cuda_per_element

    return cuda_per_element(outs)


csr_per_element_p = XLACustomKernel(
    "csr_per_element",
    """Multiply, for each stored element, its row in `of_rows` with its column in `of_columns`, and sum.

    Both are matrices of as many columns, which are summed over. So weights get their gradient.

    >>> import jax.numpy as jnp, brainevent
    >>> operator = brainevent.get_registry()["csr_per_element"]
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> operator(indices, indptr, jnp.array([[1.0], [10.0]]), jnp.array([[1.0], [2.0], [3.0]]))
    [Array([ 1.,  3., 30.], dtype=float32)]
    """,
)
csr_per_element_p.def_numba_kernel(_numba_per_element)
csr_per_element_p.def_cuda_raw_kernel(_cuda_per_element, language="nvrtc")
csr_per_element_p.def_reference(
    lambda indices, indptr, of_rows, of_columns: [reference.per_element(indices, indptr, of_rows, of_columns)]
)
csr_per_element_p.def_tags("csr", "float")
csr_per_element_p.def_sharding_rule(
    "e, p, m n, k n -> e", reduction_factors=("n",), of_part=functools.partial(of_elements, pointers=1)
)


def _by_rows(tangent: Any, indices: Any, indptr: Any, of_rows: Any, of_columns: Any, **params: Any) -> Any:
    return csr_per_element_p(indices, indptr, tangent, of_columns, **params)


def _by_columns(tangent: Any, indices: Any, indptr: Any, of_rows: Any, of_columns: Any, **params: Any) -> Any:
    return csr_per_element_p(indices, indptr, of_rows, tangent, **params)


def _transposed(cotangents: Any, indices: Any, indptr: Any, of_rows: Any, of_columns: Any, **params: Any) -> Any:
    """Return cotangents of values: that of the elements is a matrix of the same structure."""
    (cotangent,), by_rows = cotangents, is_undefined_primal(of_rows)
    wanted, x = (of_rows.aval, of_columns) if by_rows else (of_columns.aval, of_rows)
    (found,) = csrmm_p(
        cotangent,
        indices,
        indptr,
        x,
        shape=(wanted.shape[0], x.shape[0]) if by_rows else (x.shape[0], wanted.shape[0]),
        transpose=not by_rows,
        outs=[jax.ShapeDtypeStruct(wanted.shape, wanted.dtype)],
    )
    return [None, None, found, None] if by_rows else [None, None, None, found]


csr_per_element_p.def_jvp_rule2(None, None, _by_rows, _by_columns)
csr_per_element_p.def_transpose_rule(_transposed)


def _per_element(structure: Sequence[Any], of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored weight, the product of its row's and its column's values, summed over further axes."""
    indices, indptr, *perm = structure
    sides = (x if x.ndim == 2 else x[:, None] for x in (of_rows, of_columns))
    out = jax.ShapeDtypeStruct(indices.shape, of_rows.dtype)
    (found,) = csr_per_element_p(indices, indptr, *sides, outs=[out])
    return jnp.zeros_like(found).at[jnp.clip(perm[0], 0, found.size - 1)].add(found) if perm else found


_MATRICES = {  # by vectors
    csrmv_p: csrmm_p,
    csrmv_indexed_p: csrmm_indexed_p,
    binary_csrmv_p: binary_csrmm_p,
    binary_csrmv_indexed_p: binary_csrmm_indexed_p,
}
_NUMBERS = {  # by events
    binary_csrmv_p: csrmv_p,
    binary_csrmm_p: csrmm_p,
    binary_csrmv_indexed_p: csrmv_indexed_p,
    binary_csrmm_indexed_p: csrmm_indexed_p,
}
for _operator in (*_MATRICES, *_MATRICES.values()):
    relate(
        _operator,
        linear=_NUMBERS.get(_operator, _operator),
        of_matrices=_MATRICES.get(_operator, _operator),
        per_element=_per_element,
        indices=3 if _operator.name.endswith("indexed") else 2,
        event=_operator in _NUMBERS,
    )
