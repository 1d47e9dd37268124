# SPDX-License-Identifier: Apache-2.0
"""Drawn rows in Numba: `through` goes along a row, and calls a function at each element; all kernels draw by it.

A `plan` is the operand `drawn`. `numbers.py` describes it and the tables, and does the same in `jax.numpy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.numba import half
from ...backends.numba.inner import inner
from ...backends.numba.internals import leading_zeros
from .numbers import NORMAL, SCALAR
from .tables import CELLS, FRACTION, NORMAL_CELLS

__all__ = ["through", "weighing"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_0, _1, _8, _27, _30, _31, _32, _63 = (np.uint64(number) for number in (0, 1, 8, 27, 30, 31, 32, 63))
_COLUMN = np.uint64(2**31 - 1)
_LOW = np.uint64(2**32 - 1)
_FRACTION, _CELL, _AFTER = np.uint64(FRACTION), np.uint64(31 - CELLS), np.uint64(CELLS + 1)
_IN_CELL = np.uint64((1 << CELLS) - 1)
_OCTAVE, _NORMAL_CELL = np.uint64(NORMAL_CELLS), np.uint64(31 - NORMAL_CELLS)
_IN_NORMAL, _NORMAL_AFTER, _17 = np.uint64((1 << NORMAL_CELLS) - 1), np.uint64(NORMAL_CELLS + 1), np.uint64(17)
_15 = np.int64(15)
_ROUNDED = {
    "float16": (half.to_float16, half.from_float16),
    "bfloat16": (half.to_bfloat16, half.from_bfloat16),
}


@inner
def _hashed(x: Any) -> Any:
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@inner
def _gap(logarithms: Any, scale: Any, shift: Any, word: Any) -> Any:
    word = word | _1
    zeros = np.uint64(leading_zeros(word)) - _32
    whole = word << zeros
    cell = logarithms[(whole >> _CELL) & _IN_CELL]
    behind = (cell & _LOW) + (((cell >> _32) * ((whole << _AFTER) & _LOW)) >> _32)
    size = ((zeros + _1) << _FRACTION) - behind
    return (size * scale) >> shift


@inner
def _uniform(quantiles: Any, word: Any) -> Any:
    return np.int64(word >> _8)


@inner
def _normal(quantiles: Any, word: Any) -> Any:
    above = (word >> _1) | _1
    zeros = np.uint64(leading_zeros(above)) - _32
    whole = above << zeros
    cell = ((zeros - _1) << _OCTAVE) | ((whole >> _NORMAL_CELL) & _IN_NORMAL)
    at = np.int64(((whole << _NORMAL_AFTER) & _LOW) >> _17)
    bent = quantiles[cell, _1] + ((quantiles[cell, np.uint64(2)] * at) >> _15)
    size = np.int64(quantiles[cell, _0]) + ((bent * at) >> _15)
    return -size if word & _1 else size


@functools.cache
def weighing(kind: int, dtype: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `weight(parts, quantiles, word)`: the weight of an element with this word, rounded to a dtype.

    `read(parts)` makes its parts of their array.
    """
    number = _normal if kind == NORMAL else _uniform
    rounded = inner(lambda x: x)
    if dtype in _ROUNDED:
        to_half, from_half = _ROUNDED[dtype]
        rounded = inner(lambda x: from_half(to_half(x)))

    @inner
    def weight(parts: Any, quantiles: Any, word: Any) -> Any:
        base, high, low = parts
        drawn = number(quantiles, word)
        # Products are exact, so it does not matter whether they are rounded before they are added.
        first, last = type(base)(drawn & np.int64(-4096)), type(base)(drawn & np.int64(4095))
        return rounded(base + (high * first + (low * first + high * last)))

    if kind == SCALAR:
        return inner(lambda parts: (rounded(parts[0]),)), inner(lambda parts, quantiles, word: parts[0])
    return inner(lambda parts: (parts[0], parts[1], parts[2])), weight


@functools.cache
def through(kind: int, at: Callable[..., Any]) -> Callable[..., Any]:
    """Return `go(total, plan, logarithms, parts, quantiles, x, silent, out, row, begin, end)`.

    It goes along a row from column `begin` up to `end`. For each element in order it computes
    `total = at(total, parts, quantiles, x, silent, out, column, word)`, and it returns the total.
    """
    of_weights = kind != SCALAR

    @inner
    def go(
        total: Any,
        plan: Any,
        logarithms: Any,
        parts: Any,
        quantiles: Any,
        x: Any,
        silent: Any,
        out: Any,
        row: Any,
        begin: Any,
        end: Any,
    ) -> Any:
        if begin >= end:
            return total
        scale, shift, width = np.uint64(plan[0]), np.uint64(plan[1]) & _63, np.uint64(plan[2]) & _31
        key, origin = np.uint64(plan[3]) | np.uint64(plan[4]) << _32, np.uint64(plan[6]) & _COLUMN
        line = _hashed(key + ((np.uint64(row) + np.uint64(plan[5])) & _LOW))
        low, high = origin + np.uint64(begin), origin + np.uint64(end)
        for segment in range(low >> width, ((high - _1) >> width) + _1):
            place = _hashed(line + segment)
            other = ~place
            column, stop = segment << width, min((segment + _1) << width, high)
            while True:
                place += _STEP
                bits = _hashed(place)
                words = bits
                if of_weights:
                    other += _STEP
                    words = _hashed(other)
                first = column + _gap(logarithms, scale, shift, bits & _LOW)
                second = first + _1 + _gap(logarithms, scale, shift, bits >> _32)
                if second >= stop:
                    break
                if first >= low:
                    total = at(total, parts, quantiles, x, silent, out, first - origin, words & _LOW)
                if second >= low:
                    total = at(total, parts, quantiles, x, silent, out, second - origin, words >> _32)
                column = second + _1
            if low <= first < stop:
                total = at(total, parts, quantiles, x, silent, out, first - origin, words & _LOW)
        return total

    return go
