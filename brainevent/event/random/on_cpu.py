# SPDX-License-Identifier: Apache-2.0
"""Numba loops that draw the columns of rows; each row has a stream of random numbers, given by its number and the seed.

A stream is SplitMix64 from its own start: draw i is a hash of the start plus i steps, so it needs no memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.internals import trailing_zeros
from ...backends.numba.loops import loop_of

__all__ = ["choose_columns", "count_columns", "count_rows", "fill_columns", "turn"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_0, _1, _6, _11, _27, _30, _31, _32, _63 = (np.uint64(number) for number in (0, 1, 6, 11, 27, 30, 31, 32, 63))
_LOW_HALF = np.uint64(2**32 - 1)
_UNIT = 2.0**-53
_WORD = 64  # columns that one word of a set holds
_loop = loop_of(__file__)


@inner
def _hash(x: Any) -> Any:
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@inner
def _stream(seed: Any, row: int) -> Any:
    return _hash(_hash(seed + _STEP) + np.uint64(row))


@inner
def _gap(stream: Any, draw: int, scale: float) -> float:
    """Return how many columns are skipped, not yet rounded down: geometric, by inversion."""
    bits = _hash(stream + np.uint64(draw) * _STEP) >> _11
    return math.log((np.float64(bits) + 0.5) * _UNIT) * scale


@_loop
def count_columns(start: int, stop: int, columns: int, scale: Any, seed: Any, counts: Any) -> None:
    """Write how many columns row i has into `counts[i + 1]`; `scale` holds 1 / log(1 - probability)."""
    for row in range(start, stop):
        stream, draw, column, found = _stream(seed, row), 1, 0, 0
        gap = _gap(stream, draw, scale[0])
        while gap < columns - column:
            column += 1 + int(gap)
            found += 1
            draw += 1
            gap = _gap(stream, draw, scale[0])
        counts[row + 1] = found


@_loop
def fill_columns(start: int, stop: int, columns: int, scale: Any, seed: Any, indptr: Any, indices: Any) -> None:
    """Write the columns that `count_columns` has counted, by the same draws."""
    for row in range(start, stop):
        stream, first, column = _stream(seed, row), indptr[row], 0
        for position in range(first, indptr[row + 1]):
            column += int(_gap(stream, position - first + 1, scale[0]))
            indices[position] = column
            column += 1


@inner
def _insert(stream: Any, columns: int, picks: int, taken: Any, chosen: Any) -> None:
    """Draw `picks` different columns into a set of bits, and into a list unless it is empty."""
    size = np.uint64(columns)
    biased = (_LOW_HALF + _1) % size  # low halves of products that are refused, so that all columns are equally likely
    draw, found = _0, 0
    while found < picks:
        draw += _1
        product = (_hash(stream + draw * _STEP) >> _32) * size
        column = product >> _32
        word, bit = column >> _6, _1 << (column & _63)
        if (product & _LOW_HALF) >= biased and taken[word] & bit == _0:
            taken[word] |= bit
            if chosen.size > 0:
                chosen[found] = column
            found += 1


@_loop
def choose_columns(
    start: int, stop: int, columns: int, number: int, seed: Any, first: int, taken: Any, indices: Any
) -> None:
    """Write `number` different columns of each row, sorted; `indices` begin with those of row `first`.

    `taken` is a set of columns, 64 in a word, empty before and after.
    """
    left_out = number > columns - number  # then drawing those is faster
    picks = columns - number if left_out else number
    by_sorting = not left_out and taken.size > 8 * picks
    for row in range(start, stop):
        chosen = indices[(row - first) * number : (row - first + 1) * number]
        if by_sorting:
            _insert(_stream(seed, row), columns, picks, taken, chosen)
            chosen.sort()
            for column in chosen:
                taken[column >> 6] = _0
            continue
        _insert(_stream(seed, row), columns, picks, taken, indices[:0])
        found = 0
        for word in range(taken.size):
            bits = ~taken[word] if left_out else taken[word]
            taken[word] = _0
            while bits != _0 and found < number:
                chosen[found] = word * _WORD + trailing_zeros(bits)
                bits &= bits - _1
                found += 1


@_loop
def count_rows(rows: Any, counts: Any) -> None:
    """Add how often row i was drawn to `counts[i + 1]`."""
    for row in rows:
        counts[row + 1] += 1


@_loop
def turn(rows: Any, number: int, first: int, places: Any, indices: Any) -> None:
    """Write columns, from `first` on, given `number` rows of each; `places[i]` is where those of row i go."""
    for i in range(rows.size):
        place = places[rows[i]]
        indices[place] = first + i // number
        places[rows[i]] = place + 1
