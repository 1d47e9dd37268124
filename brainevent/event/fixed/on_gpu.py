# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of products with a matrix of equally long rows: what `kernels.cu` is compiled and launched with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from ...backends.nvrtc import cuda_kernel
from ..on_gpu import WARP, operand, power_of_two, whole_warps
from ..precision import precise

__all__ = ["cuda_product"]


@functools.cache
def _source() -> str:
    return Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")


def cuda_product(
    outs: Sequence[Any], *, transpose: bool, event: bool, per_slice: int, wide: bool
) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices and x.

    A warp takes about `per_slice` elements of a row that is active; if `wide`, it reads four at once, where it can.
    """
    (out,) = outs

    def product(weights: Any, indices: Any, x: Any) -> list[Any]:
        sums = precise(weights.dtype)
        x = operand(x, sums, event=event)
        rows, connections = indices.shape
        columns = x.shape[1] if x.ndim == 2 else 1
        across, lanes = power_of_two(columns), power_of_two(connections)
        slices = max(1, connections // per_slice)
        numbers = {"rows": rows, "connections": connections}
        if transpose:
            numbers["slices"] = slices
        if x.ndim == 2:
            numbers["columns"] = columns
            threads = WARP * rows * -(-columns // across) * (slices if transpose else 1)
        else:
            threads = whole_warps(rows) * slices if transpose else whole_warps(rows * lanes)
        flags = {"EVENTS": event, "ONE": weights.size == 1, "WIDE": wide and connections % 4 == 0}
        settings = {**flags, "LANES": lanes, "ACROSS": across}
        kernel = cuda_kernel(
            _source(),
            ("scatter" if transpose else "gather") + ("_matrix" if x.ndim == 2 else ""),
            jax.ShapeDtypeStruct(out.shape, sums if transpose else out.dtype),
            launch_dims=threads,
            types={"W": weights.dtype, "I": indices.dtype, "E": x.dtype, "A": sums, "O": out.dtype},
            options=tuple(f"-D{name}={int(value)}" for name, value in settings.items()),
            zeroed=transpose,
        )
        return [kernel(weights, indices, x, **numbers).astype(out.dtype)]

    return product
