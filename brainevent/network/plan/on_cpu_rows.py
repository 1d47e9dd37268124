# SPDX-License-Identifier: Apache-2.0
"""Numba loops that draw the ends, weights and delays of synapses, row by row.

A row is a neuron at one end of its synapses; `ends` are the neurons at the other end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .on_cpu_words import F, I, below, called, compiled, inlined, log1p, values_into, words_into

__all__ = ["ALL", "DISTINCT", "GAPS", "ONE", "REPLACED", "Drawn", "Scratch", "count_drawn", "count_gaps", "draw_row"]
__all__ += ["count_ends", "scratch_for"]

REPLACED, DISTINCT, GAPS, ALL, ONE = range(5)  # how the ends of a row are drawn
_LARGEST_GAP, _LARGEST_UNIFORM = F(2**30), F(1 - 2**-24)
_BLOCK = 64  # words that are drawn at a time where their number is not known
_FIRST = np.int64(0)  # no literal: that would be another function


class Drawn(NamedTuple):
    """How the synapses of rows are drawn."""

    kind: int
    ends: int  # neurons at the other end
    skip: int  # 1 leaves a neuron's synapse to itself out
    scale: Any  # of gaps, float32
    keys: Any  # uint32 (2, 2): of ends and weights, and of delays
    weights: Any  # float32 (6,), a law in quanta, or (0,)
    delays: Any  # likewise, in steps


class Scratch(NamedTuple):
    """Room for one row; Python makes it, since what compiles slowest is what allocates arrays."""

    ends: Any
    weights: Any
    delays: Any
    words: Any
    more: Any
    floats: Any
    taken: Any  # bits of ends
    keys: Any  # uint64 (2, room), for sorting
    values: Any
    block: Any
    more_block: Any
    gaps: Any
    counters: Any
    more_counters: Any


def scratch_for(room: int, ends: int) -> Scratch:
    """Return room for rows of the given numbers of synapses, whose weights are 1 unless they are drawn."""
    return Scratch(
        np.zeros(room, np.int32),
        np.ones(room, np.int32),
        np.zeros(room, np.int32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.float32),
        np.zeros((ends >> 6) + 1, np.uint64),
        np.empty((2, room), np.uint64),
        np.empty((2, room), np.int32),
        np.empty(_BLOCK, np.uint32),
        np.empty(_BLOCK, np.uint32),
        np.empty(_BLOCK, np.int32),
        np.empty(256, np.int64),
        np.empty(2048, np.int64),
    )


@compiled
def count_drawn(first: int, last: int, sources: int, key: Any, words: Any, more: Any, counts: Any) -> None:
    """Add how many synapses from 2 first to 2 last - 1 each source has; synapse j takes word j % 2 of place j // 2."""
    for start in range(first, last, words.size):
        count = words.size if words.size < last - start else last - start
        words_into(key, start >> 32, start & 0xFFFFFFFF, count, words, more)
        for i in range(count):
            counts[below(words[i], sources)] += 1
            counts[below(more[i], sources)] += 1


@inlined
def _gaps(drawn: Any, row: int, scratch: Any) -> int:
    """Draw which ends a row has, all as likely; if there is no room for them, count them."""
    block, more, gaps, ends, words = scratch.block, scratch.more_block, scratch.gaps, scratch.ends, scratch.more
    end, found, first = -1, 0, _FIRST
    while True:
        words_into(drawn.keys[0], row, first, block.size, block, more)
        for i in range(block.size):
            u = F(block[i]) * F(2**-32)
            gap = -log1p(-(_LARGEST_UNIFORM if u > _LARGEST_UNIFORM else u)) * drawn.scale
            gaps[i] = I(_LARGEST_GAP if gap > _LARGEST_GAP else gap)
        for i in range(block.size):
            end += 1 + gaps[i]
            if end >= drawn.ends:
                return found
            if not (drawn.skip and end == row):
                if ends.size:
                    ends[found], words[found] = end, more[i]
                found += 1
        first += block.size


@compiled
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
def _whole(law: Any, words: Any, count: int, floats: Any, out: Any) -> int:
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
    ends, words, size = scratch.ends, scratch.words, drawn.ends - drawn.skip
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
    else:
        for i in range(count):
            ends[i] = i if drawn.kind == ALL else row
    if drawn.skip:
        for i in range(count):
            ends[i] += ends[i] >= row


@called
def draw_row(drawn: Any, row: int, count: int, scratch: Any) -> int:
    """Draw ends, weights and delays of a row into scratch; return how many weights are off by rounding."""
    _ends(drawn, row, count, scratch)
    off = 0
    if drawn.weights.size:
        off = _whole(drawn.weights, scratch.more, count, scratch.floats, scratch.weights)
    if drawn.delays.size:
        words_into(drawn.keys[1], row, _FIRST, count, scratch.words, scratch.more)
        _whole(drawn.delays, scratch.words, count, scratch.floats, scratch.delays)
    return off


@compiled
def count_ends(first: int, last: int, drawn: Any, count: int, scratch: Any, counts: Any) -> None:
    """Add how often each end is drawn by rows of the given numbers."""
    for row in range(first, last):
        _ends(drawn, row, count, scratch)
        for i in range(count):
            counts[scratch.ends[i]] += 1
