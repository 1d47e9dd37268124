# SPDX-License-Identifier: Apache-2.0
"""Numba code of products of spikes with matrices, and of spikes with cotangents: only spikes are visited.

Spikes are bytes: 0 and 1, and 2 for a spike that is NaN.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....backends.numba import inner
from ....backends.numba.floats import flush_floats, restore_floats
from ....backends.numba.vectors import address
from ....event.on_cpu.threads import IN_THREADS
from .on_loops import list_ones, sum_rows

__all__ = ["outer_kernel", "times_kernel"]

_BLOCK = 64  # rows that a thread multiplies at least
_ROWS = 2**18  # floats of rows that are added at a time: they stay in a cache
_EVENTS = 2**16  # that are sorted at a time


@inner
def times_rows(spikes: Any, matrix: Any, delay: Any, first: Any, last: Any, out: Any) -> None:
    """Multiply some rows of spikes (samples, steps, sources) with a matrix: sums are those of `delay` steps before."""
    before, steps, sources, width = flush_floats(), spikes.shape[1], spikes.shape[2], matrix.shape[1]
    places = np.empty(sources + 1, np.int32)
    for row in range(first, last):
        sample, step = row // steps, row % steps
        sums = out[sample, step]
        sums[:] = 0
        if step < delay:
            continue
        of = spikes[sample, step - delay]
        count = list_ones(address(of), sources, places)
        sum_rows(address(sums), address(matrix), width, address(places), count)
        for k in range(count):
            if of[places[k]] > 1:
                sums[:] = np.nan
    restore_floats(before)


@inner
def add_events(count: Any, events: Any, starts: Any, rows: Any, arrived: Any, out: Any) -> None:
    """Add up rows of `arrived` by neurons; events are pairs (2, count) of a row and a neuron, in the order of rows."""
    neurons, width = out.shape[0], arrived.shape[1]
    starts[:] = 0
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
        sum_rows(address(out[neuron]), address(arrived), width, address(rows[begin:end]), end - begin)
        begin = end


@inner
def outer_rows(spikes: Any, arrived: Any, delay: Any, first: Any, last: Any, out: Any) -> None:
    """Add up, for some neurons, what arrived `delay` steps after those in which they spiked.

    Events of many rows are sorted by neurons first, so that each sum is read and written once for all of them.
    """
    before, steps, width = flush_floats(), spikes.shape[1], arrived.shape[2]
    neurons = last - first
    size = max(_EVENTS, neurons)
    events, rows = np.empty((2, size), np.int32), np.empty(size, np.int32)
    places, starts = np.empty(neurons + 1, np.int32), np.empty(neurons + 1, np.int32)
    flat, sums = arrived.reshape(arrived.shape[0] * steps, width), out[first:last]
    sums[:, :] = 0
    count, begin = np.int64(0), np.int64(0)
    for row in range(spikes.shape[0] * steps):
        sample, step = row // steps, row % steps
        if step + delay >= steps:
            continue
        if count + neurons > size or (row - begin) * width >= _ROWS:
            add_events(count, events, starts, rows, flat, sums)
            count, begin = np.int64(0), row
        of = spikes[sample, step, first:last]
        found = list_ones(address(of), neurons, places)
        for k in range(found):
            events[0, count + k] = row + delay
            events[1, count + k] = places[k]
            if of[places[k]] > 1:
                sums[places[k]] = np.nan
        count += found
    add_events(count, events, starts, rows, flat, sums)
    restore_floats(before)


@numba.njit(error_model="numpy", parallel=dict(IN_THREADS))
def times_kernel(spikes: Any, matrix: Any, delay: Any, out: Any) -> None:
    """Multiply (networks, samples, steps, sources) with (networks, sources, neurons): threads share the rows."""
    rows, late = spikes.shape[1] * spikes.shape[2], delay[0]
    parts = max(1, min(numba.get_num_threads(), (rows + _BLOCK - 1) // _BLOCK))
    for part in numba.prange(parts * matrix.shape[0]):
        network, number = np.int64(part) // parts, np.int64(part) % parts
        first, last = rows * number // parts, rows * (number + 1) // parts
        times_rows(spikes[network], matrix[network], late, first, last, out[network])


@numba.njit(error_model="numpy", parallel=dict(IN_THREADS))
def outer_kernel(spikes: Any, arrived: Any, delay: Any, out: Any) -> None:
    """Multiply spikes, transposed, with (networks, samples, steps, neurons).

    Threads share the sources, so no sum is split.
    """
    sources, late = spikes.shape[3], delay[0]
    parts = max(1, min(numba.get_num_threads(), sources))
    for part in numba.prange(parts * out.shape[0]):
        network, number = np.int64(part) // parts, np.int64(part) % parts
        first, last = sources * number // parts, sources * (number + 1) // parts
        outer_rows(spikes[network], arrived[network], late, first, last, out[network])
