# SPDX-License-Identifier: Apache-2.0
"""Numba code of products of spikes with matrices, and of spikes with cotangents: only spikes are visited."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....backends.numba import inner
from ....backends.numba.floats import flush_floats, restore_floats
from ....event.on_cpu.threads import IN_THREADS
from .on_loops import add_four, add_row

__all__ = ["outer_kernel", "times_kernel"]

_BLOCK = 64  # rows that a thread multiplies at least


@inner(apart=True)
def any_of_sixteen(bits: Any, first: Any) -> Any:
    """Say whether some of sixteen words are not zero, without a branch."""
    found = np.uint32(0)
    for k in range(16):
        found |= bits[first + k]
    return found != 0


@inner
def listed(row: Any, first: Any, last: Any, places: Any) -> Any:
    """List the elements that are not zero, ascending, and say how many there are."""
    bits, count = row.view(np.uint32), np.int64(0)
    whole = first + (last - first) // 16 * 16
    for start in range(first, whole, 16):
        if any_of_sixteen(bits, start):
            for k in range(start, start + 16):
                places[count] = k
                count += np.int64(row[k] != np.float32(0))
    for k in range(whole, last):
        places[count] = k
        count += np.int64(row[k] != np.float32(0))
    return count


@inner(apart=True)
def add_scaled(row: Any, factor: Any, sums: Any) -> None:
    """Add a multiple of a row to sums."""
    for k in range(sums.size):
        sums[k] += factor * row[k]


@inner
def add_listed(matrix: Any, values: Any, places: Any, count: Any, sums: Any) -> None:
    """Add rows of a matrix, times values, to sums, one after another."""
    ones = True
    for k in range(count):
        ones &= values[places[k]] == np.float32(1)
    whole = count - count % 4 if ones else 0
    for k in range(0, whole, 4):
        a, b, c, d = places[k], places[k + 1], places[k + 2], places[k + 3]
        add_four(matrix[a], matrix[b], matrix[c], matrix[d], sums)
    for k in range(whole, count):
        if ones:
            add_row(matrix[places[k]], sums)
        else:
            add_scaled(matrix[places[k]], values[places[k]], sums)


@inner
def times_rows(spikes: Any, matrix: Any, first: Any, last: Any, out: Any) -> None:
    """Multiply some rows of spikes with a matrix."""
    before, places = flush_floats(), np.empty(spikes.shape[1] + 1, np.int64)
    for row in range(first, last):
        count = listed(spikes[row], 0, spikes.shape[1], places)
        out[row, :] = 0
        add_listed(matrix, spikes[row], places, count, out[row])
    restore_floats(before)


@inner
def outer_rows(spikes: Any, arrived: Any, first: Any, last: Any, out: Any) -> None:
    """Add up, for some neurons, what arrived in all rows in which they spiked."""
    before, places = flush_floats(), np.empty(spikes.shape[1] + 1, np.int64)
    out[first:last, :] = 0
    for row in range(spikes.shape[0]):
        values = spikes[row]
        for k in range(listed(values, first, last, places)):
            neuron = places[k]
            if values[neuron] == np.float32(1):
                add_row(arrived[row], out[neuron])
            else:
                add_scaled(arrived[row], values[neuron], out[neuron])
    restore_floats(before)


@numba.njit(error_model="numpy", parallel=dict(IN_THREADS))
def times_kernel(spikes: Any, matrix: Any, out: Any) -> None:
    """Multiply (rows, sources) with (sources, neurons): threads share the rows."""
    parts = min(numba.get_num_threads(), (spikes.shape[0] + _BLOCK - 1) // _BLOCK)
    for part in numba.prange(parts):
        number, rows = np.int64(part), np.int64(spikes.shape[0])
        times_rows(spikes, matrix, rows * number // parts, rows * (number + 1) // parts, out)


@numba.njit(error_model="numpy", parallel=dict(IN_THREADS))
def outer_kernel(spikes: Any, arrived: Any, out: Any) -> None:
    """Multiply (rows, sources), transposed, with (rows, neurons): threads share the sources, so no sum is split."""
    parts = min(numba.get_num_threads(), spikes.shape[1])
    for part in numba.prange(parts):
        number, sources = np.int64(part), np.int64(spikes.shape[1])
        outer_rows(spikes, arrived, sources * number // parts, sources * (number + 1) // parts, out)
