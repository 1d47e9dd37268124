# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of products with a matrix of equally long rows: `kernel(weights, indices, x, out)`.

`gather` computes `A @ x` row by row. `scatter` computes `A.T @ x`: with events it lists the rows of events first, some
hundred at a time, so that it can ask memory for elements before it adds them. Weights are flat here, and events
are booleans.
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

__all__ = ["kernel"]

_ANY_ORDER = {"reassoc", "nsz"}  # of additions, so that many are made at a time


@functools.cache
def kernel(
    dtype: str,
    *,
    event: bool,
    homogeneous: bool,
    within: bool,
    transpose: bool,
    ndim: int,
    threads: bool = False,
    long: bool = False,
) -> Any:
    """Return the kernel for weights of a dtype, one or many, and an operand x of a rank.

    If `within`, all indices are known to be in range. If `long`, threads may share each row, whose columns ascend.
    """
    of, at = terms(dtype, event=event, homogeneous=homogeneous), places(within=within)
    if threads:
        serial = kernel(dtype, event=event, homogeneous=homogeneous, within=within, transpose=transpose, ndim=ndim)
        if long and event and transpose and ndim == 1:
            return _in_rows_or_columns(serial, _scatter_columns(of, at), homogeneous=homogeneous)
        return _in_threads(serial, homogeneous=homogeneous, transpose=transpose)
    if not transpose:
        if ndim == 2:
            return _gather_matrix(of, at)
        return _count(of) if event and homogeneous else _gather(of, at)
    if event:
        return _scatter_event_matrix(of, at) if ndim == 2 else _scatter_events(of, at)
    return _scatter_matrix(of, at) if ndim == 2 else _scatter(of, at)


def _of_part(*, homogeneous: bool) -> Any:
    """Return a function that returns the weights of some rows."""

    @inner
    def of_part(weights: Any, indices: Any, first: int, last: int) -> Any:
        return weights if homogeneous else weights[first * indices.shape[1] : last * indices.shape[1]]

    return of_part


def _in_threads(serial: Callable[..., Any], *, homogeneous: bool, transpose: bool) -> Any:
    of_part = _of_part(homogeneous=homogeneous)

    @inner(parallel=dict(IN_THREADS))
    def in_threads(weights: Any, indices: Any, x: Any, out: Any) -> None:
        rows = indices.shape[0]
        threads = threads_for(of_events(indices.size, x), out.size) if transpose else threads_for(indices.size, 0)
        if threads < 2:
            serial(weights, indices, x, out)
        elif transpose:
            sums = np.empty((threads,) + out.shape, out.dtype)  # noqa: RUF005 - Numba knows no other way
            for thread in numba.prange(threads):
                first, last = of_rows(rows, thread, threads)
                serial(of_part(weights, indices, first, last), indices[first:last], x[first:last], sums[thread])
            add_up(sums.reshape(threads, out.size), out.reshape(out.size))
        else:
            for thread in numba.prange(threads):
                first, last = of_rows(rows, thread, threads)
                serial(of_part(weights, indices, first, last), indices[first:last], x, out[first:last])

    return in_threads


def _in_rows_or_columns(serial: Callable[..., Any], in_columns: Callable[..., Any], *, homogeneous: bool) -> Any:
    of_part = _of_part(homogeneous=homogeneous)

    @inner(parallel=dict(IN_THREADS))
    def in_rows_or_columns(weights: Any, indices: Any, x: Any, out: Any) -> None:
        rows, size, elements = indices.shape[0], out.shape[0], of_events(indices.size, x)
        by_columns = threads_for_columns(elements, size, indices.shape[1])
        threads = by_columns if by_columns else threads_for(elements, size)
        if threads < 2:
            serial(weights, indices, x, out)
            return
        sums = np.empty((0 if by_columns else threads, size), out.dtype)
        for thread in numba.prange(threads):
            if by_columns:
                first, last = of_rows(size, thread, threads)
                in_columns(weights, indices, x, out, first, last)
            else:
                first, last = of_rows(rows, thread, threads)
                serial(of_part(weights, indices, first, last), indices[first:last], x[first:last], sums[thread])
        if not by_columns:
            add_up(sums, out)

    return in_rows_or_columns


def _scatter_events(of: Terms, at: Places) -> Any:
    add = add_rows_listed(of, at)

    @inner
    def scatter_events(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        columns, listed = indices.reshape(indices.size), np.empty((3, LISTED + BLOCK), np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < x.shape[0]:
            start, found = _list_rows(indices.shape[1], x, start, listed)
            add(weights, columns, columns, listed[1], listed[2], found, out)

    return scatter_events


def _scatter_columns(of: Terms, at: Places) -> Any:
    """Return a function that computes the sums of some columns, which ascend in each row."""
    add = add_rows_listed(of, at)

    @inner
    def scatter_columns(weights: Any, indices: Any, x: Any, out: Any, first: int, last: int) -> None:
        out[first:last] = 0
        columns, listed = indices.reshape(indices.size), np.empty((3, LISTED + BLOCK), np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < x.shape[0]:
            start, found = _list_rows(indices.shape[1], x, start, listed)
            cut_rows(columns, listed[1], listed[2], found, first, last, out.shape[0])
            add(weights, columns, columns, listed[1], listed[2], found, out)

    return scatter_columns


@inner
def _list_rows(width: int, x: Any, start: int, listed: Any) -> tuple[int, int]:
    """List rows of events from `start` on, and where they begin and end."""
    start, found = list_events(x, start, listed[0])
    for k in range(found):
        listed[1, k] = listed[0, k] * width
        listed[2, k] = listed[1, k] + width
    return start, found


def _scatter_event_matrix(of: Terms, at: Places) -> Any:
    common, weight, has = of.common, of.weight, at.has

    @inner
    def scatter_event_matrix(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        flat, across = x.reshape(x.size), x.shape[1]
        found_at = np.empty(LISTED + BLOCK, np.int64)
        start = np.int64(0)  # a literal would be a type of its own, to compile for
        while start < flat.shape[0]:
            start, found = list_events(flat, start, found_at)
            first = 0
            while first < found:
                row = found_at[first] // across
                last, begin = first, row * across
                while last < found and found_at[last] < begin + across:  # events of one row, as their columns
                    found_at[last] -= begin
                    last += 1
                for j in range(unsigned(row * width), unsigned(row * width + width)):
                    here, target = weight(one, weights, j), unsigned(columns[j])
                    for k in range(first, last if has(target, out.shape[0]) else first):
                        out[target, unsigned(found_at[k])] += here
                first = last

    return scatter_event_matrix


def _scatter(of: Terms, at: Places) -> Any:
    common, weight, term, add_to = of.common, of.weight, of.term, at.add

    @inner
    def scatter(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        for row in range(x.shape[0]):
            value = x[row]
            for j in range(unsigned(row * width), unsigned(row * width + width)):
                add_to(out, columns[j], term(weight(one, weights, j), value))

    return scatter


def _scatter_matrix(of: Terms, at: Places) -> Any:
    common, weight, term, has = of.common, of.weight, of.term, at.has

    @inner
    def scatter_matrix(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        for row in range(x.shape[0]):
            for j in range(unsigned(row * width), unsigned(row * width + width)):
                here, target = weight(one, weights, j), unsigned(columns[j])
                if has(target, out.shape[0]):
                    for b in range(x.shape[1]):
                        out[target, b] += term(here, x[row, b])

    return scatter_matrix


def _count(of: Terms) -> Any:
    common = of.common

    @inner
    def count(weights: Any, indices: Any, x: Any, out: Any) -> None:
        weight, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        size = unsigned(x.shape[0])
        for row in range(out.shape[0]):
            events = 0
            for j in range(unsigned(row * width), unsigned(row * width + width)):
                column = unsigned(columns[j])
                if column < size:  # tested always: else many events are read at a time, which is slower
                    events += x[column]
            out[row] = 0
            if events:  # else a weight that is NaN adds nothing
                out[row] = events * weight

    return count


def _gather(of: Terms, at: Places) -> Any:
    common, weight, counts, term, has = of.common, of.weight, of.counts, of.term, at.has

    @inner(fastmath=_ANY_ORDER)
    def gather(weights: Any, indices: Any, x: Any, out: Any) -> None:
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        for row in range(out.shape[0]):
            total = out.dtype.type(0)
            for j in range(unsigned(row * width), unsigned(row * width + width)):
                if has(columns[j], x.shape[0]):
                    value = x[unsigned(columns[j])]
                    if counts(value):
                        total += term(weight(one, weights, j), value)
            out[row] = total

    return gather


def _gather_matrix(of: Terms, at: Places) -> Any:
    common, weight, counts, term, has = of.common, of.weight, of.counts, of.term, at.has

    @inner
    def gather_matrix(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        nothing = out.dtype.type(0)
        for row in range(out.shape[0]):
            target = unsigned(row)  # an index that may be negative would keep the sums from being vectors
            for j in range(unsigned(row * width), unsigned(row * width + width)):
                here, source = weight(one, weights, j), unsigned(columns[j])
                if has(source, x.shape[0]):
                    for b in range(x.shape[1]):  # read once, and a choice, not a branch, for the same reason
                        value = x[source, b]
                        adds = term(here, value)
                        out[target, b] += adds if counts(value) else nothing

    return gather_matrix
