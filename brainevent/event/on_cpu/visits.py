# SPDX-License-Identifier: Apache-2.0
"""Walks through the rows of events only, which compute `A.T @ x`: `walk(weights, structure, x, first, last, out)`.

Events are booleans. Some hundred are listed before their rows are added, so that elements can be prefetched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba import inner
from .cut import cut_rows
from .events import list_events
from .laws import Law
from .listed import add_rows_listed
from .rows import BLOCK, LISTED, Rows, unsigned

__all__ = ["scatter_event_columns", "scatter_events", "scatter_part"]


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


def scatter_events(law: Law, rows: Rows) -> Any:
    """Return the walk that adds the rows of a vector of events."""
    add, list_rows, nothing = add_rows_listed(law, rows), _listing(rows), law.nothing

    @inner
    def scatter_events(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        out[:] = nothing(out)
        listed = np.empty((3, LISTED + BLOCK), np.int64)
        start = first
        while start < last:
            start, found = list_rows(structure, x, start, last, listed)
            add(weights, structure, listed[0], listed[1], listed[2], found, out)

    return scatter_events


def scatter_part(law: Law, rows: Rows) -> Any:
    """Return the walk that computes only the sums from first to last, for rows whose columns ascend."""
    assert rows.columns is not None
    add, list_rows, nothing, columns = add_rows_listed(law, rows), _listing(rows), law.nothing, rows.columns

    @inner
    def scatter_part(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        out[first:last] = nothing(out)
        listed = np.empty((3, LISTED + BLOCK), np.int64)
        start = np.int64(0)  # a literal would be another type, and compiled again
        while start < x.shape[0]:
            start, found = list_rows(structure, x, start, x.shape[0], listed)
            cut_rows(columns(structure), listed[1], listed[2], found, first, last, out.shape[0])
            add(weights, structure, listed[0], listed[1], listed[2], found, out)

    return scatter_part


def scatter_event_columns(law: Law, rows: Rows) -> Any:
    """Return the walk for a matrix of events, which adds a row to the sums of all columns with an event in it."""
    common, weight, merge, nothing = law.common, law.weight, law.merge, law.nothing
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
