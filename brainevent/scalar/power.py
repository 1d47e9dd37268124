# SPDX-License-Identifier: Apache-2.0
"""x to the power y: the logarithm and its product with y are sums of two float32 numbers."""

from __future__ import annotations

import numpy as np
from jax import lax

from .elementary import (
    INFINITY,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    F,
    Scalar,
    bits,
    expm1_reduced,
    from_bits,
    polynomial,
    scaled,
    split,
    where,
    with_sign_of,
)

__all__ = ["power"]

_NAN = F(np.nan)
_TWO_THIRDS = (F(2 / 3), F(2 / 3 - float(F(2 / 3))))
_MOST = F(2**33)  # of |y|: beyond it, the power of what is not 1 is 0 or infinity


def _halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return two numbers of 12 bits whose sum is x."""
    high = from_bits(bits(x) & np.int32(-4096))
    return high, x - high


def _product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Return a product as the sum of two numbers, exactly."""
    product = a * b
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _sum(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Return a sum as the sum of two numbers, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _log(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the logarithm of a positive number as the sum of two numbers: 2 artanh((m - 1) / (m + 1)) + e ln 2."""
    e, m = split(x)
    f = m - F(1)
    g, g_low = _sum(m, F(1))
    s = f / g
    product, error = _product(s, g)
    s_low = ((f - product) - error - s * g_low) / g
    third, third_low = _third_power(s)
    tail = third * F(1.5) * s * s * polynomial(s * s, 2 / 11, 2 / 9, 2 / 7, 2 / 5)
    high, low = _sum(e * LN2_HIGH, s + s)
    slope = F(2) + F(2) * s * s  # of the logarithm by s, near enough for what is low
    low = low + (third + (slope * s_low + third_low + tail + e * LN2_LOW))
    return _sum(high, low)


def _third_power(s: Scalar) -> tuple[Scalar, Scalar]:
    """Return 2/3 s^3 as the sum of two numbers."""
    square, square_low = _product(s, s)
    cube, cube_low = _product(s, square)
    third, third_low = _product(cube, _TWO_THIRDS[0])
    return third, third_low + cube * _TWO_THIRDS[1] + (cube_low + s * square_low) * _TWO_THIRDS[0]


def _magnitude(a: Scalar, y: Scalar) -> Scalar:
    """Return a^y for positive numbers a."""
    high, low = _log(a)
    y = lax.max(lax.min(y, _MOST), -_MOST)
    product, error = _product(y, high)
    inside = lax.abs(product) < F(110)
    error = where(inside, error + y * low, F(0))
    product = lax.max(lax.min(product, F(89.5)), F(-105))
    k = lax.round(product * LOG2_E, lax.RoundingMethod.TO_NEAREST_EVEN)
    r = (product - k * LN2_HIGH) - k * LN2_LOW + error
    return scaled(F(1) + expm1_reduced(r), lax.convert_element_type(k, np.int32))


def power(x: Scalar, y: Scalar) -> Scalar:
    """Return x^y, at the limits as C does."""
    a = lax.abs(x)
    limit = where(lax.eq(a == F(0), y < F(0)), INFINITY, F(0))  # of 0 and of infinity
    result = where((a == F(0)) | (a == INFINITY), limit, _magnitude(a, y))
    whole = lax.floor(y) == y
    odd = whole & (lax.abs(y) < F(2**24)) & lax.ne(lax.convert_element_type(y, np.int32) & np.int32(1), np.int32(0))
    below = where(odd, with_sign_of(result, x), result)
    below = where((x < F(0)) & ~whole & (a < INFINITY), _NAN, below)
    result = where(lax.ne(x, x) | lax.ne(y, y), _NAN, below)
    return where((y == F(0)) | (x == F(1)), F(1), result)
