# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of drawn matrices: how `drawing.cu` and `walks.cu` are compiled and launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from ...backends.nvrtc.kernel import cuda_kernel
from ..activity import in_words, is_active
from ..on_gpu import WARP, definitions, operand, power_of_two, whole_warps
from ..precision import precise
from .format import given
from .tables import CELLS, FRACTION, NORMAL_CELLS

__all__ = ["cuda_product", "cuda_whole", "text"]

_ROWS = 32  # from which a warp takes the active ones, at most
_WARPS = 2**13  # about those that a large GPU holds
_MOST_WARPS = 2**20  # if several share a row
_SLICE = 4096  # columns of the part of a row that a warp takes, at least
_THREADS = 2**17  # that share rows which are summed
_BLOCK = 256  # threads
_NEAR = 2**13  # words of events that a block keeps in its shared memory, at most


@functools.cache
def text() -> str:
    """Return the text of all kernels."""
    names = ("drawing.cu", "walks.cu")
    return "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)


def _kernel(entry: str, kind: int, out: Any, threads: int, types: dict[str, Any], **flags: int) -> Callable[..., Any]:
    flags = {"EVENTS": 0, "FEW": 1, "ACROSS": 1, "LANES": WARP, "WORDS": 0, **flags, "KIND": kind}
    flags |= {"CELLS": CELLS, "FRACTION": FRACTION, "NORMAL_CELLS": NORMAL_CELLS, "BLOCK": _BLOCK}
    zeroed = not entry.startswith("drawn_gather")
    types = {"E": types["A"], "O": types["A"], **types}
    options = definitions(flags)
    how: dict[str, Any] = {"launch_dims": threads, "threads_per_block": _BLOCK, "types": types, "options": options}
    return cuda_kernel(text(), entry, out, zeroed=zeroed, **how)


def cuda_product(outs: Sequence[Any], kind: int, *, transpose: bool, event: bool) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, what the matrix is drawn from, and x."""
    (out,) = outs

    def product(weights: Any, drawn: Any, tables: Any, x: Any) -> list[Any]:
        sums = precise(weights.dtype)
        parts, structure = given(kind, weights, drawn, tables)
        if x.ndim == 1 and not transpose:
            return [_rows_summed(kind, out, parts, structure, x, weights.dtype, sums, event=event)]
        x = operand(x, sums, event=event)
        rows, columns = (x.shape[0], out.shape[0]) if transpose else (out.shape[0], x.shape[0])
        wide = x.shape[1] if x.ndim == 2 else 1
        across = power_of_two(wide)
        tiles = -(-wide // across) if x.ndim == 2 else 1
        few, slices = _shares(rows, columns) if transpose else (1, 1)
        few = few if x.ndim == 1 else 1
        found = jax.ShapeDtypeStruct(out.shape, sums if transpose else out.dtype)
        types = {"W": weights.dtype, "A": sums, "E": x.dtype, "O": out.dtype}
        entry = ("drawn_scatter" if transpose else "drawn_gather") + "_matrix" * (x.ndim == 2)
        threads = WARP * -(-rows // few) * tiles * slices
        numbers = {"rows": rows, "columns": columns}
        numbers |= {"slices": slices} if transpose else {}
        numbers |= {"width": wide} if x.ndim == 2 else {}
        kernel = _kernel(entry, kind, found, threads, types, EVENTS=event, FEW=few, ACROSS=across)
        return [kernel(parts, *structure, x, **numbers).astype(out.dtype)]

    return product


def _rows_summed(
    kind: int, out: Any, parts: Any, structure: Any, x: Any, weights: Any, sums: Any, *, event: bool
) -> Any:
    """Return the sums of rows times a vector; events are packed into bits, which blocks keep near."""
    rows, columns = out.shape[0], x.shape[0]
    lanes = power_of_two(-(-_THREADS // max(1, rows)))
    x = in_words(is_active(x), 0) if event else operand(x, sums, event=False)
    words = power_of_two(x.shape[0], _NEAR) if event and x.shape[0] <= _NEAR else 0
    types = {"W": weights, "A": sums, "E": x.dtype, "O": out.dtype}
    entry, threads = "drawn_gather_bits" if event else "drawn_gather", whole_warps(rows * lanes)
    kernel = _kernel(entry, kind, out, threads, types, EVENTS=event, LANES=lanes, WORDS=words)
    return kernel(parts, *structure, x, rows=rows, columns=columns)


def cuda_whole(outs: Sequence[Any], kind: int) -> Callable[..., Any]:
    """Return the matrix as a dense one, as a JAX function of weights and what it is drawn from."""
    (out,) = outs
    rows, columns = out.shape

    def whole(weights: Any, drawn: Any, tables: Any) -> list[Any]:
        parts, structure = given(kind, weights, drawn, tables)
        types = {"W": weights.dtype, "A": precise(weights.dtype)}
        result = jax.ShapeDtypeStruct(out.shape, weights.dtype)
        kernel = _kernel("drawn_whole", kind, result, WARP * rows, types)
        return [kernel(parts, *structure, rows=rows, columns=columns).astype(out.dtype)]

    return whole


def _shares(rows: int, columns: int) -> tuple[int, int]:
    """Return the number of rows from which a warp takes the active ones, and the number of warps that share a row.

    >>> _shares(1000, 1000), _shares(100_000, 100_000), _shares(1_000_000, 1_000_000)
    ((1, 1), (32, 10), (32, 1))
    """
    slices = max(1, min(columns // _SLICE, _MOST_WARPS // max(1, rows)))
    return power_of_two(rows * slices // _WARPS, _ROWS), slices
