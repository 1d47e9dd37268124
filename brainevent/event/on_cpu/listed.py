# SPDX-License-Identifier: Apache-2.0
"""Rows of events added to sums: elements are prefetched before they are added, from one row into the next.

A processor by itself prefetches only within a page of memory.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...backends.numba import inner
from .laws import Law, adding, fetching
from .rows import LINE, Rows, unsigned
from .tiles import add_in_tiles

__all__ = ["add_rows_listed"]

_LEAD = 16  # lines that are prefetched ahead of those that are added
_LONG = np.uint64(512)  # elements of a row from which on it is read in several places at once
_PLACES = 6  # of a long row that are read at once; with 4, some processors take up to 13 % more time
_PLACES_IN_BOTH = 2  # the same if indices and weights are read
_AHEAD = np.uint64(512)  # elements that are prefetched ahead of those that are added, in all streams together


@functools.cache
def add_rows_listed(law: Law, rows: Rows) -> Any:
    """Return a function that adds `listed` rows, from `here[k]` to `end[k]` for the first `found`."""
    common, weight, add_to = law.common, law.weight, adding(law, rows)
    column, place, places = rows.column, rows.place, _places(law)
    in_tiles, in_places, prefetch_lines = add_in_tiles(law, rows), _add_in_places(law, rows), _prefetching(law, rows)

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


def _prefetching(law: Law, rows: Rows) -> Any:
    """Return a function that prefetches lines from an element of a row on, and returns the next row and element."""
    fetch = fetching(law, rows)

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


def _places(law: Law) -> Any:
    """Return in how many places at once a long row is read."""
    return np.uint64(_PLACES if law.homogeneous else _PLACES_IN_BOTH)


@inner
def _apart(begin: Any, end: Any, places: Any) -> Any:
    """Return how far apart the places are in which a row is read; 0 if it is not long."""
    return (end - begin) // places // LINE * LINE if begin + _LONG <= end else np.uint64(0)


def _add_in_places(law: Law, rows: Rows) -> Any:
    """Return a function that adds elements from `begin`, of each place in turn, and prefetches the next ones of each.

    If sorted columns are dense, additions to one sum follow each other, and each waits for the last; with several
    places, additions to other sums go on.
    """
    weight, add_to, fetch, places = law.weight, adding(law, rows), fetching(law, rows), _places(law)
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
