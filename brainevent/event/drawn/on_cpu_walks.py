# SPDX-License-Identifier: Apache-2.0
"""Kernels of drawn matrices in Numba, for one thread or several: products, and the matrix as a dense one.

`A @ x` draws all rows. `A.T @ x` draws only those of events, some columns of all of them at a time, so that their sums
stay in the cache; threads share the columns, so sums have the same bits for any number of threads.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ..on_cpu.events import no_event
from ..on_cpu.terms import Terms
from ..on_cpu.threads import IN_THREADS, of_rows
from .on_cpu import through, weighing

__all__ = ["gather", "scatter", "whole"]

_TILE = 4096  # sums that stay in the cache
_MEAN = 48  # elements of a segment, about
_WAKING = 100_000  # elements that one thread adds in the time in which others start


def _for_threads(work: Any, *, parallel: bool) -> Any:
    """Return `kernel(number, elements, *rest)`, in which threads share the numbers: `work(first, last, *rest)`."""

    @inner
    def alone(number: int, elements: int, parts: Any, structure: Any, x: Any, listed: Any, tile: int, out: Any) -> None:
        work(np.int64(0), number, parts, structure, x, listed, tile, out)

    @inner(parallel=dict(IN_THREADS))
    def shared(
        number: int, elements: int, parts: Any, structure: Any, x: Any, listed: Any, tile: int, out: Any
    ) -> None:
        threads = min(numba.get_num_threads(), elements // _WAKING)
        if threads < 2:
            work(np.int64(0), number, parts, structure, x, listed, tile, out)
            return
        for thread in numba.prange(threads):
            first, last = of_rows(number, thread, threads)
            work(first, last, parts, structure, x, listed, tile, out)

    return shared if parallel else alone


@inner
def _elements(structure: Any, rows: int, columns: int) -> int:
    """Return the approximate number of elements of some rows."""
    return int(rows * (columns * _MEAN >> (np.int64(structure[0][2]) & 31)))


@functools.cache
def gather(of: Terms, kind: int, dtype: str, *, columns: bool, parallel: bool) -> Any:
    """Return the kernel of `A @ x`, for a vector x or a matrix."""
    counts, term, merge, nothing = of.counts, of.term, of.merge, of.nothing
    read, weight = weighing(kind, dtype)

    @inner
    def at(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
        value = x[column]
        return merge(total, term(weight(parts, quantiles, word), value)) if counts(value) else total

    @inner
    def columns_at(
        total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any
    ) -> Any:
        here = weight(parts, quantiles, word)
        for b in range(np.uint64(x.shape[1])):
            value = x[column, b]
            adds = term(here, value)
            out[b] = merge(out[b], adds if counts(value) else silent)
        return total

    go = through(kind, columns_at if columns else at)

    @inner
    def rows(first: int, last: int, parts: Any, structure: Any, x: Any, listed: Any, tile: int, out: Any) -> None:
        plan, logarithms, quantiles = structure
        own, silent, end = read(parts), nothing(out), x.shape[0]
        for row in range(first, last):
            out[row] = go(silent, plan, logarithms, own, quantiles, x, silent, out, row, 0, end)

    @inner
    def rows_of_columns(
        first: int, last: int, parts: Any, structure: Any, x: Any, listed: Any, tile: int, out: Any
    ) -> None:
        plan, logarithms, quantiles = structure
        own, silent, end = read(parts), nothing(out), x.shape[0]
        for row in range(first, last):
            out[row] = silent
            go(0, plan, logarithms, own, quantiles, x, silent, out[row], row, 0, end)

    share = _for_threads(rows_of_columns if columns else rows, parallel=parallel)

    @inner
    def gather(parts: Any, given: Any, x: Any, out: Any) -> None:
        structure = (given[0], given[1].view(np.uint64), given[2])
        number, none = out.shape[0], np.empty(0, np.int64)
        share(number, _elements(structure, number, x.shape[0]), parts, structure, x, none, np.int64(0), out)

    return gather


@functools.cache
def scatter(of: Terms, kind: int, dtype: str, *, columns: bool, parallel: bool) -> Any:
    """Return the kernel of `A.T @ x`, for a vector x or a matrix."""
    event, counts, term, merge, nothing = of.event, of.counts, of.term, of.merge, of.nothing
    read, weight = weighing(kind, dtype)

    @inner
    def at(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
        out[column] = merge(out[column], term(weight(parts, quantiles, word), x))
        return total

    @inner
    def columns_at(
        total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any
    ) -> Any:
        here = weight(parts, quantiles, word)
        for b in range(np.uint64(x.shape[0])):
            adds = term(here, x[b])
            out[column, b] = merge(out[column, b], adds if counts(x[b]) else silent)
        return total

    go = through(kind, columns_at if columns else at)

    @inner
    def tiles(first: int, last: int, parts: Any, structure: Any, x: Any, listed: Any, tile: int, out: Any) -> None:
        plan, logarithms, quantiles = structure
        own, silent = read(parts), nothing(out)
        for each in range(first, last):
            begin, end = each * tile, min((each + 1) * tile, out.shape[0])
            out[begin:end] = silent
            for row in listed:
                go(0, plan, logarithms, own, quantiles, x[row], silent, out, row, begin, end)

    share = _for_threads(tiles, parallel=parallel)

    @inner
    def scatter(parts: Any, given: Any, x: Any, out: Any) -> None:
        structure = (given[0], given[1].view(np.uint64), given[2])
        listed, found, wide = np.empty(x.shape[0], np.int64), 0, x.size // max(1, x.shape[0])
        flat = x.reshape(x.size)
        for row in range(x.shape[0]):
            listed[found] = row
            found += not event or not no_event(flat, row * wide, (row + 1) * wide)
        tile = max(np.int64(_TILE), np.int64(1) << (np.int64(structure[0][2]) & 31))
        number = (out.shape[0] + tile - 1) // tile
        share(number, _elements(structure, found, out.shape[0]), parts, structure, x, listed[:found], tile, out)

    return scatter


@functools.cache
def whole(kind: int, dtype: str) -> Any:
    """Return the kernel that writes all elements into a dense matrix."""
    read, weight = weighing(kind, dtype)

    @inner
    def at(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
        out[column] = weight(parts, quantiles, word)
        return total

    go = through(kind, at)

    @inner
    def whole(parts: Any, given: Any, out: Any) -> None:
        plan, logarithms, quantiles = given
        own, end = read(parts), out.shape[1]
        for row in range(out.shape[0]):
            out[row] = 0
            go(0, plan, logarithms.view(np.uint64), own, quantiles, 0, 0, out[row], row, 0, end)

    return whole
