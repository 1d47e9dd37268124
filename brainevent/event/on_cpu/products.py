# SPDX-License-Identifier: Apache-2.0
"""Kernels of products, `kernel(weights, structure, x, out)`: which walk, by one thread or shared by several.

For `A @ x`, threads share the rows. For `A.T @ x` each thread has sums of its own, which are merged in the end. That
pays if there are more elements than sums, so with few events fewer threads share them. If rows are sorted and not
short, each thread adds some columns of all rows instead, unless there are far more elements than sums: then whole rows
are faster.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner, with_of_zeros
from . import coordinates, visits, walks
from .coordinates import Coordinates
from .rows import Rows
from .terms import Terms
from .threads import IN_THREADS, are_long, are_worth_it, of_events, of_rows, threads_for, threads_for_columns

__all__ = ["in_rows", "kernel", "merging"]


def kernel(
    of: Terms,
    rows: Rows | Coordinates,
    arrays: Sequence[Any],
    *,
    number: int,
    stored: int,
    transpose: bool,
    ndim: int,
    in_order: bool = False,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel of a matrix with the terms of a law, and the structure that the kernel takes.

    `number` is that of rows, `stored` that of elements, `ndim` the rank of x, and `in_order` says whether the columns
    of each row ascend.
    """
    if isinstance(rows, Coordinates):
        return _of_elements(of, rows, ndim=ndim), rows.structure(*arrays, transpose=transpose)
    found = _of_rows(
        of,
        rows,
        transpose=transpose,
        ndim=ndim,
        threads=are_worth_it(stored),
        long=are_long(number, stored, in_order=in_order),
    )
    return found, rows.structure(*arrays)


@functools.cache
def _of_elements(of: Terms, elements: Coordinates, *, ndim: int) -> Any:
    make = coordinates.gather_element_columns if ndim == 2 else coordinates.gather_elements
    return make(of, elements)


@functools.cache
def _of_rows(of: Terms, rows: Rows, *, transpose: bool, ndim: int, threads: bool, long: bool) -> Any:
    def kernel(walk: Any, of_zeros: Any = None) -> Any:
        if not threads:
            return by_one_thread(of_zeros or walk, transpose=transpose)
        if long and of.event and transpose and ndim == 1 and rows.columns:
            return in_rows_or_columns(walk, visits.scatter_part(of, rows), of, rows, of_zeros=of_zeros)
        return in_rows(walk, of, rows, transpose=transpose, of_zeros=of_zeros)

    if transpose and ndim == 1:
        scatter = visits.scatter_events if of.event else walks.scatter
        walk = scatter(of, rows)
        return with_of_zeros(kernel(walk), kernel(walk, scatter(of, rows, clears=False)))
    return kernel(_walk(of, rows, transpose=transpose, ndim=ndim))


def _walk(of: Terms, rows: Rows, *, transpose: bool, ndim: int) -> Any:
    if not transpose:
        return walks.gather_columns(of, rows) if ndim == 2 else walks.gather(of.gathered or of, rows)
    return visits.scatter_event_columns(of, rows) if of.event else walks.scatter_columns(of, rows)


# ---- by one thread, or several


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


def in_rows(walk: Any, of: Terms, rows: Rows, *, transpose: bool, of_zeros: Any = None) -> Any:
    """Return the kernel in which threads share the rows; one thread walks through sums that are zero by `of_zeros`."""
    stored, merge, alone = rows.stored, merging(of), of_zeros or walk

    @inner(parallel=dict(IN_THREADS))
    def in_threads(weights: Any, structure: Any, x: Any, out: Any) -> None:
        number = x.shape[0] if transpose else out.shape[0]
        elements = stored(structure)
        threads = threads_for(of_events(elements, x), out.size) if transpose else threads_for(elements, 0)
        if threads < 2:
            alone(weights, structure, x, np.int64(0), number, out)
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


def in_rows_or_columns(walk: Any, of_part: Any, of: Terms, rows: Rows, *, of_zeros: Any = None) -> Any:
    """Return the kernel of a transposed product in which threads share the rows, or the sums.

    One thread walks through sums that are zero by `of_zeros`.
    """
    stored, merge, alone = rows.stored, merging(of), of_zeros or walk

    @inner(parallel=dict(IN_THREADS))
    def in_rows_or_columns(weights: Any, structure: Any, x: Any, out: Any) -> None:
        number, size = x.shape[0], out.shape[0]
        elements, row = of_events(stored(structure), x), stored(structure) // max(1, number)
        by_columns = threads_for_columns(elements, size, row)
        threads = by_columns if by_columns else threads_for(elements, size)
        if threads < 2:
            alone(weights, structure, x, np.int64(0), number, out)
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


def merging(of: Terms) -> Any:
    """Return a function that merges the sums of all threads; each thread merges some columns."""
    merge = of.merge

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
