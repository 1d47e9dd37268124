# SPDX-License-Identifier: Apache-2.0
"""Numba loops that draw words and values: functions of keys, row and place in the row, in 32 bits.

All is 32-bit integers and float32 numbers, without contraction, so that a kernel in another language can draw the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from ... import config
from ...backends.numba import inner
from .law import EXPONENTIAL, LOGNORMAL, NORMAL, UNIFORM

__all__ = ["F", "I", "U", "below", "compiled", "draw_words", "inlined", "log1p", "values_of"]

U, I, F = np.uint32, np.int32, np.float32  # noqa: E741 - short, as they are around every operation
_13, _15, _26, _6, _17, _29, _16, _24, _32 = (U(x) for x in (13, 15, 26, 6, 17, 29, 16, 24, 32))
_PARITY = U(0x1BD11BDA)
_TEXTS = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("on_cpu_*.py")))
_VERSION = hashlib.sha256(_TEXTS).hexdigest()[:16]

called = inner(error_model="numpy", later=True)  # by other loops alone
inlined = inner(error_model="numpy", later=True, forceinline=True)  # into loops that are then vectorised


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loop when it is first called; its code is kept where Numba keeps what it compiles."""
    how: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    function.__qualname__ += f"_{_VERSION}"  # kept code has this name: it holds functions of other files, too
    try:
        return numba.njit(cache=config.get_numba_cache(), **how)(function)
    except RuntimeError:  # no folder can be written to
        return numba.njit(**how)(function)


@inlined
def _round(x0: Any, x1: Any, by: Any) -> Any:
    x0 = U(x0 + x1)
    return x0, U(U(U(x1 << by) | U(x1 >> U(_32 - by))) ^ x0)


@inlined
def _threefry(k0: Any, k1: Any, x0: Any, x1: Any) -> Any:
    """Return both words of threefry2x32 with 13 rounds."""
    k2 = U(U(k0 ^ k1) ^ _PARITY)
    x0, x1 = _round(U(x0 + k0), U(x1 + k1), _13)
    x0, x1 = _round(*_round(*_round(x0, x1, _15), _26), _6)
    x0, x1 = _round(U(x0 + k1), U(U(x1 + k2) + U(1)), _17)
    x0, x1 = _round(*_round(*_round(x0, x1, _29), _16), _24)
    x0, x1 = _round(U(x0 + k2), U(U(x1 + k0) + U(2)), _13)
    x0, x1 = _round(*_round(*_round(x0, x1, _15), _26), _6)
    return _round(U(x0 + k0), U(U(x1 + k1) + U(3)), _17)


@called
def words_into(keys: Any, row: Any, first: int, count: int, words: Any, more: Any) -> None:
    """Write both words of places `first` and on of a row."""
    k0, k1, at = U(keys[0]), U(keys[1]), U(row)
    for k in range(count):
        words[k], more[k] = _threefry(k0, k1, at, U(first + k))


@inlined
def below(word: Any, size: Any) -> Any:
    """Return an integer below a size: the high half of a product."""
    return np.int64((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


@inlined
def _log(x: Any) -> Any:
    """Return the logarithm of a positive normal number, as rules have it."""
    above = I(F(x).view(np.int32) - I(0x3F3504F3))
    whole = I(above >> I(23))
    f = I(F(x).view(np.int32) - I(whole << I(23))).view(np.float32) - F(1)
    e, square = F(whole), f * f
    p = f * F(7.0376836292e-2) + F(-1.1514610310e-1)
    p = (p * f + F(1.1676998740e-1)) * f + F(-1.2420140846e-1)
    p = (p * f + F(1.4249322787e-1)) * f + F(-1.6668057665e-1)
    p = (p * f + F(2.0000714765e-1)) * f + F(-2.4999993993e-1)
    p = p * f + F(3.3333331174e-1)
    return (f + ((f * square * p + e * F(-2.12194440e-4)) - F(0.5) * square)) + e * F(0.693359375)


@inlined
def log1p(x: Any) -> Any:
    """Return log(1 + x) for x from -1 to 0, without -1."""
    u = F(1) + x
    found = _log(u) + (x - (u - F(1))) / u
    return x if abs(x) < F(2**-24) else found


@inlined
def _erf_inv(x: Any) -> Any:
    """Return the inverse of the error function, as rules have it, for |x| from 2^-24 to 1 - 2^-24."""
    a = abs(x)
    inner, outer = log1p(-x * x), _log((F(1) - a) * (F(1) + a))
    w = -inner if a < F(0.5) else -outer
    n, f = w - F(2.5), math.sqrt(w) - F(3)
    p = (F(2.81022636e-08) * n + F(3.43273939e-07)) * n + F(-3.5233877e-06)
    p = (p * n + F(-4.39150654e-06)) * n + F(0.00021858087)
    p = (p * n + F(-0.00125372503)) * n + F(-0.00417768164)
    p = (p * n + F(0.246640727)) * n + F(1.50140941)
    q = (F(-0.000200214257) * f + F(0.000100950558)) * f + F(0.00134934322)
    q = (q * f + F(-0.00367342844)) * f + F(0.00573950773)
    q = (q * f + F(-0.0076224613)) * f + F(0.00943887047)
    q = (q * f + F(1.00167406)) * f + F(2.83297682)
    return (p if w < F(5) else q) * x


@inlined
def _exp(x: Any) -> Any:
    """Return e^x for |x| up to 87, as rules have it."""
    k = np.rint(x * F(1.442695041))
    r = x - k * F(0.693359375) - k * F(-2.12194440e-4)
    p = (r * F(1.9875691500e-4) + F(1.3981999507e-3)) * r + F(8.3334519073e-3)
    p = ((p * r + F(4.1665795894e-2)) * r + F(1.6666665459e-1)) * r + F(0.5)
    half = I(I(k) >> I(1))
    scales = I(half + I(127)) << I(23), I(I(I(k) - half) + I(127)) << I(23)
    return (F(1) + (r + r * r * p)) * I(scales[0]).view(np.float32) * I(scales[1]).view(np.float32)


@inlined
def clipped(x: Any, low: Any, high: Any) -> Any:
    """Return a number between two others; `min` and `max` of Numba take longer to compile."""
    above = low if low > x else x
    return high if high < above else above


@inlined
def _unit(word: Any) -> Any:
    return F(I(word >> U(8))) * F(2**-24)


@inlined
def _gaussian(word: Any) -> Any:
    top = I(word >> U(8))
    return _erf_inv(F(I(I(top + top) + I(1 - 2**24))) * F(2**-24)) * F(1.4142135623730951)


@called
def values_into(law: Any, words: Any, count: int, out: Any) -> None:
    """Write the values of a law, float32: (kind, a, b, lowest, highest)."""
    kind, a, b, low, high = int(law[0]), law[1], law[2], law[3], law[4]
    if kind == UNIFORM:
        for i in range(count):
            out[i] = a + b * _unit(words[i])
    elif kind == NORMAL:
        for i in range(count):
            out[i] = a + b * _gaussian(words[i])
    elif kind == LOGNORMAL:
        for i in range(count):
            out[i] = _exp(clipped(a + b * _gaussian(words[i]), F(-87), F(87)))
    elif kind == EXPONENTIAL:
        for i in range(count):
            out[i] = a * -_log(F(1) - _unit(words[i]))
    else:
        for i in range(count):
            out[i] = a + b * F(below(words[i], law[5]))
    for i in range(count):
        out[i] = clipped(out[i], low, high)


@compiled
def draw_words(keys: Any, row: int, first: int, count: int, words: Any, more: Any) -> None:
    """Write both words of places `first` and on of a row."""
    words_into(keys, row, first, count, words, more)


@compiled
def values_of(law: Any, words: Any, count: int, out: Any) -> None:
    """Write the values of a law, float32: (kind, a, b, lowest, highest)."""
    values_into(law, words, count, out)
