# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of matrices in compressed sparse rows: how those in the `.cu` files are compiled and launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.nvrtc import cuda_kernel
from ...ffi.devices import cuda_capabilities, cuda_multiprocessors
from ...ffi.launch import Limits
from ...toolchain.architectures import gpu_architectures
from ..on_gpu import WARP, operand, power_of_two, whole_warps
from ..precision import precise

__all__ = ["cuda_add_rows", "cuda_per_element", "cuda_product", "cuda_slice_rows"]

_LARGE = 2**22  # elements, from which on it is worth a microsecond to see how many rows are active
_PARTS = 4  # most parts of the columns, each of which reads all that is stored
_THREADS = 1024  # of a block that sums in memory of its own
_RESERVED = 6 * 1024  # bytes of a block's memory that it uses otherwise
# From so many additions for each sum that all blocks have, they are quicker than additions in the GPU's memory: if each
# adds one, which is counted, and if not. Measured on an H200, with 4 000 to 100 000 columns.
_COUNTED, _ADDED = 1 / 9, 1 / 5


@functools.cache
def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _options(flags: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"-D{name}={int(value)}" for name, value in flags.items())


def cuda_product(
    outs: Sequence[Any],
    *,
    transpose: bool,
    event: bool,
    indexed: bool,
    apart: bool,
    per_slice: int,
    wide: bool,
    connections: int = 0,
) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices, row pointers, permutation if any, and x.

    A warp takes about `per_slice` elements of a row that is active; if `wide`, it reads four at once. If `apart`,
    blocks sum in memory of their own where many rows are active. With `connections`, all rows have as many elements,
    and row pointers are not looked at.
    """
    (out,) = outs

    def product(weights: Any, indices: Any, indptr: Any, *rest: Any) -> list[Any]:
        perm, x = rest if indexed else (indptr, *rest)
        sums = precise(weights.dtype)
        x = operand(x, sums, event=event)
        rows, columns = x.shape[0] if transpose else out.shape[0], x.shape[1] if x.ndim == 2 else 1
        rows *= indices.size > 0  # no thread runs where nothing is stored
        mean = indices.size // max(1, rows)
        across, lanes, slices = power_of_two(columns), power_of_two(mean), max(1, mean // per_slice)
        tiles = -(-columns // across)
        own = _Own.of(out.shape[0], sums) if apart and transpose and x.ndim == 1 else None
        types = {"W": weights.dtype, "I": indices.dtype, "P": indptr.dtype, "Q": perm.dtype, "E": x.dtype, "A": sums}
        flags = {"EVENTS": event, "ONE": weights.size == 1, "INDEXED": indexed, "WIDE": wide}
        sizes = {"CONNECTIONS": connections, "LANES": lanes, "ACROSS": across, "RESIDENT": own.resident if own else 1}
        call = functools.partial(
            cuda_kernel,
            _source("kernels.cu"),
            outs=jax.ShapeDtypeStruct(out.shape, sums if transpose else out.dtype),
            types={**types, "O": out.dtype},
            options=_options({**flags, **sizes}),
            zeroed=transpose,
        )
        operands = (weights, indices, indptr, perm, x)
        if x.ndim == 2 and transpose:
            kernel = call(entry="scatter_matrix", launch_dims=WARP * rows * tiles * slices)
            found = kernel(*operands, rows=rows, columns=columns, slices=slices)
        elif x.ndim == 2:
            kernel = call(entry="gather_matrix", launch_dims=WARP * rows * tiles)
            found = kernel(*operands, rows=rows, columns=columns)
        elif not transpose:
            kernel = call(entry="gather", launch_dims=whole_warps(rows * lanes))
            found = kernel(*operands, rows=rows)
        else:
            launch, numbers = _scattered(
                own, rows, out.shape[0], indices.size, sums, counted=event and weights.size == 1
            )
            kernel = call(**(launch or {"entry": "scatter", "launch_dims": whole_warps(rows) * slices}))
            found = kernel(*operands, rows=rows, slices=slices, **numbers)
        return [found.astype(out.dtype)]

    return product


def _scattered(
    own: _Own | None, rows: int, columns: int, elements: int, sums: Any, *, counted: bool
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return how a kernel is launched in which blocks make sums of their own, and its numbers; or nothing."""
    if own is None or elements < _LARGE or (enough := own.enough(elements // rows, counted=counted)) > rows:
        return {}, {}
    memory = own.width * sums.itemsize
    apart = {"entry": "scatter_apart", "grid": own.blocks, "shared_mem": memory, "block": _THREADS}
    return apart, {"columns": columns, "parts": own.parts, "width": own.width, "enough": enough}


@dataclass(frozen=True)
class _Own:
    """How blocks share the sums of all columns, which each keeps in its own memory: `width` of one of the parts."""

    parts: int
    width: int
    resident: int
    blocks: int

    @classmethod
    def of(cls, columns: int, sums: Any) -> _Own | None:
        """Return how, or None if there are too many columns."""
        processors, memory = cuda_multiprocessors(), Limits.of(gpu_architectures(None, cuda_capabilities)[0]).shared
        for resident in (2, 1):
            most = (memory // resident - _RESERVED) // sums.itemsize
            if 0 < (parts := -(-columns // most)) <= _PARTS:
                width = -(-columns // (parts * WARP)) * WARP
                return cls(parts, width, resident, -(-processors * resident // parts) * parts)
        return None

    def enough(self, mean: int, *, counted: bool) -> int:
        """Return from how many active rows on this is worth what it costs to collect the blocks' sums."""
        additions = self.blocks * self.width * (_COUNTED if counted else _ADDED)
        return 1 + int(additions / max(1, mean))


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
