# SPDX-License-Identifier: Apache-2.0
"""Numba code of products of spikes with matrices, and of spikes with cotangents: only spikes are visited.

Spikes are bytes: 0 and 1, and 2 for a spike that is NaN.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....backends.numba.floats import flush_floats, restore_floats
from ....backends.numba.inner import inner
from ....backends.numba.memory import array_at, word
from ....backends.numba.side_by_side import side_by_side
from ....backends.numba.vectors import address, byte_at
from .on_loops import fill_row, list_ones, sum_rows

__all__ = ["outer_kernel", "times_kernel"]

_BLOCK = 64  # rows that a thread multiplies at least
_ROWS = 2**18  # floats of rows that are added at a time: they stay in a cache
_EVENTS = 2**16  # that are sorted at a time


@inner(later=True)
def times_rows(spikes: Any, matrix: Any, delay: Any, first: Any, last: Any, out: Any) -> None:
    """Multiply some rows of spikes (samples, steps, sources) with a matrix: sums are those of `delay` steps before."""
    before, steps, sources, width = flush_floats(), spikes.shape[1], spikes.shape[2], matrix.shape[1]
    places = np.empty(sources + 1, np.int32)
    for row in range(first, last):
        sample, step = row // steps, row % steps
        sums = out[sample, step]
        fill_row(0, sums)
        if step < delay:
            continue
        of = spikes[sample, step - delay]
        count = list_ones(address(of), sources, places)
        sum_rows(address(sums), address(matrix), width, address(places), count)
        for k in range(count):
            if of[places[k]] > 1:
                fill_row(np.nan, sums)
    restore_floats(before)


@inner(later=True)
def add_events(count: Any, events: Any, starts: Any, rows: Any, arrived: Any, out: Any) -> None:
    """Add up rows of `arrived` by neurons; events are pairs (2, count) of a row and a neuron, in the order of rows."""
    neurons, width = out.shape[0], arrived.shape[1]
    fill_row(0, starts)
    for k in range(count):
        starts[events[1, k] + 1] += 1
    for neuron in range(neurons):
        starts[neuron + 1] += starts[neuron]
    for k in range(count):
        neuron = events[1, k]
        rows[starts[neuron]] = events[0, k]
        starts[neuron] += 1
    begin = np.int64(0)
    for neuron in range(neurons):
        end = np.int64(starts[neuron])
        sum_rows(address(out[neuron]), address(arrived), width, address(rows) + 4 * begin, end - begin)
        begin = end


@inner(later=True)
def outer_rows(spikes: Any, arrived: Any, delay: Any, first: Any, last: Any, out: Any) -> None:
    """Add up, for some neurons, what arrived `delay` steps after those in which they spiked.

    Events of many rows are sorted by neurons first, so that each sum is read and written once for all of them.
    """
    before, steps, width = flush_floats(), spikes.shape[1], arrived.shape[2]
    neurons = last - first
    size = max(_EVENTS, neurons)
    events, rows = np.empty((2, size), np.int32), np.empty(size, np.int32)
    places, starts = np.empty(neurons + 1, np.int32), np.empty(neurons + 1, np.int32)
    flat = array_at(address(arrived), (arrived.shape[0] * steps, width), np.float32)
    sums = array_at(address(out) + 4 * width * first, (neurons, width), np.float32)
    for neuron in range(neurons):
        fill_row(0, sums[neuron])
    count, begin = np.int64(0), np.int64(0)
    for row in range(spikes.shape[0] * steps):
        if row % steps + delay >= steps:
            continue
        if count + neurons > size or (row - begin) * width >= _ROWS:
            add_events(count, events, starts, rows, flat, sums)
            count, begin = np.int64(0), np.int64(row)
        of = address(spikes) + row * spikes.shape[2] + first
        found = list_ones(of, neurons, places)
        for k in range(found):
            events[0, count + k] = row + delay
            events[1, count + k] = places[k]
            if byte_at(of + places[k]) > 1:
                fill_row(np.nan, sums[places[k]])
        count += found
    add_events(count, events, starts, rows, flat, sums)
    restore_floats(before)


@inner(later=True)
def numbers_of(table: Any) -> Any:
    """Return the numbers of networks, samples, steps, sources and neurons, the delay, and the number of parts."""
    sizes = word(table, 3), word(table, 4), word(table, 5), word(table, 6), word(table, 7)
    return (*sizes, word(table, 8), word(table, 9))


@inner(later=True)
def times_part(number: Any, table: Any) -> None:
    """Multiply some rows of a network."""
    networks, samples, steps, sources, width, delay, parts = numbers_of(table)
    spikes = array_at(word(table, 0), (networks, samples, steps, sources), np.uint8)
    matrix = array_at(word(table, 1), (networks, sources, width), np.float32)
    out = array_at(word(table, 2), (networks, samples, steps, width), np.float32)
    network, part, rows = number // parts, number % parts, samples * steps
    times_rows(spikes[network], matrix[network], delay, rows * part // parts, rows * (part + 1) // parts, out[network])


@inner(later=True)
def outer_part(number: Any, table: Any) -> None:
    """Add up for some neurons of a network."""
    networks, samples, steps, sources, width, delay, parts = numbers_of(table)
    spikes = array_at(word(table, 0), (networks, samples, steps, sources), np.uint8)
    arrived = array_at(word(table, 1), (networks, samples, steps, width), np.float32)
    out = array_at(word(table, 2), (networks, sources, width), np.float32)
    network, part = number // parts, number % parts
    first, last = sources * part // parts, sources * (part + 1) // parts
    outer_rows(spikes[network], arrived[network], delay, first, last, out[network])


@inner(later=True)
def table_of(spikes: Any, other: Any, delay: Any, out: Any, parts: Any) -> Any:
    """Return what a part needs, as words."""
    table = np.empty(10, np.int64)
    table[0], table[1], table[2] = address(spikes), address(other), address(out)
    table[3], table[4], table[5], table[6] = spikes.shape
    table[7], table[8], table[9] = out.shape[out.ndim - 1], delay[0], parts
    return table


@numba.njit(error_model="numpy")
def times_kernel(spikes: Any, matrix: Any, delay: Any, out: Any) -> None:
    """Multiply (networks, samples, steps, sources) with (networks, sources, neurons): threads share the rows."""
    rows, threads = spikes.shape[1] * spikes.shape[2], np.int64(numba.get_num_threads())
    parts = max(np.int64(1), min(threads, (rows + _BLOCK - 1) // _BLOCK))
    table = table_of(spikes, matrix, delay, out, parts)
    if out.size > 0:
        side_by_side(times_part, parts * matrix.shape[0], table, threads)


@numba.njit(error_model="numpy")
def outer_kernel(spikes: Any, arrived: Any, delay: Any, out: Any) -> None:
    """Multiply spikes, transposed, with (networks, samples, steps, neurons).

    Threads share the sources, so no sum is split.
    """
    threads = np.int64(numba.get_num_threads())
    parts = max(np.int64(1), min(threads, np.int64(spikes.shape[3])))
    table = table_of(spikes, arrived, delay, out, parts)
    if out.size > 0:
        side_by_side(outer_part, parts * out.shape[0], table, threads)
