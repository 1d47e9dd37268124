# SPDX-License-Identifier: Apache-2.0
"""Numba code of changes of synapses: each synapse is read and written once for all steps, and only spikes are visited.

Arrays are those of `Change`; spikes are bytes, 0 and 1, of the steps and of those before them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....backends.numba.floats import flush_floats, restore_floats
from ....backends.numba.inner import inner
from ....backends.numba.memory import array_at, word
from ....backends.numba.side_by_side import side_by_side
from ....backends.numba.vectors import address
from .on_loops import copy_row, fill_row, list_ones, sum_rows

__all__ = ["dense_changes", "sparse_changes"]

_SOURCES = 256  # of which a thread changes the synapses at a time, at most


@inner(apart=True)
def add_products(factors: Any, values: Any, sums: Any) -> None:
    """Add products of two rows to sums."""
    for k in range(sums.size):
        sums[k] += factors[k] * values[k]


@inner(apart=True)
def add_multiple(factor: Any, values: Any, sums: Any) -> None:
    """Add a multiple of a row to sums."""
    for k in range(sums.size):
        sums[k] += factor * values[k]


@inner(later=True)
def group_of(value: Any, outer: Any) -> Any:
    """Return the first value on which a value may depend."""
    return 0 if value == 0 else 1 if value <= outer else 1 + outer


@inner(later=True)
def list_spikes(spikes: Any, first: Any, count: Any, starts: Any) -> Any:
    """Return the rows of spikes of some sources, ascending, those of source k from `starts[k]` to `starts[k + 1]`."""
    rows, width = spikes.shape
    places, events = np.empty(count + 1, np.int32), np.empty((2, rows * count), np.int32)
    found, total = np.empty(rows * count, np.int32), np.int64(0)
    fill_row(0, starts)
    for row in range(rows):
        ones = list_ones(address(spikes) + row * width + first, count, places)
        for k in range(ones):
            events[0, total + k], events[1, total + k] = row, places[k]
            starts[places[k] + 2] += 1
        total += ones
    for k in range(count):
        starts[k + 2] += starts[k + 1]
    for k in range(total):
        source = events[1, k]
        found[starts[source + 1]] = events[0, k]
        starts[source + 1] += 1
    return found


@inner(later=True)
def dense_source(source: Any, late: Any, outer: Any, before: Any, arrays: Any, found: Any, sums: Any, out: Any) -> None:
    """Change the synapses of a source, whose spike in row `found[k]` arrives in step `found[k] + late[delay]`."""
    maps, factors, terms, rows = arrays
    known, (values, steps, width) = maps.shape[1], rows.shape
    for which in range(late.size):
        begin, end = np.int64(0), np.int64(found.size)
        while begin < end and found[begin] + late[which] < 0:
            begin += 1
        while begin < end and found[end - 1] + late[which] >= steps:
            end -= 1
        for q in range(values):
            fill_row(0, sums[q])
            for r in range(group_of(q, outer), known):
                add_products(maps[q, r], before[r, which, source], sums[q])
            for k in range(terms.shape[0]):
                add_multiple(terms[k, which, source], factors[q, k], sums[q])
            first = address(rows[q]) + 4 * width * late[which]
            sum_rows(address(sums[q]), first, width, address(found) + 4 * begin, end - begin)
        for q in range(values):
            copy_row(sums[q], out[q, which, source])


@inner(later=True)
def sparse_source(
    source: Any, late: Any, outer: Any, before: Any, arrays: Any, structure: Any, found: Any, sums: Any, out: Any
) -> None:
    """Do what `dense_source` does, synapse by synapse; `rows` are (values, neurons, steps)."""
    maps, factors, terms, rows = arrays
    starts, targets, which = structure
    known, values, steps = maps.shape[1], rows.shape[0], rows.shape[2]
    for entry in range(starts[source], starts[source + 1]):
        target, delay = targets[entry], which[entry]
        for q in range(values):
            total = np.float32(0)
            for r in range(group_of(q, outer), known):
                total += maps[q, r, target] * before[r, entry]
            for k in range(terms.shape[0]):
                total += terms[k, delay, source] * factors[q, k, target]
            row = rows[q, target]
            for k in range(found.size):
                step = found[k] + late[delay]
                if 0 <= step < steps:
                    total += row[step]
            sums[q, 0] = total
        for q in range(values):
            out[q, entry] = sums[q, 0]


@inner(later=True)
def arrays_of(table: Any, sources: Any, delays: Any, values: Any, known: Any, terms: Any, neurons: Any) -> Any:
    """Return the arrays of a change, but for its rows."""
    return (
        array_at(word(table, 0), (values, known, neurons), np.float32),
        array_at(word(table, 1), (values, terms, neurons), np.float32),
        array_at(word(table, 2), (terms, delays, sources), np.float32),
    )


@inner(later=True)
def dense_part(number: Any, table: Any) -> None:
    """Change the synapses of some sources."""
    before, parts, outer = flush_floats(), word(table, 7), word(table, 8)
    sources, delays, values = word(table, 9), word(table, 10), word(table, 11)
    terms, steps, neurons, height = word(table, 12), word(table, 13), word(table, 14), word(table, 15)
    known = word(table, 17)
    maps, factors, of_sources = arrays_of(table, sources, delays, values, known, terms, neurons)
    rows = array_at(word(table, 3), (values, steps, neurons), np.float32)
    spikes = array_at(word(table, 4), (height, sources), np.uint8)
    late = array_at(word(table, 5), (delays,), np.int32)
    given = array_at(word(table, 6), (known, delays, sources, neurons), np.float32)
    out = array_at(word(table, 16), (values, delays, sources, neurons), np.float32)
    first, last = sources * number // parts, sources * (number + 1) // parts
    starts, sums = np.empty(last - first + 2, np.int32), np.empty((values, neurons), np.float32)
    found = list_spikes(spikes, first, last - first, starts)
    arrays = maps, factors, of_sources, rows
    for k in range(last - first):
        dense_source(first + k, late, outer, given, arrays, found[starts[k] : starts[k + 1]], sums, out)
    restore_floats(before)


@inner(later=True)
def sparse_part(number: Any, table: Any) -> None:
    """Change the synapses of some sources."""
    before, parts, outer = flush_floats(), word(table, 7), word(table, 8)
    sources, delays, values = word(table, 9), word(table, 10), word(table, 11)
    terms, steps, neurons, height = word(table, 12), word(table, 13), word(table, 14), word(table, 15)
    entries = word(table, 21)
    known = word(table, 17)
    maps, factors, of_sources = arrays_of(table, sources, delays, values, known, terms, neurons)
    rows = array_at(word(table, 3), (values, neurons, steps), np.float32)
    spikes = array_at(word(table, 4), (height, sources), np.uint8)
    late = array_at(word(table, 5), (delays,), np.int32)
    given = array_at(word(table, 6), (known, entries), np.float32)
    out = array_at(word(table, 16), (values, entries), np.float32)
    structure = (
        array_at(word(table, 18), (sources + 1,), np.int32),
        array_at(word(table, 19), (entries,), np.int32),
        array_at(word(table, 20), (entries,), np.int32),
    )
    first, last = sources * number // parts, sources * (number + 1) // parts
    starts, sums = np.empty(last - first + 2, np.int32), np.empty((values, 1), np.float32)
    found = list_spikes(spikes, first, last - first, starts)
    arrays = maps, factors, of_sources, rows
    for k in range(last - first):
        of_source = found[starts[k] : starts[k + 1]]
        sparse_source(first + k, late, outer, given, arrays, structure, of_source, sums, out)
    restore_floats(before)


@inner(later=True)
def table_of(given: Any, arrays: Any, spikes: Any, late: Any, outer: Any, out: Any, steps: Any) -> Any:
    """Return what a part needs, as words; the number of parts is the eighth."""
    maps, factors, terms, rows = arrays
    table, sources = np.empty(22, np.int64), np.int64(spikes.shape[1])
    table[0], table[1], table[2], table[3] = address(maps), address(factors), address(terms), address(rows)
    table[4], table[5], table[6], table[16] = address(spikes), address(late), address(given), address(out)
    threads = np.int64(numba.get_num_threads())
    table[7] = max(np.int64(1), min(max(threads, (sources + _SOURCES - 1) // _SOURCES), sources))
    table[8], table[9], table[10], table[11] = outer[0], sources, late.size, maps.shape[0]
    table[12], table[13], table[14], table[15] = terms.shape[0], steps, maps.shape[2], spikes.shape[0]
    table[17] = maps.shape[1]
    return table


@numba.njit(error_model="numpy")
def dense_changes(
    given: Any, maps: Any, factors: Any, terms: Any, rows: Any, spikes: Any, late: Any, outer: Any, out: Any
) -> None:
    """Change values (values, delays, sources, neurons) of synapses: threads share the sources."""
    table = table_of(given, (maps, factors, terms, rows), spikes, late, outer, out, rows.shape[1])
    if out.size > 0:
        side_by_side(dense_part, table[7], table, np.int64(numba.get_num_threads()))


@numba.njit(error_model="numpy")
def sparse_changes(
    given: Any,
    maps: Any,
    factors: Any,
    terms: Any,
    rows: Any,
    spikes: Any,
    late: Any,
    outer: Any,
    starts: Any,
    targets: Any,
    which: Any,
    out: Any,
) -> None:
    """Change values (values, entries) of synapses, given rows (values, neurons, steps): threads share the sources."""
    table = table_of(given, (maps, factors, terms, rows), spikes, late, outer, out, rows.shape[2])
    table[18], table[19], table[20], table[21] = address(starts), address(targets), address(which), given.shape[1]
    if out.size > 0:
        side_by_side(sparse_part, table[7], table, np.int64(numba.get_num_threads()))
