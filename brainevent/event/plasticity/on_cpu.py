# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of plasticity: `kernel(weights, *structure, spikes, trace, after, out)`, where `out` starts as weights.

Spikes are booleans, and a whole block of neurons without one is looked at at once. What is out of range is left alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...backends.numba import half, inner
from ..on_cpu import BLOCK, no_event, places, unsigned

__all__ = ["of_columns", "of_equal_slices", "of_indexed_slices", "of_rows", "of_slices"]

_HALVES = {
    "float16": (half.from_float16, half.to_float16),
    "bfloat16": (half.from_bfloat16, half.to_bfloat16),
}


@functools.cache
def _adding(dtype: str) -> Any:
    """Return a function that adds to a weight of a dtype; Numba has no arithmetic in 16 bits."""
    if dtype not in _HALVES:
        return inner(lambda weight, change: weight + change)
    load, store = _HALVES[dtype]
    return inner(lambda weight, change: store(load(weight) + change))


@inner
def _next_event(x: Any, start: int) -> int:
    """Return where the next event is, from start on, or the size of x."""
    size = x.shape[0]
    while start < size:
        stop = min(start + BLOCK - start % BLOCK, size)
        if not no_event(x, start, stop):
            while start < stop:
                if x[unsigned(start)]:
                    return start
                start += 1
        start = stop
    return size


@functools.cache
def of_slices(dtype: str, *, within: bool) -> Callable[..., Any]:
    """Return the kernel for elements that are stored slice by slice: rows, or columns."""
    add, at = _adding(dtype), places(within=within)
    has, cut = at.has, at.row

    @inner
    def kernel(weights: Any, indices: Any, indptr: Any, spikes: Any, trace: Any, after: Any, out: Any) -> None:
        i = _next_event(spikes, 0)
        while i < spikes.shape[0]:
            begin, end = cut(indptr, i, indices.shape[0])
            for j in range(begin, end):
                if has(indices[j], trace.shape[0]):
                    out[j] = add(out[j], trace[unsigned(indices[j])])
            i = _next_event(spikes, i + 1)

    return kernel


@functools.cache
def of_indexed_slices(dtype: str, *, within: bool) -> Callable[..., Any]:
    """Return the kernel for slices whose element j has the weight at `perm[j]`."""
    add, at = _adding(dtype), places(within=within)
    has, cut = at.has, at.row

    @inner
    def kernel(
        weights: Any, indices: Any, indptr: Any, perm: Any, trace: Any, spikes: Any, after: Any, out: Any
    ) -> None:
        i = _next_event(spikes, 0)
        while i < spikes.shape[0]:
            begin, end = cut(indptr, i, indices.shape[0])
            for j in range(begin, end):
                if has(indices[j], trace.shape[0]) and has(perm[j], out.shape[0]):
                    place = unsigned(perm[j])
                    out[place] = add(out[place], trace[unsigned(indices[j])])
            i = _next_event(spikes, i + 1)

    return kernel


@functools.cache
def of_equal_slices(dtype: str, *, within: bool) -> Callable[..., Any]:
    """Return the kernel for slices of as many elements: weights and indices are matrices."""
    add, has = _adding(dtype), places(within=within).has

    @inner
    def kernel(weights: Any, indices: Any, spikes: Any, trace: Any, after: Any, out: Any) -> None:
        i = _next_event(spikes, 0)
        while i < spikes.shape[0]:
            for j in range(indices.shape[1]):
                if has(indices[i, j], trace.shape[0]):
                    out[i, j] = add(out[i, j], trace[unsigned(indices[i, j])])
            i = _next_event(spikes, i + 1)

    return kernel


@functools.cache
def of_rows(dtype: str) -> Callable[..., Any]:
    """Return the kernel for rows of a dense matrix."""
    add = _adding(dtype)

    @inner
    def kernel(weights: Any, spikes: Any, trace: Any, after: Any, out: Any) -> None:
        i = _next_event(spikes, 0)
        while i < spikes.shape[0]:
            for j in range(trace.shape[0]):
                out[i, j] = add(out[i, j], trace[j])
            i = _next_event(spikes, i + 1)

    return kernel


@functools.cache
def of_columns(dtype: str) -> Callable[..., Any]:
    """Return the kernel for columns of a dense matrix."""
    add = _adding(dtype)

    @inner
    def kernel(weights: Any, trace: Any, spikes: Any, after: Any, out: Any) -> None:
        first = _next_event(spikes, 0)
        if first < spikes.shape[0]:
            for i in range(trace.shape[0]):
                j = first
                while j < spikes.shape[0]:
                    out[i, j] = add(out[i, j], trace[i])
                    j = _next_event(spikes, j + 1)

    return kernel
