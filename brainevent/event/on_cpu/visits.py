# SPDX-License-Identifier: Apache-2.0
"""Walks through the rows of events only, which compute `A.T @ x`: `walk(weights, structure, x, first, last, out)`.

Events are booleans. Some hundred are listed before their rows are added, so that elements can be prefetched before they
are added, from one row into the next: a processor by itself prefetches only within a page of memory. Rows are added
tile by tile of the sums if these do not fit the first cache of a processor.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, prefetch, stack_memory
from .events import list_events
from .rows import BLOCK, LINE, LISTED, Rows, unsigned
from .terms import Terms, adding, fetching

__all__ = ["cut_rows", "scatter_event_columns", "scatter_events", "scatter_part"]


# Rows that are listed: their numbers, and where they begin and end. Memory from the system takes longer than a step.
_LISTS = 3, LISTED + BLOCK
_WORDS = 3 * (LISTED + BLOCK)


def _listing(rows: Rows) -> Any:
    """Return a function that lists rows of events from `start` on, and where they begin and end."""
    bounds = rows.bounds

    @inner
    def list_rows(structure: Any, x: Any, start: int, last: int, listed: Any) -> tuple[int, int]:
        start, found = list_events(x, start, last, listed[0])
        for k in range(found):
            listed[1, k], listed[2, k] = bounds(structure, listed[0, k])
        return start, found

    return list_rows


def scatter_events(of: Terms, rows: Rows, *, clears: bool = True) -> Any:
    """Return the walk that adds the rows of a vector of events; unless it `clears` the sums, they are zero before."""
    add, list_rows, nothing = add_rows_listed(of, rows), _listing(rows), of.nothing

    @inner
    def scatter_events(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        if clears:
            out[:] = nothing(out)
        listed = array_at(stack_memory(_WORDS), _LISTS, np.int64)
        start = first
        while start < last:
            start, found = list_rows(structure, x, start, last, listed)
            add(weights, structure, listed[0], listed[1], listed[2], found, out)

    return scatter_events


def scatter_part(of: Terms, rows: Rows) -> Any:
    """Return the walk that computes only the sums from first to last, for rows whose columns ascend."""
    assert rows.columns is not None
    add, list_rows, nothing, columns = add_rows_listed(of, rows), _listing(rows), of.nothing, rows.columns

    @inner
    def scatter_part(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        out[first:last] = nothing(out)
        listed = array_at(stack_memory(_WORDS), _LISTS, np.int64)
        start = np.int64(0)  # a literal would be another type, and compiled again
        while start < x.shape[0]:
            start, found = list_rows(structure, x, start, x.shape[0], listed)
            cut_rows(columns(structure), listed[1], listed[2], found, first, last, out.shape[0])
            add(weights, structure, listed[0], listed[1], listed[2], found, out)

    return scatter_part


def scatter_event_columns(of: Terms, rows: Rows) -> Any:
    """Return the walk for a matrix of events, which adds a row to the sums of all columns with an event in it."""
    common, weight, merge, nothing = of.common, of.weight, of.merge, of.nothing
    bounds, column, place, has = rows.bounds, rows.column, rows.place, rows.has

    @inner
    def scatter_event_columns(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        out[:] = nothing(out)
        one, width, flat = common(weights), x.shape[1], x.reshape(x.size)
        found_at = np.empty(LISTED + BLOCK, np.int64)
        start, stop = first * width, last * width
        while start < stop:
            start, found = list_events(flat, start, stop, found_at)
            this = 0
            while this < found:
                row = found_at[this] // width
                following, begin_of_row = this, row * width
                while following < found and found_at[following] < begin_of_row + width:  # events of one row, as columns
                    found_at[following] -= begin_of_row
                    following += 1
                begin, end = bounds(structure, row)
                for j in range(begin, end):
                    here, target = (
                        weight(one, weights, place(structure, j, weights)),
                        unsigned(column(structure, row, j)),
                    )
                    for k in range(this, following if has(target, out.shape[0]) else this):
                        b = unsigned(found_at[k])
                        out[target, b] = merge(out[target, b], here)
                this = following

    return scatter_event_columns


# ---- rows that are listed, added

_LEAD = 16  # lines that are prefetched ahead of those that are added
_LONG = np.uint64(512)  # elements of a row from which on it is read in several places at once
_PLACES = 6  # of a long row that are read at once; with 4, some processors take up to 13 % more time
_PLACES_IN_BOTH = 2  # the same if indices and weights are read
_AHEAD = np.uint64(512)  # elements that are prefetched ahead of those that are added, in all streams together


@functools.cache
def add_rows_listed(of: Terms, rows: Rows) -> Any:
    """Return a function that adds `listed` rows, from `here[k]` to `end[k]` for the first `found`."""
    common, weight, add_to = of.common, of.weight, adding(of, rows)
    column, place, places = rows.column, rows.place, _places(of)
    in_tiles, in_places, prefetch_lines = add_in_tiles(of, rows), _add_in_places(of, rows), _prefetching(of, rows)

    @inner
    def add(weights: Any, structure: Any, listed: Any, here: Any, end: Any, found: int, out: Any) -> None:
        if in_tiles(weights, structure, listed, here, end, found, out):
            return
        one = common(weights)
        later, ahead, lines = 0, unsigned(here[0]), _LEAD  # the next line to prefetch, and how many are due
        for k in range(found):
            row, j, last = listed[k], unsigned(here[k]), unsigned(end[k])
            apart = _apart(j, last, places)
            if apart:
                later, following = k + 1, min(k + 1, found - 1)
                ahead, lines = unsigned(here[unsigned(following)]), _LEAD
                next_apart = _apart(ahead, unsigned(end[unsigned(following)]), places)
                in_places(weights, structure, one, row, j, apart, ahead, next_apart, out)
                j += places * apart
            while j < last:
                later, ahead = prefetch_lines(weights, structure, here, end, found, later, ahead, lines)
                lines = 1
                if j + LINE <= last:  # a fixed number of elements
                    for i in range(j, j + LINE):
                        add_to(out, column(structure, row, i), weight(one, weights, place(structure, i, weights)))
                else:
                    for i in range(j, last):
                        add_to(out, column(structure, row, i), weight(one, weights, place(structure, i, weights)))
                j += LINE

    return add


def _prefetching(of: Terms, rows: Rows) -> Any:
    """Return a function that prefetches lines from an element of a row on, and returns the next row and element."""
    fetch = fetching(of, rows)

    @inner
    def prefetch_lines(
        weights: Any, structure: Any, here: Any, end: Any, found: int, later: int, ahead: Any, lines: int
    ) -> tuple[int, Any]:
        while lines and later < found:
            if ahead < unsigned(end[unsigned(later)]):
                fetch(weights, structure, ahead)
                ahead += LINE
                lines -= 1
            else:
                later += 1
                ahead = unsigned(here[unsigned(min(later, found - 1))])
        return later, ahead

    return prefetch_lines


def _places(of: Terms) -> Any:
    """Return in how many places at once a long row is read."""
    return np.uint64(_PLACES if of.homogeneous else _PLACES_IN_BOTH)


@inner
def _apart(begin: Any, end: Any, places: Any) -> Any:
    """Return how far apart the places are in which a row is read; 0 if it is not long."""
    return (end - begin) // places // LINE * LINE if begin + _LONG <= end else np.uint64(0)


def _add_in_places(of: Terms, rows: Rows) -> Any:
    """Return a function that adds elements from `begin`, of each place in turn, and prefetches the next ones of each.

    If sorted columns are dense, additions to one sum follow each other, and each waits for the last; with several
    places, additions to other sums go on.
    """
    weight, add_to, fetch, places = of.weight, adding(of, rows), fetching(of, rows), _places(of)
    column, place = rows.column, rows.place
    lead = _AHEAD // places

    @inner
    def add(
        weights: Any, structure: Any, one: Any, row: Any, begin: Any, apart: Any, after: Any, next_apart: Any, out: Any
    ) -> None:
        first, stop = begin, begin + apart
        while first < stop:
            ahead, step = first + lead, apart
            if ahead >= stop:  # in the row that follows
                ahead, step = ahead - stop + after, next_apart
            for part in range(places):
                fetch(weights, structure, ahead + part * step)
            for i in range(LINE):
                for part in range(places):
                    j = first + part * apart + i
                    add_to(out, column(structure, row, j), weight(one, weights, place(structure, j, weights)))
            first += LINE

    return add


# ---- the same, tile by tile

_LEAST, _MOST = 4096, 65536  # sums of a tile: they stay in a processor's first cache, or in the second one
_WORTH = 16384  # sums from which on tiles are faster
_RUN = 128  # elements of a row in a tile, on average, for which it need not be larger
_SLICE = 32  # and for which tiles are faster
_ENOUGH = 8  # rows
_ROWS_AHEAD = 2  # rows whose next elements are prefetched while others are added
_TOGETHER, _ONE = np.uint64(8), np.uint64(1)  # elements of which only the last is tested
_ALL = 2**63 - 1  # no index is above it


def add_in_tiles(of: Terms, rows: Rows) -> Any:
    """Return a function that adds rows, `here[k]` to `end[k]` of the first `found`, tile by tile of the sums.

    It adds nothing, and returns False, if that would not be faster. From each row it takes elements until one is behind
    the tile, so it is fast for sorted rows, and correct for all. In the end, `here` is where the rows end.
    """
    common, weight, add_to, fetch = of.common, of.weight, adding(of, rows), fetching(of, rows)
    column, place = rows.column, rows.place

    @inner
    def add(weights: Any, structure: Any, listed: Any, here: Any, end: Any, found: int, out: Any) -> bool:
        size = out.shape[0]
        if found < _ENOUGH or size < max(2 * _LEAST, _WORTH):
            return False
        elements = np.int64(0)
        for k in range(found):
            elements += end[k] - here[k]
        tile, places = _LEAST, found * size
        while tile < _MOST and elements * tile < _RUN * places:
            tile *= 2
        if size < 2 * tile or elements * tile // places < _SLICE:
            return False
        one = common(weights)
        until = np.int64(-1)  # the last sum of a tile
        while until < size - 1:
            until = until + tile if until + tile < size - 1 else np.int64(_ALL)
            for k in range(found):
                row, j, last = listed[k], unsigned(here[k]), unsigned(end[k])
                following = k + _ROWS_AHEAD if k + _ROWS_AHEAD < found else k + _ROWS_AHEAD - found
                later = unsigned(here[unsigned(following)])
                ahead = later - j
                fetch(weights, structure, later)
                while j + _TOGETHER <= last and column(structure, row, j + _TOGETHER - _ONE) <= until:
                    fetch(weights, structure, j + LINE + ahead)
                    for i in range(_TOGETHER):
                        e = j + i
                        add_to(out, column(structure, row, e), weight(one, weights, place(structure, e, weights)))
                    j += _TOGETHER
                while j < last and column(structure, row, j) <= until:
                    add_to(out, column(structure, row, j), weight(one, weights, place(structure, j, weights)))
                    j += _ONE
                here[k] = j
        return True

    return add


# ---- rows whose columns ascend, cut to a range of columns

_NEAR = 8  # elements around the expected place of a column that are tested first


@inner
def cut_rows(indices: Any, here: Any, end: Any, found: int, first: int, last: int, size: int) -> None:
    """Cut rows, from `here[k]` to `end[k]` for the first `found`, to the elements in the columns from first to last.

    Columns ascend in a row, and there are `size` of them; 0 and `size` need no search.
    """
    before, upto = first / max(1, size), last / max(1, size)
    for k in range(found):  # all are prefetched before the first is read
        length = end[k] - here[k]
        prefetch(indices, here[k] + np.int64(length * before))
        prefetch(indices, here[k] + np.int64(length * upto))
    for k in range(found):
        begin, length = here[k], end[k] - here[k]
        if first > 0:
            here[k] = _first_of(indices, begin, end[k], begin + np.int64(length * before), first)
        if last < size:
            expected = max(here[k], begin + np.int64(length * upto))
            end[k] = _first_of(indices, here[k], end[k], expected, last)


@inner
def _first_of(indices: Any, begin: int, end: int, expected: int, column: int) -> int:
    """Return the place of the first element, of those from begin to end, whose column is not less."""
    step = _NEAR
    if expected < end and indices[np.uint64(expected)] < column:
        low = expected + 1
        high = low + step
        while high < end and indices[np.uint64(high - 1)] < column:
            low, step = high, 2 * step
            high = low + step
        high = min(high, end)
    else:
        high = min(expected, end)
        low = high - step
        while low > begin and indices[np.uint64(low)] >= column:
            high, step = low, 2 * step
            low = high - step
        low = max(low, begin)
    while low < high:
        middle = (low + high) // 2
        if indices[np.uint64(middle)] < column:
            low = middle + 1
        else:
            high = middle
    return low
