# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of matrices in compressed sparse rows: how those in the `.cu` files are compiled and launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.nvrtc import cuda_kernel
from ..on_gpu import WARP, operand, power_of_two, whole_warps
from ..precision import precise

__all__ = ["cuda_add_rows", "cuda_per_element", "cuda_product", "cuda_slice_rows"]

_IN_FLIGHT = 16_384  # warps that share what is listed: about twice as many as a large GPU holds at once


@functools.cache
def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _options(flags: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"-D{name}={int(value)}" for name, value in flags.items())


def cuda_product(
    outs: Sequence[Any], *, transpose: bool, event: bool, indexed: bool, listed: bool, per_slice: int, wide: bool
) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices, row pointers, permutation if any, and x.

    A warp takes about `per_slice` elements of a row that is active; if `wide`, it reads four at once. If `listed`, one
    kernel lists the active rows of a vector, and another adds them.
    """
    (out,) = outs

    def product(weights: Any, indices: Any, indptr: Any, *rest: Any) -> list[Any]:
        perm, x = rest if indexed else (indptr, *rest)
        sums = precise(weights.dtype)
        x = operand(x, sums, event=event)
        rows, columns = indptr.shape[0] - 1, x.shape[1] if x.ndim == 2 else 1
        mean = indices.size // max(1, rows)
        across, lanes, slices = power_of_two(columns), power_of_two(mean), max(1, mean // per_slice)
        tiles = -(-columns // across)
        types = {"W": weights.dtype, "I": indices.dtype, "P": indptr.dtype, "Q": perm.dtype, "E": x.dtype, "A": sums}
        flags = {"EVENTS": event, "ONE": weights.size == 1, "INDEXED": indexed, "WIDE": wide}
        call = functools.partial(
            cuda_kernel,
            _source("kernels.cu"),
            outs=jax.ShapeDtypeStruct(out.shape, sums if transpose else out.dtype),
            types={**types, "O": out.dtype},
            options=_options({**flags, "LANES": lanes, "ACROSS": across}),
        )
        operands = (weights, indices, indptr, perm, x)
        if x.ndim == 2 and transpose:
            kernel = call("scatter_matrix", launch_dims=WARP * rows * tiles * slices, zeroed=True)
            found = kernel(*operands, rows=rows, columns=columns, slices=slices)
        elif x.ndim == 2:
            kernel = call("gather_matrix", launch_dims=WARP * rows * tiles)
            found = kernel(*operands, rows=rows, columns=columns)
        elif not transpose:
            kernel = call("gather", launch_dims=whole_warps(rows * lanes))
            found = kernel(*operands, rows=rows)
        elif listed and event and rows < 2**31:
            lists = [jax.ShapeDtypeStruct((rows,), jnp.int32), jax.ShapeDtypeStruct((1,), jnp.uint32)]
            listing = call("list_rows", outs=lists, launch_dims=whole_warps(rows), zeroed=("count",))
            warps = min(rows * slices, _IN_FLIGHT)
            kernel = call("scatter_listed", launch_dims=WARP * warps, zeroed=True)
            found = kernel(*operands, *listing(x, rows=rows), warps=warps, slices=slices)
        else:
            kernel = call("scatter", launch_dims=whole_warps(rows) * slices, zeroed=True)
            found = kernel(*operands, rows=rows, slices=slices)
        return [found.astype(out.dtype)]

    return product


def cuda_per_element(outs: Sequence[Any]) -> Callable[..., Any]:
    """Return the kernel of the product of the row's and the column's values of each stored element."""
    (out,) = outs

    def product(indices: Any, indptr: Any, of_rows: Any, of_columns: Any) -> list[Any]:
        sums, (rows, width) = precise(out.dtype), of_rows.shape
        sides = (of_rows.astype(sums), of_columns.astype(sums))
        call = _of_elements("per_element", jax.ShapeDtypeStruct(out.shape, sums), rows, indices, indptr)
        return [call(indices, indptr, *sides, rows=rows, width=width).astype(out.dtype)]

    return product


def cuda_slice_rows(outs: Sequence[Any], *, shape: tuple[int, int]) -> Callable[..., Any]:
    """Return the kernel that writes chosen rows as dense ones."""
    (out,) = outs

    def sliced(weights: Any, indices: Any, indptr: Any, chosen: Any) -> list[Any]:
        sums = jax.ShapeDtypeStruct(out.shape, precise(out.dtype))
        call = _of_elements("slice_rows", sums, chosen.size, indices, indptr, weights, chosen, zeroed=True)
        numbers = {"count": chosen.size, "rows": shape[0], "width": shape[1]}
        return [call(weights, indices, indptr, chosen, **numbers).astype(out.dtype)]

    return sliced


def cuda_add_rows(outs: Sequence[Any], *, shape: tuple[int, int]) -> Callable[..., Any]:
    """Return the kernel that adds dense rows to the elements of chosen rows."""
    (out,) = outs

    def added(indices: Any, indptr: Any, chosen: Any, dense: Any) -> list[Any]:
        sums = jax.ShapeDtypeStruct(out.shape, precise(out.dtype))
        call = _of_elements("add_rows", sums, chosen.size, indices, indptr, chosen=chosen, zeroed=True)
        numbers = {"count": chosen.size, "rows": shape[0], "width": shape[1]}
        return [call(indices, indptr, chosen, dense.astype(sums.dtype), **numbers).astype(out.dtype)]

    return added


def _of_elements(
    entry: str, out: Any, warps: int, indices: Any, indptr: Any, weights: Any = None, chosen: Any = None, **how: Any
) -> Callable[..., Any]:
    """Return a kernel of `elements.cu`, with a warp for each row."""
    types = {
        "W": out.dtype if weights is None else weights.dtype,
        "I": indices.dtype,
        "P": indptr.dtype,
        "R": jnp.int32 if chosen is None else chosen.dtype,
        "A": out.dtype,
    }
    options = _options({"ONE": weights is not None and weights.size == 1})
    source = _source("elements.cu")
    return cuda_kernel(source, entry, out, launch_dims=WARP * warps, types=types, options=options, **how)
