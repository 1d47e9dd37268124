# SPDX-License-Identifier: Apache-2.0
"""Kernels `kernel(weights, structure, x, out)` of a walk: by one thread, or shared by several.

For `A @ x`, threads share the rows. For `A.T @ x` each thread has sums of its own, which are merged in the end. That
pays if there are more elements than sums, so with few events fewer threads share them. If rows are sorted and not
short, each thread adds some columns of all rows instead, unless there are far more elements than sums: then whole rows
are faster.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba import inner
from .laws import Law
from .rows import Rows
from .threads import IN_THREADS, of_events, of_rows, threads_for, threads_for_columns

__all__ = ["by_one_thread", "in_rows", "in_rows_or_columns", "merging"]


def by_one_thread(walk: Any, *, transpose: bool) -> Any:
    """Return the kernel that walks through all rows."""
    fastmath = walk.targetoptions.get("fastmath", False)
    name = walk.py_func.__name__
    walk = inner(inline="always")(walk.py_func)  # inlined, as a separate function would be optimized twice

    def kernel(weights: Any, structure: Any, x: Any, out: Any) -> None:
        number = x.shape[0] if transpose else out.shape[0]
        walk(weights, structure, x, np.int64(0), np.int64(number), out)

    kernel.__name__ = name
    return inner(fastmath=fastmath)(kernel)


def in_rows(walk: Any, law: Law, rows: Rows, *, transpose: bool) -> Any:
    """Return the kernel in which threads share the rows."""
    stored, merge = rows.stored, merging(law)

    @inner(parallel=dict(IN_THREADS))
    def in_threads(weights: Any, structure: Any, x: Any, out: Any) -> None:
        number = x.shape[0] if transpose else out.shape[0]
        elements = stored(structure)
        threads = threads_for(of_events(elements, x), out.size) if transpose else threads_for(elements, 0)
        if threads < 2:
            walk(weights, structure, x, np.int64(0), number, out)
        elif transpose:
            sums = np.empty((threads,) + out.shape, out.dtype)  # noqa: RUF005 - Numba knows no other way
            for thread in numba.prange(threads):
                first, last = of_rows(number, thread, threads)
                walk(weights, structure, x, first, last, sums[thread])
            merge(sums.reshape(threads, out.size), out.reshape(out.size))
        else:
            for thread in numba.prange(threads):
                first, last = of_rows(number, thread, threads)
                walk(weights, structure, x, first, last, out)

    return in_threads


def in_rows_or_columns(walk: Any, of_part: Any, law: Law, rows: Rows) -> Any:
    """Return the kernel of a transposed product in which threads share the rows, or the sums."""
    stored, merge = rows.stored, merging(law)

    @inner(parallel=dict(IN_THREADS))
    def in_rows_or_columns(weights: Any, structure: Any, x: Any, out: Any) -> None:
        number, size = x.shape[0], out.shape[0]
        elements, row = of_events(stored(structure), x), stored(structure) // max(1, number)
        by_columns = threads_for_columns(elements, size, row)
        threads = by_columns if by_columns else threads_for(elements, size)
        if threads < 2:
            walk(weights, structure, x, np.int64(0), number, out)
            return
        sums = np.empty((0 if by_columns else threads, size), out.dtype)
        for thread in numba.prange(threads):
            if by_columns:
                first, last = of_rows(size, thread, threads)
                of_part(weights, structure, x, first, last, out)
            else:
                first, last = of_rows(number, thread, threads)
                walk(weights, structure, x, first, last, sums[thread])
        if not by_columns:
            merge(sums, out)

    return in_rows_or_columns


def merging(law: Law) -> Any:
    """Return a function that merges the sums of all threads; each thread merges some columns."""
    merge = law.merge

    @inner(parallel=dict(IN_THREADS))
    def merge_sums(sums: Any, out: Any) -> None:
        threads, size = sums.shape
        for thread in numba.prange(threads):
            first, last = of_rows(size, thread, threads)
            for i in range(first, last):
                total = sums[0, i]
                for other in range(1, threads):
                    total = merge(total, sums[other, i])
                out[i] = total

    return merge_sums
