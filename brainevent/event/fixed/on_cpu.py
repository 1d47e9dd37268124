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
        in_rows = _in_threads(serial, homogeneous=homogeneous, transpose=transpose)
        by_columns = long and event and transpose and ndim == 1
        return _in_columns(_scatter_columns(of, at), in_rows, serial) if by_columns else in_rows
    if not transpose:
        if ndim == 2:
            return _gather_matrix(of, at)
        return _count(of) if event and homogeneous else _gather(of, at)
    if event:
        return _scatter_event_matrix(of, at) if ndim == 2 else _scatter_events(of, at)
    return _scatter_matrix(of, at) if ndim == 2 else _scatter(of, at)


def _in_threads(serial: Callable[..., Any], *, homogeneous: bool, transpose: bool) -> Any:
    @numba.njit
    def of_part(weights: Any, indices: Any, first: int, last: int) -> Any:
        return weights if homogeneous else weights[first * indices.shape[1] : last * indices.shape[1]]

    @numba.njit(parallel=dict(IN_THREADS))
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


def _in_columns(add: Callable[..., Any], in_rows: Callable[..., Any], serial: Callable[..., Any]) -> Any:
    @numba.njit(parallel=dict(IN_THREADS))
    def in_columns(weights: Any, indices: Any, x: Any, out: Any) -> None:
        elements = of_events(indices.size, x)
        threads = threads_for_columns(elements, out.size)
        if threads > 1:
            for thread in numba.prange(threads):
                first, last = of_rows(out.size, thread, threads)
                add(weights, indices, x, out, first, last)
        elif threads_for(elements, out.size) > 1:
            in_rows(weights, indices, x, out)
        else:
            serial(weights, indices, x, out)

    return in_columns


def _scatter_events(of: Terms, at: Places) -> Any:
    add = _scatter_columns(of, at)

    @numba.njit
    def scatter_events(weights: Any, indices: Any, x: Any, out: Any) -> None:
        add(weights, indices, x, out, 0, out.shape[0])

    return scatter_events


def _scatter_columns(of: Terms, at: Places) -> Any:
    """Return a function that computes the sums of some columns; not of all only if columns ascend in each row."""
    add = add_rows_listed(of, at)

    @numba.njit
    def scatter_columns(weights: Any, indices: Any, x: Any, out: Any, first: int, last: int) -> None:
        out[first:last] = 0
        width, columns = indices.shape[1], indices.reshape(indices.size)
        listed = np.empty((3, LISTED + BLOCK), np.int64)
        rows, here, end = listed[0], listed[1], listed[2]
        start = 0
        while start < x.shape[0]:
            start, found = list_events(x, start, rows)
            for k in range(found):
                here[k] = rows[k] * width
                end[k] = here[k] + width
            if last - first < out.shape[0]:
                cut_rows(columns, here, end, found, first, last, out.shape[0])
            add(weights, columns, columns, here, end, found, out)

    return scatter_columns


def _scatter_event_matrix(of: Terms, at: Places) -> Any:
    common, weight, has = of.common, of.weight, at.has

    @numba.njit
    def scatter_event_matrix(weights: Any, indices: Any, x: Any, out: Any) -> None:
        out[:] = 0
        one, width, columns = common(weights), indices.shape[1], indices.reshape(indices.size)
        flat, across = x.reshape(x.size), x.shape[1]
        found_at = np.empty(LISTED + BLOCK, np.int64)
        start = 0
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

    @numba.njit
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

    @numba.njit
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

    @numba.njit
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

    @numba.njit(fastmath=_ANY_ORDER)
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

    @numba.njit
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
