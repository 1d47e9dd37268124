# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of products with a matrix in compressed sparse rows: `kernel(weights, indices, indptr, perm, x, out)`.

`gather` computes `A @ x` row by row. `scatter` computes `A.T @ x`: with events it lists the rows of events first, some
hundred at a time, so that it can ask memory for elements before it adds them. Events are booleans here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ...backends.numba import inner
from ..on_cpu import BLOCK, LISTED, Places, Terms, places, terms, unsigned
from ..on_cpu_events import add_rows_listed, cut_rows, list_events
from ..on_cpu_threads import (
    IN_THREADS,
    add_up,
    of_events,
    of_rows,
    threads_for,
    threads_for_columns,
)

__all__ = ["add_rows", "kernel", "per_element", "slice_rows"]

_ANY_ORDER = {"reassoc", "nsz"}  # of additions, so that many are made at a time


@functools.cache
def kernel(
    dtype: str,
    *,
    event: bool,
    homogeneous: bool,
    indexed: bool,
    within: bool,
    transpose: bool,
    ndim: int,
    threads: bool = False,
    long: bool = False,
) -> Any:
    """Return the kernel for weights of a dtype, one or many, in order or by a permutation, and an x of a rank.

    If `within`, all indices are known to be in range. If `long`, threads may share each row, whose columns ascend.
    """
    of, at = terms(dtype, event=event, homogeneous=homogeneous), places(within=within, indexed=indexed)
    if threads:
        options = {"event": event, "homogeneous": homogeneous, "indexed": indexed, "within": within}
        serial = kernel(dtype, **options, transpose=transpose, ndim=ndim)
        if long and event and transpose and ndim == 1:
            return _in_rows_or_columns(serial, _scatter_columns(of, at))
        return _in_threads(serial, transpose=transpose)
    if not transpose:
        if ndim == 2:
            return _gather_matrix(of, at)
        return _count(of, at) if event and homogeneous else _gather(of, at)
    if event:
        return _scatter_event_matrix(of, at) if ndim == 2 else _scatter_events(of, at)
    return _scatter_matrix(of, at) if ndim == 2 else _scatter(of, at)


def _in_threads(serial: Callable[..., Any], *, transpose: bool) -> Any:
    @inner(parallel=dict(IN_THREADS))
    def in_threads(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        rows = indptr.shape[0] - 1
        threads = threads_for(of_events(indices.size, x), out.size) if transpose else threads_for(indices.size, 0)
        if threads < 2:
            serial(weights, indices, indptr, perm, x, out)
        elif transpose:
            sums = np.empty((threads,) + out.shape, out.dtype)  # noqa: RUF005 - Numba knows no other way
            for thread in numba.prange(threads):
                first, last = of_rows(rows, thread, threads)
                serial(weights, indices, indptr[first : last + 1], perm, x[first:last], sums[thread])
            add_up(sums.reshape(threads, out.size), out.reshape(out.size))
        else:
            for thread in numba.prange(threads):
                first, last = of_rows(rows, thread, threads)
                serial(weights, indices, indptr[first : last + 1], perm, x, out[first:last])

    return in_threads


def _in_rows_or_columns(serial: Callable[..., Any], in_columns: Callable[..., Any]) -> Any:
    @inner(parallel=dict(IN_THREADS))
    def in_rows_or_columns(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        rows, size, elements = indptr.shape[0] - 1, out.shape[0], of_events(indices.size, x)
        by_columns = threads_for_columns(elements, size, indices.size // max(1, rows))
        threads = by_columns if by_columns else threads_for(elements, size)
        if threads < 2:
            serial(weights, indices, indptr, perm, x, out)
            return
        sums = np.empty((0 if by_columns else threads, size), out.dtype)
        for thread in numba.prange(threads):
            if by_columns:
                first, last = of_rows(size, thread, threads)
                in_columns(weights, indices, indptr, perm, x, out, first, last)
            else:
                first, last = of_rows(rows, thread, threads)
                serial(weights, indices, indptr[first : last + 1], perm, x[first:last], sums[thread])
        if not by_columns:
            add_up(sums, out)

    return in_rows_or_columns


def _scatter_events(of: Terms, at: Places) -> Any:
    add, list_rows = add_rows_listed(of, at), _list_rows(at)

    @inner
    def scatter_events(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        out[:] = 0
        listed = np.empty((3, LISTED + BLOCK), np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < x.shape[0]:
            start, found = list_rows(indptr, x, start, indices.size, listed)
            add(weights, indices, perm, listed[1], listed[2], found, out)

    return scatter_events


def _scatter_columns(of: Terms, at: Places) -> Any:
    """Return a function that computes the sums of some columns, which ascend in each row."""
    add, list_rows = add_rows_listed(of, at), _list_rows(at)

    @inner
    def scatter_columns(
        weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any, first: int, last: int
    ) -> None:
        out[first:last] = 0
        listed = np.empty((3, LISTED + BLOCK), np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < x.shape[0]:
            start, found = list_rows(indptr, x, start, indices.size, listed)
            cut_rows(indices, listed[1], listed[2], found, first, last, out.shape[0])
            add(weights, indices, perm, listed[1], listed[2], found, out)

    return scatter_columns


def _list_rows(at: Places) -> Any:
    """Return a function that lists rows of events from `start` on, and where they begin and end."""
    row_of = at.row

    @inner
    def list_rows(indptr: Any, x: Any, start: int, stored: int, listed: Any) -> tuple[int, int]:
        start, found = list_events(x, start, listed[0])
        for k in range(found):
            listed[1, k], listed[2, k] = row_of(indptr, listed[0, k], stored)
        return start, found

    return list_rows


def _scatter_event_matrix(of: Terms, at: Places) -> Any:
    common, weight, row_of, has, where = of.common, of.weight, at.row, at.has, at.of_weight

    @inner
    def scatter_event_matrix(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, flat = common(weights), x.shape[1], x.reshape(x.size)
        found_at = np.empty(LISTED + BLOCK, np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < flat.shape[0]:
            start, found = list_events(flat, start, found_at)
            first = 0
            while first < found:
                row = found_at[first] // width
                last, begin_of_row = first, row * width
                while last < found and found_at[last] < begin_of_row + width:  # events of one row, as their columns
                    found_at[last] -= begin_of_row
                    last += 1
                begin, end = row_of(indptr, row, indices.size)
                for j in range(begin, end):
                    here, target = weight(one, weights, where(perm, j, weights)), unsigned(indices[j])
                    for k in range(first, last if has(target, out.shape[0]) else first):
                        out[target, unsigned(found_at[k])] += here
                first = last

    return scatter_event_matrix


def _scatter(of: Terms, at: Places) -> Any:
    common, weight, term, row_of, where, add_to = of.common, of.weight, of.term, at.row, at.of_weight, at.add

    @inner
    def scatter(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one = common(weights)
        for row in range(x.shape[0]):
            value = x[row]
            begin, end = row_of(indptr, row, indices.size)
            for j in range(begin, end):
                add_to(out, indices[j], term(weight(one, weights, where(perm, j, weights)), value))

    return scatter


def _scatter_matrix(of: Terms, at: Places) -> Any:
    common, weight, term, row_of, has, where = of.common, of.weight, of.term, at.row, at.has, at.of_weight

    @inner
    def scatter_matrix(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one = common(weights)
        for row in range(x.shape[0]):
            begin, end = row_of(indptr, row, indices.size)
            for j in range(begin, end):
                here, target = weight(one, weights, where(perm, j, weights)), unsigned(indices[j])
                if has(target, out.shape[0]):
                    for b in range(x.shape[1]):
                        out[target, b] += term(here, x[row, b])

    return scatter_matrix


def _count(of: Terms, at: Places) -> Any:
    common, row_of = of.common, at.row

    @inner
    def count(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        weight, size = common(weights), unsigned(x.shape[0])
        for row in range(out.shape[0]):
            events = 0
            begin, end = row_of(indptr, row, indices.size)
            for j in range(begin, end):
                column = unsigned(indices[j])
                if column < size:  # tested always: else many events are read at a time, which is slower
                    events += x[column]
            out[row] = 0
            if events:  # else a weight that is NaN adds nothing
                out[row] = events * weight

    return count


def _gather(of: Terms, at: Places) -> Any:
    common, weight, counts, term = of.common, of.weight, of.counts, of.term
    row_of, has, where = at.row, at.has, at.of_weight

    @inner(fastmath=_ANY_ORDER)
    def gather(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        one = common(weights)
        for row in range(out.shape[0]):
            total = out.dtype.type(0)
            begin, end = row_of(indptr, row, indices.size)
            for j in range(begin, end):
                if has(indices[j], x.shape[0]):
                    value = x[unsigned(indices[j])]
                    if counts(value):
                        total += term(weight(one, weights, where(perm, j, weights)), value)
            out[row] = total

    return gather


def _gather_matrix(of: Terms, at: Places) -> Any:
    common, weight, counts, term = of.common, of.weight, of.counts, of.term
    row_of, has, where = at.row, at.has, at.of_weight

    @inner
    def gather_matrix(weights: Any, indices: Any, indptr: Any, perm: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, nothing = common(weights), out.dtype.type(0)
        for row in range(out.shape[0]):
            begin, end = row_of(indptr, row, indices.size)
            for j in range(begin, end):
                here, column = weight(one, weights, where(perm, j, weights)), unsigned(indices[j])
                if has(column, x.shape[0]):
                    for b in range(out.shape[1]):  # a choice, not a branch, so that many are made at a time
                        out[row, b] += term(here, x[column, b]) if counts(x[column, b]) else nothing

    return gather_matrix


_SAFE = places(within=False)
_row_of, _has, _add = _SAFE.row, _SAFE.has, _SAFE.add  # of the rest, which is less often asked for


@inner(fastmath=_ANY_ORDER)
def per_element(indices: Any, indptr: Any, of_rows: Any, of_columns: Any, out: Any) -> None:
    """Write the product of the row's and the column's values of each stored element, summed over further axes."""
    out[:] = 0
    for row in range(min(of_rows.shape[0], indptr.shape[0] - 1)):
        begin, end = _row_of(indptr, row, indices.size)
        for j in range(begin, end):
            column, total = unsigned(indices[j]), out.dtype.type(0)
            if _has(column, of_columns.shape[0]):
                for b in range(of_rows.shape[1]):
                    total += of_rows[row, b] * of_columns[column, b]
            out[j] = total


@functools.cache
def slice_rows(dtype: str, *, homogeneous: bool) -> Any:
    """Return the kernel that writes chosen rows as dense ones; a row that there is not is zeros."""
    of = terms(dtype, event=True, homogeneous=homogeneous)
    common, weight = of.common, of.weight

    @inner
    def sliced(weights: Any, indices: Any, indptr: Any, chosen: Any, out: Any) -> None:
        out[:] = 0
        one = common(weights)
        for i in range(chosen.shape[0]):
            row = chosen[i]
            if 0 <= row < indptr.shape[0] - 1:
                begin, end = _row_of(indptr, row, indices.size)
                for j in range(begin, end):
                    _add(out[i], indices[j], weight(one, weights, j))

    return sliced


@inner
def add_rows(indices: Any, indptr: Any, chosen: Any, dense: Any, out: Any) -> None:
    """Add dense rows to the elements of the rows that they stand for."""
    out[:] = 0
    for i in range(chosen.shape[0]):
        row = chosen[i]
        if 0 <= row < indptr.shape[0] - 1:
            begin, end = _row_of(indptr, row, indices.size)
            for j in range(begin, end):
                if _has(indices[j], dense.shape[1]):
                    out[j] += dense[i, unsigned(indices[j])]
