# SPDX-License-Identifier: Apache-2.0
"""Rows of events on the CPU: Numba functions that list them, cut them where columns ascend, and add them to sums."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..backends.numba import any_of, inner, prefetch
from .on_cpu import BLOCK, LINE, Places, Terms, add_in_tiles, fetching, unsigned

__all__ = ["add_rows_listed", "cut_rows", "list_events"]

_LEAD = 16  # lines that are asked for before those that are added
_LONG = np.uint64(512)  # elements of a row that is read in several places at once
_STREAMS = 4  # places of memory that are read at once, of indices and of weights
_AHEAD = np.uint64(512)  # elements that are asked for before those that are added, in all streams together
_NEAR = 8  # elements around where a column is expected that are looked at first


@inner
def list_events(x: Any, start: int, places: Any) -> tuple[int, int]:
    """Write where x is true, from start on, until all of x is seen or `places` is full; return where, and how many."""
    found, room = 0, places.shape[0] - BLOCK
    while start < x.shape[0] and found <= room:
        stop = start + BLOCK
        if stop <= x.shape[0]:
            if any_of(x, start, 64):
                for eighth in range(start, stop, 8):
                    if any_of(x, eighth, 8):
                        for i in range(eighth, eighth + 8):  # without a branch, as nothing predicts a spike
                            places[found] = i
                            found += x[i]
        else:
            stop = x.shape[0]
            for i in range(start, stop):
                places[found] = i
                found += x[i]
        start = stop
    return start, found


@functools.cache
def add_rows_listed(of: Terms, at: Places) -> Any:
    """Return a function that adds rows, from `here[k]` to `end[k]` for the first `found`.

    It asks for elements some lines before it adds them, whichever row they are of: a processor by itself foresees only
    what comes next in a page of memory.
    """
    common, weight, where, add_to, places = of.common, of.weight, at.of_weight, at.add, _places(of)
    in_tiles, in_places, ask = add_in_tiles(of, at), _add_in_places(of, at), _asking(of, at)

    @inner
    def add(weights: Any, indices: Any, perm: Any, here: Any, end: Any, found: int, out: Any) -> None:
        if in_tiles(weights, indices, perm, here, end, found, out):
            return
        one = common(weights)
        row, ahead, lines = 0, unsigned(here[0]), _LEAD  # the next line to ask for, and how many are due
        for k in range(found):
            j, last = unsigned(here[k]), unsigned(end[k])
            apart = _apart(j, last, places)
            if apart:
                row, following = k + 1, min(k + 1, found - 1)
                ahead, lines = unsigned(here[following]), _LEAD
                next_apart = _apart(ahead, unsigned(end[following]), places)
                in_places(weights, indices, perm, one, j, apart, ahead, next_apart, out)
                j += places * apart
            while j < last:
                row, ahead = ask(weights, indices, perm, here, end, found, row, ahead, lines)
                lines = 1
                if j + LINE <= last:  # a number of elements that is known
                    for i in range(j, j + LINE):
                        add_to(out, indices[i], weight(one, weights, where(perm, i, weights)))
                else:
                    for i in range(j, last):
                        add_to(out, indices[i], weight(one, weights, where(perm, i, weights)))
                j += LINE

    return add


def _asking(of: Terms, at: Places) -> Any:
    """Return a function that asks for so many lines from a row's element on, and says which row's is the next."""
    fetch = fetching(of, at)

    @inner
    def ask(
        weights: Any, indices: Any, perm: Any, here: Any, end: Any, found: int, row: int, ahead: Any, lines: int
    ) -> tuple[int, Any]:
        while lines and row < found:
            if ahead < unsigned(end[row]):
                fetch(weights, indices, perm, ahead)
                ahead += LINE
                lines -= 1
            else:
                row += 1
                ahead = unsigned(here[min(row, found - 1)])
        return row, ahead

    return ask


def _places(of: Terms) -> Any:
    """Return in how many places at once a long row is read: a weight for each element is a stream of its own."""
    return np.uint64(_STREAMS if of.homogeneous else _STREAMS // 2)


@inner
def _apart(begin: Any, end: Any, places: Any) -> Any:
    """Return how far apart the places are in which a row is read; 0 if it is not long."""
    return (end - begin) // places // LINE * LINE if begin + _LONG <= end else np.uint64(0)


def _add_in_places(of: Terms, at: Places) -> Any:
    """Return a function that adds elements from `begin`, of each place in turn, and asks for the next ones of each.

    Where sorted columns are dense, one sum is added to again and again, and waits each time; other places go on.
    """
    weight, where, add_to, fetch, places = of.weight, at.of_weight, at.add, fetching(of, at), _places(of)
    lead = _AHEAD // places

    @inner
    def add(
        weights: Any, indices: Any, perm: Any, one: Any, begin: Any, apart: Any, after: Any, next_apart: Any, out: Any
    ) -> None:
        first, stop = begin, begin + apart
        while first < stop:
            ahead, step = first + lead, apart
            if ahead >= stop:  # of the row that follows
                ahead, step = ahead - stop + after, next_apart
            for place in range(places):
                fetch(weights, indices, perm, ahead + place * step)
            for i in range(LINE):
                for place in range(places):
                    j = first + place * apart + i
                    add_to(out, indices[j], weight(one, weights, where(perm, j, weights)))
            first += LINE

    return add


@inner
def cut_rows(indices: Any, here: Any, end: Any, found: int, first: int, last: int, size: int) -> None:
    """Leave of rows, from `here[k]` to `end[k]` for the first `found`, what is in the columns from first to last.

    Columns ascend in a row, and there are `size` of them; those of the first and the last are not looked for.
    """
    before, upto = first / max(1, size), last / max(1, size)
    for k in range(found):  # all are asked for before the first is waited for
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
    """Return where the first element is, of those from begin to end, that is not left of a column."""
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
