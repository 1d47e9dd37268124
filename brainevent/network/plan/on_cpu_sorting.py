# SPDX-License-Identifier: Apache-2.0
"""Numba loops that put synapses in the order of a plan: by source, part, delay and target."""

from __future__ import annotations

from typing import Any

import numpy as np

from .on_cpu_rows import draw_row, number_of
from .on_cpu_values import I, called, inlined, loop

__all__ = ["copy_row", "draw_rows", "finish_row", "place_listed", "place_rows", "sort_rows"]

_FEW = 24  # entries that are sorted by insertion
_SOME = 256  # targets that are sorted by larger digits
_MANY = 1024  # entries that are sorted by larger digits
_TARGET_BITS = 32  # of a key


@inlined
def _insertion(count: int, keys: Any, values: Any) -> None:
    for i in range(1, count):
        key, value, to = keys[i], values[i], i
        while to > 0 and keys[to - 1] > key:
            keys[to], values[to] = keys[to - 1], values[to - 1]
            to -= 1
        keys[to], values[to] = key, value


@inlined
def _by_digit(count: int, shift: Any, keys: Any, values: Any, new_keys: Any, new_values: Any, counters: Any) -> bool:
    """Sort by one digit into new arrays, unless it is the same for all."""
    counters[:] = 0
    mask = np.uint64(counters.size - 1)
    for i in range(count):
        counters[(keys[i] >> shift) & mask] += 1
    if counters[(keys[0] >> shift) & mask] == count:
        return False
    total = 0
    for digit in range(counters.size):
        here = counters[digit]
        counters[digit] = total
        total += here
    for i in range(count):
        digit = (keys[i] >> shift) & mask
        to = counters[digit]
        counters[digit] = to + 1
        new_keys[to], new_values[to] = keys[i], values[i]
    return True


@inlined
def _sort(count: int, bits: Any, scratch: Any, counters: Any, digit: int) -> int:
    """Sort keys and values by digits, of the targets and of what is above; return which of two arrays has them."""
    keys, values, now = scratch.keys, scratch.values, 0
    for field in range(2):
        for shift in range(0, bits[field], digit):
            at = np.uint64(shift + field * _TARGET_BITS)
            if _by_digit(count, at, keys[now], values[now], keys[1 - now], values[1 - now], counters):
                now = 1 - now
    return now


@inlined
def _bit_length(x: int) -> int:
    bits = 0
    while x >> bits:
        bits += 1
    return bits


@inlined
def _pack(count: int, scratch: Any, bounds: Any, delay_bits: int) -> None:
    """Write the keys by which a row is sorted: part, delay and target; and its weights as values."""
    keys, values = scratch.keys[0], scratch.values[0]
    ends, weights, delays = scratch.ends, scratch.weights, scratch.delays
    for i in range(count):
        keys[i] = (np.uint64(delays[i]) << np.uint64(_TARGET_BITS)) | np.uint64(ends[i])
        values[i] = weights[i]
    for part in range(bounds.size - 1):
        bound = bounds[part]
        for i in range(count):
            keys[i] += np.uint64(ends[i] >= bound) << np.uint64(_TARGET_BITS + delay_bits)


@inlined
def _unpack(count: int, scratch: Any, now: int, delay_bits: int, loads: Any) -> None:
    """Write ends, weights and delays back, in order; add what they may send to each target."""
    keys, values = scratch.keys[now], scratch.values[now]
    ends, weights, delays = scratch.ends, scratch.weights, scratch.delays
    mask = np.uint64((1 << delay_bits) - 1)
    for i in range(count):
        ends[i] = np.int32(keys[i] & np.uint64(2**32 - 1))
        delays[i] = np.int32((keys[i] >> np.uint64(_TARGET_BITS)) & mask)
        weights[i] = values[i]
    for i in range(count):
        loads[ends[i]] += abs(weights[i])


@inlined
def _copy(count: int, start: int, values: Any, narrow: Any, wide: Any) -> None:
    """Write values from `start` on, into whichever array there is."""
    if narrow.size:
        for i in range(count):
            narrow[start + i] = values[i]
    elif wide.size:
        for i in range(count):
            wide[start + i] = values[i]


@inlined
def _load(count: int, start: int, values: Any, narrow: Any, wide: Any) -> None:
    """Read values from `start` on, from whichever array there is."""
    if narrow.size:
        for i in range(count):
            values[i] = narrow[start + i]
    elif wide.size:
        for i in range(count):
            values[i] = wide[start + i]


@inlined
def copy_row(count: int, start: int, scratch: Any, entries: Any) -> None:
    """Write a row that is in scratch from `start` on."""
    _copy(count, start, scratch.ends, entries.targets, entries.wide_targets)
    _copy(count, start, scratch.weights, entries.weights, entries.wide_weights)
    _copy(count, start, scratch.delays, entries.delays, entries.wide_delays)


@inlined
def _targets_by_digits(count: int, most: int, scratch: Any) -> int:
    """Sort targets up to `most` by digits; return which row of `scratch.values` has them."""
    ends, values, now, bits = scratch.ends, scratch.values, 0, _bit_length(most)
    for i in range(count):
        values[0, i] = ends[i]
    widest = 11 if count > _SOME else 8
    passes = (bits + widest - 1) // widest
    digit = (bits + passes - 1) // max(passes, 1)
    counters = scratch.more_counters[: np.int64(1) << digit]
    mask = I(counters.size - 1)
    for step in range(passes):
        shift = I(step * digit)
        counters[:] = 0
        for i in range(count):
            counters[(values[now, i] >> shift) & mask] += 1
        total = 0
        for k in range(counters.size):
            here = counters[k]
            counters[k] = total
            total += here
        for i in range(count):
            target = values[now, i]
            place = (target >> shift) & mask
            values[1 - now, counters[place]] = target
            counters[place] += 1
        now = 1 - now
    return now


@inlined
def _finish_targets(row: int, count: int, start: int, scratch: Any, entries: Any, loads: Any) -> None:
    """Do what `finish_row` does for synapses that have one weight and one delay: a part is a range of targets."""
    if count > _FEW:
        targets = scratch.values[_targets_by_digits(count, entries.largest[0], scratch)]
    else:
        targets = scratch.ends
        _insertion(count, targets, scratch.weights)
    parts, end = entries.bounds.size, 0
    _copy(count, start, targets, entries.targets, entries.wide_targets)
    for i in range(count):
        loads[targets[i]] += 1
    for part in range(parts):
        entries.starts[(row - entries.row) * parts + part] = start + end
        while end < count and targets[end] < entries.bounds[part]:
            end += 1


@called
def finish_row(row: int, count: int, start: int, scratch: Any, entries: Any, loads: Any) -> None:
    """Sort a row that is in scratch, and write it from `start` on; add what it may send to each target."""
    if not entries.weights.size + entries.wide_weights.size + entries.delays.size + entries.wide_delays.size:
        _finish_targets(row, count, start, scratch, entries, loads)
        return
    bounds, keys, values = entries.bounds, scratch.keys, scratch.values
    delay_bits = _bit_length(entries.largest[1])
    bits = (_bit_length(entries.largest[0]), delay_bits + _bit_length(bounds.size - 1))
    _pack(count, scratch, bounds, delay_bits)
    now = 0
    if count <= _FEW:
        _insertion(count, keys[0], values[0])
    elif count < _MANY:
        now = _sort(count, bits, scratch, scratch.counters, np.int64(8))
    else:
        now = _sort(count, bits, scratch, scratch.more_counters, np.int64(11))
    _unpack(count, scratch, now, delay_bits, loads)
    copy_row(count, start, scratch, entries)
    end, parts = 0, bounds.size
    for part in range(parts):
        entries.starts[(row - entries.row) * parts + part] = start + end
        while end < count and keys[now, end] >> np.uint64(_TARGET_BITS + delay_bits) == np.uint64(part):
            end += 1


@inlined
def _put(at: int, value: Any, narrow: Any, wide: Any) -> None:
    """Write a value into whichever array there is."""
    if narrow.size:
        narrow[at] = value
    elif wide.size:
        wide[at] = value


@loop
def draw_rows(first: int, last: int, drawn: Any, rows: Any, scratch: Any, entries: Any, loads: Any) -> int:
    """Draw the rows of some sources, and write them in order; return how many weights are off by rounding.

    Row i has the entries rows[i] to rows[i + 1] - 1 of all.
    """
    off = 0
    for row in range(first, last):
        count = rows[row + 1] - rows[row]
        off += draw_row(drawn, row, count, scratch)
        finish_row(row, count, rows[row] - entries.before, scratch, entries, loads)
    return off


@loop
def place_rows(first: int, last: int, drawn: Any, count: int, places: Any, scratch: Any, entries: Any) -> int:
    """Draw the rows of some targets, and write each entry at the next place of its source; return how many are off."""
    off, targets = 0, scratch.values[0]
    for row in range(first, last):
        own = number_of(drawn, row, count)
        off += draw_row(drawn, row, own, scratch)
        targets[:] = row
        _place(scratch.ends[:own], targets, scratch.weights, scratch.delays, places, entries)
    return off


@called
def _place(sources: Any, targets: Any, weights: Any, delays: Any, places: Any, entries: Any) -> None:
    """Write synapses in any order, each at the next place of its source; weights or delays may have one element."""
    narrow, wide = entries.targets, entries.wide_targets
    small, large = entries.weights, entries.wide_weights
    short, long = entries.delays, entries.wide_delays
    for i in range(sources.size):
        source = sources[i]
        at = places[source]
        places[source] = at + 1
        _put(at, targets[i], narrow, wide)
        _put(at, weights[i if weights.size > 1 else 0], small, large)
        _put(at, delays[i if delays.size > 1 else 0], short, long)


@loop
def place_listed(sources: Any, targets: Any, weights: Any, delays: Any, places: Any, entries: Any) -> None:
    """Write synapses in any order, each at the next place of its source; weights or delays may have one element."""
    _place(sources, targets, weights, delays, places, entries)


@loop
def sort_rows(first: int, last: int, rows: Any, scratch: Any, entries: Any, loads: Any) -> None:
    """Put the entries of some sources in order, which are all there."""
    for row in range(first, last):
        start, count = rows[row], rows[row + 1] - rows[row]
        _load(count, start, scratch.ends, entries.targets, entries.wide_targets)
        _load(count, start, scratch.weights, entries.weights, entries.wide_weights)
        _load(count, start, scratch.delays, entries.delays, entries.wide_delays)
        finish_row(row, count, start, scratch, entries, loads)
