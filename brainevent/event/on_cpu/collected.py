# SPDX-License-Identifier: Apache-2.0
"""Values collected from a ring: those at the places to which elements of rows with an event were delivered.

Kernels are called as `kernel((events, x, ring, delays, now), structure, out)`, with events as a matrix of one column,
and the slot of the step, `now`. Other rows are not visited.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...backends.numba import inner
from . import each
from .events import next_event
from .pairs import putting
from .rows import Rows, unsigned

__all__ = ["collected", "collected_in_order"]


@functools.cache
def collected(rows: Rows, *, weighted: bool, one_delay: bool) -> Any:
    """Return the kernel for delays of each element, or one of all; x counts if `weighted`."""
    has, holds, place, put, times = rows.has, rows.holds, rows.place, putting(rows), _times(weighted=weighted)
    delay_of = inner((lambda delays, here: delays[0]) if one_delay else (lambda delays, here: delays[here]))

    @inner
    def at(operands: Any, structure: Any, out: Any, row: Any, j: Any, column: Any) -> None:
        _, x, ring, delays, now = operands
        slots, width = ring.shape
        if has(column, width) and holds(structure, j, out.shape[0]):
            here = place(structure, j, out)
            slot = np.int64(now[0]) + np.int64(delay_of(delays, here))
            if slot >= slots or slot < 0:
                slot %= slots
            put(out, here, times(ring[unsigned(slot), column], x, row))

    return each.in_active_rows(at, rows)


@functools.cache
def collected_in_order(rows: Rows, *, weighted: bool) -> Any:
    """Return the kernel for rows sorted by delay: the elements of row i with delay d end at `delays[i, d]`."""
    column, has, count, times = rows.column, rows.has, rows.stored, _times(weighted=weighted)

    @inner
    def collect(operands: Any, structure: Any, out: Any) -> None:
        events, x, ring, delays, now = operands
        slots, width = ring.shape
        out[:] = 0
        stored, active = np.int64(count(structure)), events.reshape(events.size)
        row = next_event(active, 0)
        while row < active.size:
            begin = max(np.int64(delays[row, 0]), np.int64(0))
            for delay in range(1, slots):
                end, slot = min(np.int64(delays[row, delay]), stored), np.int64(now[0]) + delay
                values = ring[slot - slots if slot >= slots else slot]
                for j in range(begin, end):
                    index = unsigned(column(structure, row, unsigned(j)))
                    if has(index, width):
                        out[unsigned(j)] = times(values[index], x, row)
                begin = max(begin, end)
            row = next_event(active, row + 1)

    return collect


def _times(*, weighted: bool) -> Any:
    return inner((lambda value, x, row: value * x[row]) if weighted else (lambda value, x, row: value))
