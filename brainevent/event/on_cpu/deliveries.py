# SPDX-License-Identifier: Apache-2.0
"""Deliveries into a ring of sums: elements of rows with an event, whose places are prefetched some at a time.

The gradient collects values from the ring: those at the places to which elements were delivered.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import prefetch
from . import each
from .at_elements import adding, nothing
from .events import next_event
from .pairs import putting
from .rows import Rows, unsigned
from .threads import IN_THREADS

__all__ = ["collected", "collected_in_order", "delivered", "delivered_in_order", "taken"]

_AT_ONCE = 32  # elements
_WAKING = 20_000  # elements that a thread adds in the time in which two threads start and end


@functools.cache
def delivered(
    dtype: str, rows: Rows, *, weighted: bool, one_weight: bool, one_delay: bool, in_threads: bool = False
) -> Any:
    """Return `kernel(ring, weights, structure, delays, events, x, t, out)`; the result starts as the ring.

    Each thread goes through all elements, and adds to its own part of the ring, so no two add to one place.
    """
    how = {"weighted": weighted, "one_weight": one_weight, "one_delay": one_delay}
    deliver, count = _part(dtype, rows, **how, whole=not in_threads), _counting(rows)

    @inner
    def all_at_once(
        ring: Any, weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any
    ) -> None:
        deliver(weights, structure, delays, events, x, t, out, 0, out.size)

    @inner(parallel=IN_THREADS)
    def in_parts(ring: Any, weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any) -> None:
        threads = min(numba.get_num_threads(), count(structure, events) // _WAKING)
        if threads < 2:
            deliver(weights, structure, delays, events, x, t, out, 0, out.size)
        else:
            for thread in numba.prange(threads):
                first, last = out.size * thread // threads, out.size * (thread + 1) // threads
                deliver(weights, structure, delays, events, x, t, out, first, last)

    return in_parts if in_threads else all_at_once


@functools.cache
def delivered_in_order(dtype: str, rows: Rows, *, weighted: bool, one_weight: bool, in_threads: bool = False) -> Any:
    """Return the same for rows sorted by delay: the elements of row i with delay d end at `delays[i, d]`.

    Each thread takes some of the delays, with about as many elements as others, so no two add to one place.
    """
    deliver = _part_in_order(dtype, rows, weighted=weighted, one_weight=one_weight)

    @inner
    def all_at_once(
        ring: Any, weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any
    ) -> None:
        deliver(weights, structure, delays, events, x, t, out, 1, out.shape[0])

    @inner(parallel=IN_THREADS)
    def in_parts(ring: Any, weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any) -> None:
        slots = out.shape[0]
        upto = _counted_by_delay(delays, events, slots)
        threads = min(numba.get_num_threads(), upto[slots - 1] // _WAKING)
        if threads < 2:
            deliver(weights, structure, delays, events, x, t, out, 1, slots)
        else:
            for thread in numba.prange(threads):
                first = 1 + np.searchsorted(upto[1:], upto[slots - 1] * thread / threads, side="right")
                last = 1 + np.searchsorted(upto[1:], upto[slots - 1] * (thread + 1) / threads, side="right")
                deliver(weights, structure, delays, events, x, t, out, first if thread else 1, min(last, slots))

    return in_parts if in_threads else all_at_once


@inner
def _counted_by_delay(delays: Any, events: Any, slots: int) -> Any:
    """Count the elements of rows with an event that have each delay or a shorter one."""
    upto, row = np.zeros(slots, np.int64), next_event(events, 0)
    while row < events.shape[0]:
        for delay in range(1, slots):
            upto[delay] += max(np.int64(delays[row, delay]) - np.int64(delays[row, 0]), 0)
        row = next_event(events, row + 1)
    return upto


@functools.cache
def _part_in_order(dtype: str, rows: Rows, *, weighted: bool, one_weight: bool) -> Any:
    """Return a function that adds elements with delays from `first` up to `last`."""
    column, has, count, add = rows.column, rows.has, rows.stored, adding(dtype)
    weight_of = inner((lambda weights, here: weights[0]) if one_weight else (lambda weights, here: weights[here]))
    factor_of = inner((lambda x, row: x[row]) if weighted else (lambda x, row: 1))
    times = inner((lambda weight, factor: weight * factor) if weighted else (lambda weight, factor: weight))

    @inner
    def deliver(
        weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any, first: int, last: int
    ) -> None:
        slots, width = out.shape
        sums, stored = out.reshape(out.size), count(structure)
        now = t[0] % slots
        row = next_event(events, 0)
        while row < events.shape[0]:
            factor, begin = factor_of(x, row), max(np.int64(delays[row, first - 1]), np.int64(0))
            for delay in range(first, last):
                end = min(np.int64(delays[row, delay]), np.int64(stored))
                slot = now + delay
                line = (slot - slots if slot >= slots else slot) * width
                for start in range(int(begin), int(end), _AT_ONCE):
                    stop = min(start + _AT_ONCE, int(end))
                    for j in range(start, stop):
                        index = unsigned(column(structure, row, unsigned(j)))
                        if has(index, width):
                            prefetch(sums, line + np.int64(index))
                    for j in range(start, stop):
                        index = unsigned(column(structure, row, unsigned(j)))
                        if has(index, width):
                            here = unsigned(line) + index
                            sums[here] = add(sums[here], times(weight_of(weights, unsigned(j)), factor))
                begin = max(begin, end)
            row = next_event(events, row + 1)

    return deliver


@functools.cache
def taken(dtype: str) -> Any:
    """Return `kernel(ring, t, arrived, out)`; the result is the ring itself, with row t set to zero."""
    zero = nothing(dtype)

    @inner
    def take(ring: Any, t: Any, arrived: Any, out: Any) -> None:
        now, none = t[0] % ring.shape[0], zero()
        for j in range(ring.shape[1]):
            arrived[j] = ring[now, j]
        for j in range(ring.shape[1]):  # a separate loop: `ring` and `out` are one array
            out[now, j] = none

    return take


@functools.cache
def _counting(rows: Rows) -> Any:
    """Return a function that counts the elements of rows with an event."""
    bounds = rows.bounds

    @inner
    def count(structure: Any, events: Any) -> Any:
        found, row = np.int64(0), next_event(events, 0)
        while row < events.shape[0]:
            begin, end = bounds(structure, row)
            found += np.int64(end - begin)
            row = next_event(events, row + 1)
        return found

    return count


@functools.cache
def _part(dtype: str, rows: Rows, *, weighted: bool, one_weight: bool, one_delay: bool, whole: bool) -> Any:
    """Return a function that adds to places of the ring from `first` up to `last`."""
    bounds, column, place, has, holds = rows.bounds, rows.column, rows.place, rows.has, rows.holds
    add = adding(dtype)
    delay_of = inner((lambda delays, here: delays[0]) if one_delay else (lambda delays, here: delays[here]))
    weight_of = inner((lambda weights, here: weights[0]) if one_weight else (lambda weights, here: weights[here]))
    factor_of = inner((lambda x, row: x[row]) if weighted else (lambda x, row: 1))
    times = inner((lambda weight, factor: weight * factor) if weighted else (lambda weight, factor: weight))
    is_own = inner((lambda here, first, last: True) if whole else (lambda here, first, last: first <= here < last))
    each_of = inner((lambda weights, delays: delays) if one_weight else (lambda weights, delays: weights))

    @inner
    def deliver(
        weights: Any, structure: Any, delays: Any, events: Any, x: Any, t: Any, out: Any, first: int, last: int
    ) -> None:
        slots, width = out.shape
        sums = out.reshape(out.size)
        now, targets, each = t[0] % slots, np.empty(_AT_ONCE, np.int64), each_of(weights, delays)
        row = next_event(events, 0)
        while row < events.shape[0]:
            factor = factor_of(x, row)
            begin, end = bounds(structure, row)
            for start in range(begin, end, _AT_ONCE):
                stop = min(start + unsigned(_AT_ONCE), end)
                for j in range(start, stop):
                    index = unsigned(column(structure, row, j))
                    targets[j - start] = -1
                    if has(index, width) and holds(structure, j, each.shape[0]):
                        slot = now + np.int64(delay_of(delays, place(structure, j, each)))
                        if slot >= slots or slot < 0:
                            slot %= slots
                        here = slot * width + np.int64(index)
                        if is_own(here, first, last):
                            targets[j - start] = here
                            prefetch(sums, here)
                for j in range(start, stop):
                    here = targets[j - start]
                    if here >= 0:
                        term = times(weight_of(weights, place(structure, j, each)), factor)
                        sums[unsigned(here)] = add(sums[unsigned(here)], term)
            row = next_event(events, row + 1)

    return deliver


# ---- collected values: `kernel((events, x, ring, delays, now), structure, out)`


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
