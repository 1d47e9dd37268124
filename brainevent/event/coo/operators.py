# SPDX-License-Identifier: Apache-2.0
"""The operators on matrices in coordinates: their kernels, derivatives, batches and shards.

Each is called as `operator(data, row, col, x, shape=(m, k), transpose=...)`: `A @ x` with x of k rows, or `A.T @ x`
with x of m rows. `indices_within=True` promises that all indices are in range; without that, one that is not adds
nothing. Devices may share the stored elements, whose sums are then partial, and the columns of x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...backends.numba import numba_kernel
from ...operator.custom_kernel import XLACustomKernel
from ..activity import is_active
from ..linear import relate
from ..precision import precise
from .reference import per_element, product

__all__ = ["binary_coomm_p", "binary_coomv_p", "coomm_p", "coomv_p"]


def _numba(*, event: bool) -> Callable[..., Any]:
    def generator(
        *, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, indices_within: bool = False
    ) -> Callable[..., Any]:
        from .on_cpu import kernel

        (out,) = outs

        def run(data: Any, row: Any, col: Any, x: Any) -> list[Any]:
            sums = precise(data.dtype)  # Numba has no arithmetic in 16 bits
            found = kernel(data.dtype.name, event=event, homogeneous=data.size == 1, within=indices_within, ndim=x.ndim)
            call = numba_kernel(found, outs=jax.ShapeDtypeStruct(out.shape, sums))
            into, out_of = (col, row) if transpose else (row, col)
            x = is_active(x) if event else x.astype(sums)
            return [call(data.reshape(data.size), into, out_of, x).astype(out.dtype)]

        return run

    return generator


def _cuda(*, event: bool) -> Callable[..., Any]:
    def generator(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **how: Any) -> Callable[..., Any]:
        from .on_gpu import cuda_product

        return cuda_product(outs, transpose=transpose, event=event, **how)

    return generator


def _reference(*, event: bool) -> Callable[..., Any]:
    def reference(
        data: Any, row: Any, col: Any, x: Any, *, shape: tuple[int, int], transpose: bool, **_: Any
    ) -> list[Any]:
        return [product(data, row, col, x, shape=shape, transpose=transpose, event=event)]

    return reference


def _cut(data: Any, row: Any, col: Any, x: Any, **_: Any) -> str:
    """Write the sharding rule: the stored elements are `e`, and sums over a part of them are partial."""
    each = "e" if data.shape == row.shape else " ".join(f"w{i}" for i in range(data.ndim))
    columns = " n" * (x.ndim - 1)
    return f"{each}, e, e, source{columns} -> target{columns}"


def _define(name: str, *, event: bool) -> XLACustomKernel:
    operator = XLACustomKernel(name)
    operator.def_numba_kernel(_numba(event=event))
    operator.def_cuda_raw_kernel(_cuda(event=event), variants={"per_thread": (4, 1, 16)}, language="nvrtc")
    operator.def_reference(_reference(event=event))
    operator.def_tags("coo", "binary" if event else "float")
    operator.def_sharding_rule(_cut, reduction_factors=("e",))
    return operator


coomv_p = _define("coomv", event=False)
coomm_p = _define("coomm", event=False)
binary_coomv_p = _define("binary_coomv", event=True)
binary_coomm_p = _define("binary_coomm", event=True)

relate(coomv_p, linear=coomv_p, of_matrices=coomm_p, per_element=per_element, indices=2, event=False)
relate(coomm_p, linear=coomm_p, of_matrices=coomm_p, per_element=per_element, indices=2, event=False)
relate(binary_coomv_p, linear=coomv_p, of_matrices=binary_coomm_p, per_element=per_element, indices=2, event=True)
relate(binary_coomm_p, linear=coomm_p, of_matrices=binary_coomm_p, per_element=per_element, indices=2, event=True)
