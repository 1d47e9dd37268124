# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of products with a matrix in coordinates: how `elements.cu` is compiled and launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...backends.nvrtc.kernel import cuda_kernel
from ..on_gpu import definitions, operand, source
from ..precision import precise

__all__ = ["cuda_product"]


def cuda_product(
    outs: Sequence[Any],
    *,
    transpose: bool,
    event: bool,
    per_thread: int,
    silent: bool = False,
    indices_within: bool = False,
) -> Callable[..., Any]:
    """Return the product as a JAX function of data, rows, columns and x; a thread takes about `per_thread` elements.

    Unless `indices_within`, each index is tested. If `silent`, zeros of x are left out.
    """
    (out,) = outs

    def product(data: Any, row: Any, col: Any, x: Any) -> list[Any]:
        into, out_of = (col, row) if transpose else (row, col)
        sums = precise(data.dtype)
        x = operand(x, sums, event=event)
        threads = -(-row.size // per_thread)
        numbers = {"stored": row.size, "sums": out.shape[0], "sources": x.shape[0], "threads": threads}
        if x.ndim == 2:
            numbers |= {"threads": threads * x.shape[1], "columns": x.shape[1]}
        flags = {"EVENTS": event, "SILENT": silent, "ONE": data.size == 1}
        kernel = cuda_kernel(
            source("rows.cu", "laws.cu", "elements.cu"),
            "of_vector" if x.ndim == 1 else "of_matrix",
            jax.ShapeDtypeStruct(out.shape, sums),
            launch_dims=numbers["threads"],
            types={
                "W": data.dtype,
                "I": into.dtype,
                "J": out_of.dtype,
                "E": x.dtype,
                "A": sums,
                "P": "int32",
                "Q": "int32",
            },
            options=definitions({**flags, "WITHIN": indices_within, "INDEXED": 0, "CONNECTIONS": 0}),
            zeroed=True,
        )
        return [kernel(data, into, out_of, x, **numbers).astype(out.dtype)]

    return product
