# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of products of a dense matrix with events: how to launch those in `kernels.cu`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...backends.nvrtc.kernel import cuda_kernel
from ..activity import as_events
from ..precision import precise

__all__ = ["cuda_product"]

_WARP, _WARPS = 32, 16
_PER_BLOCK = 8  # rows of a result with columns, that one block makes
_TALL = 2**15  # rows from which on a warp takes several


@functools.cache
def _source() -> str:
    return Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")


def cuda_product(outs: Sequence[Any], *, transpose: bool) -> Callable[..., Any]:
    """Return the product as a JAX function of weights and x."""
    (out,) = outs

    def run(weights: Any, x: Any) -> Any:
        x = as_events(x)
        name, rows, launch, numbers = _launch(weights.shape, x.shape, transpose)
        kernel = cuda_kernel(
            _source(),
            name,
            out,
            types={"W": weights.dtype, "E": x.dtype, "A": precise(weights.dtype), "O": out.dtype},
            options=(f"-DROWS={rows}", f"-DWARPS={_WARPS}", f"-DTRANSPOSE={int(transpose)}"),
            **launch,
        )
        return [kernel(weights, x, **numbers)]

    return run


def _launch(
    weights: Sequence[int], x: Sequence[int], transpose: bool
) -> tuple[str, int, dict[str, Any], dict[str, int]]:
    """Return the kernel's name, how many rows share a warp or block, its configuration, and its numbers."""
    rows, columns = weights
    if len(x) == 2:
        results, inner = (columns, rows) if transpose else (rows, columns)
        blocks = -(-results // _PER_BLOCK) * -(-x[1] // _WARP)
        numbers = {"rows": results, "inner": inner, "columns": x[1]}
        return "sum_matrix", _PER_BLOCK, {"grid": blocks, "block": _WARP * _WARPS}, numbers
    numbers = {"rows": rows, "columns": columns}
    if transpose:
        return "sum_rows", 1, {"grid": -(-columns // _WARP), "block": _WARP * _WARP}, numbers
    together = 4 if rows >= _TALL else 1
    return "sum_columns", together, {"launch_dims": _WARP * -(-rows // together)}, numbers
