# SPDX-License-Identifier: Apache-2.0
"""The operators on matrices of equally long rows: their kernels, derivatives, batches and shards.

Each is called as `operator(weights, indices, x, shape=(m, k), transpose=...)`: `A @ x` with x of k rows, or `A.T @ x`
with x of m rows. `indices_sorted=True` promises that the columns of each row ascend, and `indices_within=True` that all
are in range; without that, one that is not adds nothing. Devices may share the rows of the matrix, and the columns of
x.
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

__all__ = ["binary_fcnmm_p", "binary_fcnmv_p", "fcnmm_p", "fcnmv_p"]

_VARIANTS = {"clustered": (True, False), "per_slice": (128, 1024), "wide": (True, False)}


def _numba(*, event: bool) -> Callable[..., Any]:
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

        def run(weights: Any, indices: Any, x: Any) -> list[Any]:
            sums = precise(weights.dtype)  # Numba has no arithmetic in 16 bits
            found = kernel(
                weights.dtype.name,
                event=event,
                homogeneous=weights.size == 1,
                within=indices_within,
                transpose=transpose,
                ndim=x.ndim,
                threads=on_cpu_threads.are_worth_it(indices.size),
                long=on_cpu_threads.are_long(indices.shape[0], indices.size, in_order=indices_sorted),
            )
            call = numba_kernel(found, outs=jax.ShapeDtypeStruct(out.shape, sums))
            x = is_active(x) if event else x.astype(sums)
            return [call(weights.reshape(weights.size), indices, x).astype(out.dtype)]

        return run

    return generator


def _cuda(*, event: bool) -> Callable[..., Any]:
    def generator(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **how: Any) -> Callable[..., Any]:
        from .on_gpu import cuda_product

        return cuda_product(outs, transpose=transpose, event=event, **how)

    return generator


def _reference(*, event: bool) -> Callable[..., Any]:
    def reference(
        weights: Any, indices: Any, x: Any, *, shape: tuple[int, int], transpose: bool, **_: Any
    ) -> list[Any]:
        return [product(weights, indices, x, shape=shape, transpose=transpose, event=event)]

    return reference


def _cut(weights: Any, indices: Any, x: Any, *, transpose: bool, **_: Any) -> str:
    """Write the sharding rule: rows of the matrix are `pre`; sums over them, of its transpose, are partial."""
    each = "pre k" if weights.shape == indices.shape else " ".join(f"w{i}" for i in range(weights.ndim))
    source, result = ("pre", "post") if transpose else ("post", "pre")
    columns = " n" * (x.ndim - 1)
    return f"{each}, pre k, {source}{columns} -> {result}{columns}"


def _define(name: str, *, event: bool) -> XLACustomKernel:
    operator = XLACustomKernel(name)
    operator.def_numba_kernel(_numba(event=event))
    operator.def_cuda_raw_kernel(_cuda(event=event), variants=_VARIANTS, language="nvrtc")
    operator.def_reference(_reference(event=event))
    operator.def_tags("fcn", "binary" if event else "float")
    operator.def_sharding_rule(_cut, reduction_factors=("pre",))
    return operator


fcnmv_p = _define("fcnmv", event=False)
fcnmm_p = _define("fcnmm", event=False)
binary_fcnmv_p = _define("ell_binary_matvec", event=True)
binary_fcnmm_p = _define("binary_fcnmm", event=True)

relate(fcnmv_p, linear=fcnmv_p, of_matrices=fcnmm_p, per_element=per_element, indices=1, event=False)
relate(fcnmm_p, linear=fcnmm_p, of_matrices=fcnmm_p, per_element=per_element, indices=1, event=False)
relate(binary_fcnmv_p, linear=fcnmv_p, of_matrices=binary_fcnmm_p, per_element=per_element, indices=1, event=True)
relate(binary_fcnmm_p, linear=fcnmm_p, of_matrices=binary_fcnmm_p, per_element=per_element, indices=1, event=True)
