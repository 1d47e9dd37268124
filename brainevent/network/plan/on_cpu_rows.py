# SPDX-License-Identifier: Apache-2.0
"""Numba loops that draw the ends, weights and delays of synapses, row by row.

A row is a neuron at one end of its synapses; `ends` are the neurons at the other end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .loop_arguments import ALL, DISTINCT, GAPS, GROUPED, REPLACED
from .on_cpu_values import F, I, below, called, gap, inlined, loop, values_into, words_into

__all__ = ["count_drawn", "count_ends", "count_gaps", "draw_row", "number_of", "whole_into"]

I64: Any = np.int64
_FIRST = np.int64(0)  # no literal: that would be another function


@loop
def count_drawn(first: int, last: int, sources: int, key: Any, words: Any, more: Any, counts: Any) -> None:
    """Add how many synapses from 2 first to 2 last - 1 each source has; synapse j takes word j % 2 of place j // 2."""
    for start in range(first, last, words.size):
        count = words.size if words.size < last - start else last - start
        words_into(key, start >> 32, start & 0xFFFFFFFF, count, words, more)
        for i in range(count):
            counts[below(words[i], sources)] += 1
            counts[below(more[i], sources)] += 1


@inlined
def _own(drawn: Any, row: int) -> int:
    """Return which end a row leaves out; the number of ends if none."""
    if not drawn.skip:
        return I64(drawn.ends)
    return I64(drawn.own[row] if drawn.own.size else row)


@inlined
def _gaps(drawn: Any, row: int, scratch: Any) -> int:
    """Draw which ends a row has, all as likely; if there is no room for them, count them."""
    block, more, gaps, ends, words = scratch.block, scratch.more_block, scratch.gaps, scratch.ends, scratch.more
    end, found, first, own = -1, 0, _FIRST, _own(drawn, row)
    while True:
        words_into(drawn.keys[0], row, first, block.size, block, more)
        for i in range(block.size):
            gaps[i] = gap(block[i], drawn.scale)
        for i in range(block.size):
            end += 1 + gaps[i]
            if end >= drawn.ends:
                return found
            if end != own:
                if ends.size:
                    ends[found], words[found] = end, more[i]
                found += 1
        first += block.size


@loop
def count_gaps(first: int, last: int, drawn: Any, scratch: Any, counts: Any) -> None:
    """Write how many ends each row has that takes each with the same probability."""
    for row in range(first, last):
        counts[row] = _gaps(drawn, row, scratch)


@inlined
def _distinct(count: int, size: int, words: Any, ends: Any, taken: Any) -> None:
    """Draw different integers below a size (R. Floyd's method); `taken` is zero before and after."""
    for i in range(count):
        top = size - count + i
        end = below(words[i], top + 1)
        if (taken[end >> 6] >> np.uint64(end & 63)) & np.uint64(1):
            end = top
        taken[end >> 6] |= np.uint64(1) << np.uint64(end & 63)
        ends[i] = end
    for i in range(count):
        taken[ends[i] >> 6] = 0


@inlined
def number_of(drawn: Any, row: int, number: int) -> int:
    """Return how many ends a row has: this number, unless they are of groups."""
    if drawn.kind != GROUPED:
        return I64(number)
    count, group = I64(0), drawn.group[row]
    for k in range(drawn.table.shape[1]):
        count += drawn.table[group, k]
    return count


@inlined
def _of_groups(drawn: Any, row: int, words: Any, ends: Any) -> None:
    """Draw as many ends of each group as the table says, those of the first group first."""
    i, group = 0, drawn.group[row]
    for k in range(drawn.table.shape[1]):
        begin = drawn.begins[k]
        size = drawn.begins[k + 1] - begin
        for _ in range(drawn.table[group, k]):
            ends[i] = drawn.order[begin + below(words[i], size)]
            i += 1


@inlined
def whole_into(law: Any, words: Any, count: int, floats: Any, out: Any) -> int:
    """Write the values of a law, rounded to integers; return how many differ by more than 2^-9 of their value."""
    values_into(law, words, count, floats)
    off = 0
    for i in range(count):
        nearest = np.rint(floats[i])
        out[i] = I(nearest)
        off += abs(floats[i] - nearest) > abs(floats[i]) * F(2**-9)
    return off


@inlined
def _ends(drawn: Any, row: int, count: int, scratch: Any) -> None:
    """Draw the ends of a row, and the words of its weights."""
    ends, words, own = scratch.ends, scratch.words, _own(drawn, row)
    size = drawn.ends - (own < drawn.ends)
    if drawn.kind == GAPS:
        if count:
            _gaps(drawn, row, scratch)
        return
    words_into(drawn.keys[0], row, _FIRST, count, words, scratch.more)
    if drawn.kind == REPLACED:
        for i in range(count):
            ends[i] = below(words[i], size)
    elif drawn.kind == DISTINCT:
        _distinct(count, size, words, ends, scratch.taken)
    elif drawn.kind == GROUPED:
        _of_groups(drawn, row, words, ends)
    else:
        for i in range(count):
            ends[i] = i if drawn.kind == ALL else row
    if drawn.skip:
        for i in range(count):
            ends[i] += ends[i] >= own


@called
def draw_row(drawn: Any, row: int, count: int, scratch: Any) -> int:
    """Draw ends, weights and delays of a row into scratch; return how many weights are off by rounding."""
    _ends(drawn, row, count, scratch)
    off = 0
    if drawn.weights.size and drawn.floats:
        values_into(drawn.weights, scratch.more, count, scratch.weights.view(F))
    elif drawn.weights.size:
        off = whole_into(drawn.weights, scratch.more, count, scratch.floats, scratch.weights)
    if drawn.delays.size:
        words_into(drawn.keys[1], row, _FIRST, count, scratch.words, scratch.more)
        whole_into(drawn.delays, scratch.words, count, scratch.floats, scratch.delays)
    return off


@loop
def count_ends(first: int, last: int, drawn: Any, count: int, scratch: Any, counts: Any) -> None:
    """Add how often each end is drawn by rows of the given numbers."""
    for row in range(first, last):
        own = number_of(drawn, row, count)
        _ends(drawn, row, own, scratch)
        for i in range(own):
            counts[scratch.ends[i]] += 1
