# SPDX-License-Identifier: Apache-2.0
"""sin and cos for every argument: the largest ones are reduced with integers (after Payne and Hanek)."""

from __future__ import annotations

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jax import lax

from .elementary import F, Scalar, bits, polynomial, scaled, where

__all__ = ["cos", "sin", "sin_of_small"]

_LARGE = F(64)
# The sum is pi / 2; the products of all parts but the last with up to 12 bits are exact.
_PARTS = (F(1.5703125), F(0.0004837512969970703), F(7.549533620476723e-08), F(2.5633440682570896e-12))
_HALF_PI = (F(1.5707963705062866), F(-4.371138828673793e-08))
# 2 / pi in fixed point, after 34 bits before its first.
_TWO_OVER_PI = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA)
_HIGH_BIT = np.uint32(2**31)


def _product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Return the high and the low 32 bits of a product of integers of 32 bits without a sign."""
    return lax.mulhi(a, b), a * b


def _windows(exponent: Scalar) -> list[Scalar]:
    """Return the three words of 2 / pi that matter for numbers of an exponent."""
    table = jnp.asarray(_TWO_OVER_PI, np.uint32)
    place, shift = lax.shift_right_logical(exponent, np.int32(5)), (exponent & np.int32(31)).astype(np.uint32)
    words = [lax.dynamic_index_in_dim(table, place + np.int32(k), keepdims=False) for k in range(4)]
    back = np.uint32(32) - shift  # a shift by 32 gives 0
    return [lax.shift_left(a, shift) | lax.shift_right_logical(b, back) for a, b in pairwise(words)]


def _turns_of_large(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return k (modulo 4) and r of `_turns` by a product of 24 with 96 bits; |x| is at least 1."""
    raw = bits(x).astype(np.uint32)
    mantissa = lax.shift_left(raw, np.uint32(8)) | _HIGH_BIT
    exponent = lax.convert_element_type(lax.shift_right_logical(raw, np.uint32(23)) & np.uint32(0xFF), np.int32) - 126
    high, middle, low = _windows(exponent)
    carried, _ = _product(mantissa, low)
    top, bottom = _product(mantissa, middle)
    bottom = bottom + carried
    top = top + (bottom < carried).astype(np.uint32) + mantissa * high  # two bits of whole turns, 62 of the fraction
    k = lax.shift_right_logical(top + np.uint32(2**29), np.uint32(30))
    top = top - lax.shift_left(k, np.uint32(30))  # from -1/2 to 1/2, in two's complement
    below = top >= _HIGH_BIT
    top = lax.select(below, ~top + (bottom == 0).astype(np.uint32), top)
    bottom = lax.select(below, jnp.uint32(0) - bottom, bottom)
    r = _as_angle(top, bottom)
    negative = below ^ (raw >= _HIGH_BIT)
    turns = lax.convert_element_type(k, np.int32)
    return lax.select(raw >= _HIGH_BIT, -turns, turns), where(negative, -r, r)


def _as_angle(top: Scalar, bottom: Scalar) -> Scalar:
    """Return a fraction of 62 bits, times pi / 2."""
    empty = top == 0
    top, bottom = lax.select(empty, bottom, top), lax.select(empty, jnp.uint32(0), bottom)
    shift = lax.clz(top)
    whole = lax.shift_left(top, shift) | lax.shift_right_logical(bottom, np.uint32(32) - shift)
    value = lax.convert_element_type(whole, np.float32)
    exponent = np.int32(-30) - lax.convert_element_type(shift, np.int32)
    exponent = lax.select(empty, exponent - np.int32(32), exponent)
    return scaled(value * _HALF_PI[0] + value * _HALF_PI[1], exponent)


def _turns_of_small(x: Scalar) -> tuple[Scalar, Scalar]:
    k = lax.round(x * F(0.6366197724), lax.RoundingMethod.TO_NEAREST_EVEN)
    r = x
    for part in _PARTS:
        r = r - k * part
    return lax.convert_element_type(k, np.int32), r


def _turns(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return k and r such that x = k pi / 2 + r, with |r| up to pi / 4; of infinities and NaN, r is NaN."""
    k, r = lax.cond(lax.abs(x) > _LARGE, _turns_of_large, _turns_of_small, x)
    return k, where(lax.abs(x) < F(np.inf), r, F(np.nan))


def _sine_of(k: Scalar, r: Scalar) -> Scalar:
    """Return sin(k pi / 2 + r) for |r| up to pi / 4."""
    square = r * r
    sine = r + r * square * polynomial(square, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
    p = polynomial(square, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    cosine = F(1) - F(0.5) * square + square * square * p
    value = where(lax.ne(k & np.int32(1), np.int32(0)), cosine, sine)
    return where(lax.ne(k & np.int32(2), np.int32(0)), -value, value)


def sin(x: Scalar) -> Scalar:
    """Return the sine."""
    return where(lax.abs(x) < F(2**-12), x, _sine_of(*_turns(x)))


def sin_of_small(x: Scalar) -> Scalar:
    """Return the sine of a float32 number from -64 to 64, in far fewer lines: the bits are those of `sin`."""
    return where(lax.abs(x) < F(2**-12), x, _sine_of(*_turns_of_small(x)))


def cos(x: Scalar) -> Scalar:
    """Return the cosine."""
    k, r = _turns(x)
    return _sine_of(k + 1, r)
