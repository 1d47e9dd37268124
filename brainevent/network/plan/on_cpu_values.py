# SPDX-License-Identifier: Apache-2.0
"""Numba loops that draw words and values: functions of keys, row and place in the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES
from ...backends.numba.inner import inner
from ...scalar.on_numba import compiled_forms
from ...scalar.samplers import sampler_forms
from .distribution import EXPONENTIAL, LOGNORMAL, NORMAL, UNIFORM

__all__ = ["F", "I", "U", "below", "called", "clipped", "gap", "inlined", "loop", "threefry", "values_into"]
__all__ += ["words_into"]

U, I, F = np.uint32, np.int32, np.float32  # noqa: E741 - short, as they are around every operation

loop = inner(error_model="numpy", flushes=HARDWARE_FLUSHES, later=True)  # that Python calls
called = inner(error_model="numpy", flushes=HARDWARE_FLUSHES, later=True)  # by other loops alone
inlined = inner(error_model="numpy", flushes=HARDWARE_FLUSHES, later=True, forceinline=True)  # and then vectorised

_functions = compiled_forms(sampler_forms(), inlined=True)
threefry, gap, integer = _functions["threefry"], _functions["gap"], _functions["integer"]
uniform, normal = _functions["uniform"], _functions["normal"]
lognormal, exponential = _functions["lognormal"], _functions["exponential"]


@called
def words_into(keys: Any, row: Any, first: int, count: int, words: Any, more: Any) -> None:
    """Write both words of places `first` and on of a row."""
    k0, k1, at = U(keys[0]), U(keys[1]), U(row)
    for k in range(count):
        words[k], more[k] = threefry(k0, k1, at, U(first + k))


@inlined
def below(word: Any, size: Any) -> Any:
    """Return an integer below a size: the high half of a product."""
    return np.int64((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


@inlined
def clipped(x: Any, low: Any, high: Any) -> Any:
    """Return a number between two others; `min` and `max` of Numba take longer to compile."""
    above = low if low > x else x
    return high if high < above else above


@called
def values_into(law: Any, words: Any, count: int, out: Any) -> None:
    """Write the values of a law, float32: (kind, a, b, lowest, highest, number)."""
    kind, a, b, low, high, number = int(law[0]), law[1], law[2], law[3], law[4], U(law[5])
    if kind == UNIFORM:
        for i in range(count):
            out[i] = uniform(words[i], a, b)
    elif kind == NORMAL:
        for i in range(count):
            out[i] = normal(words[i], a, b)
    elif kind == LOGNORMAL:
        for i in range(count):
            out[i] = lognormal(words[i], a, b)
    elif kind == EXPONENTIAL:
        for i in range(count):
            out[i] = exponential(words[i], a)
    else:
        for i in range(count):
            out[i] = integer(words[i], a, b, number)
    for i in range(count):
        out[i] = clipped(out[i], low, high)


@loop
def draw_words(keys: Any, row: int, first: int, count: int, words: Any, more: Any) -> None:
    """Write both words of places `first` and on of a row."""
    words_into(keys, row, first, count, words, more)


@loop
def values_of(law: Any, words: Any, count: int, out: Any) -> None:
    """Write the values of a law, float32: (kind, a, b, lowest, highest, number)."""
    values_into(law, words, count, out)
