# SPDX-License-Identifier: Apache-2.0
"""Inverses of sin, cos, tan and their hyperbolic relatives, and the cube root, in operations that every engine has."""

from __future__ import annotations

import numpy as np
from jax import lax

from .elementary import F, Scalar, bits, from_bits, polynomial, where, with_sign_of

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt"]

_PI, _HALF_PI, _QUARTER_PI = F(np.pi), F(np.pi / 2), F(np.pi / 4)
_LN2 = F(np.log(2))
_FAR = F(2**13)  # beyond it, one beside its square is lost
_SMALL = F(2**-12)  # below it, the functions are their arguments


def _atan_of_positive(a: Scalar) -> Scalar:
    """Reduce to |x| up to tan(pi / 8)."""
    far, middle = a > F(2.414213562), a > F(0.4142135624)
    x = where(far, F(-1) / a, where(middle, (a - F(1)) / (a + F(1)), a))
    start = where(far, _HALF_PI, where(middle, _QUARTER_PI, F(0)))
    square = x * x
    p = polynomial(square, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
    return start + (x + x * square * p)


def atan(x: Scalar) -> Scalar:
    """Return the inverse of the tangent."""
    return where(lax.abs(x) < _SMALL, x, with_sign_of(_atan_of_positive(lax.abs(x)), x))


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Return the angle of the point (x, y), at the limits as C does."""
    a, b = lax.abs(y), lax.abs(x)
    ratio = where(lax.eq(a, b), F(1), lax.min(a, b) / lax.max(a, b))
    angle = lax.atan(where(a == F(0), F(0), ratio))
    angle = where(a > b, _HALF_PI - angle, angle)
    angle = with_sign_of(where(bits(x) < np.int32(0), _PI - angle, angle), y)
    return where(lax.ne(x, x) | lax.ne(y, y), x + y, angle)


def _asin_core(a: Scalar, square: Scalar) -> Scalar:
    """Return asin of numbers up to 1/2."""
    p = polynomial(square, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
    return a + a * square * p


def asin(x: Scalar) -> Scalar:
    """Return the inverse of the sine; NaN beyond 1."""
    a = lax.abs(x)
    large = a > F(0.5)
    square = where(large, F(0.5) * (F(1) - a), a * a)
    core = _asin_core(where(large, lax.sqrt(square), a), square)
    result = with_sign_of(where(large, _HALF_PI - (core + core), core), x)
    return where(a < _SMALL, x, where(a <= F(1), result, F(np.nan)))


def acos(x: Scalar) -> Scalar:
    """Return the inverse of the cosine; NaN beyond 1."""
    a = lax.abs(x)
    large = a > F(0.5)
    square = where(large, F(0.5) * (F(1) - a), a * a)
    core = _asin_core(where(large, lax.sqrt(square), x), square)
    result = where(large, where(x < F(0), _PI - (core + core), core + core), _HALF_PI - core)
    return where(a <= F(1), result, F(np.nan))


def asinh(x: Scalar) -> Scalar:
    """Return the inverse of sinh."""
    a = lax.abs(x)
    square = a * a
    near = lax.log1p(a + square / (F(1) + lax.sqrt(square + F(1))))
    result = where(a < _FAR, near, lax.log(a) + _LN2)
    return where(a < _SMALL, x, with_sign_of(result, x))


def acosh(x: Scalar) -> Scalar:
    """Return the inverse of cosh; NaN below 1."""
    above = x - F(1)
    near = lax.log1p(above + lax.sqrt(above * (above + F(2))))
    return where(x < F(1), F(np.nan), where(x < _FAR, near, lax.log(x) + _LN2))


def atanh(x: Scalar) -> Scalar:
    """Return the inverse of tanh; NaN beyond 1."""
    a = lax.abs(x)
    result = F(0.5) * lax.log1p((a + a) / (F(1) - a))
    return where(a < _SMALL, x, where(a <= F(1), with_sign_of(result, x), F(np.nan)))


def cbrt(x: Scalar) -> Scalar:
    """Return the cube root: a third of the exponent, and three steps of Newton."""
    a = lax.abs(x)
    root = from_bits(lax.div(bits(a), np.int32(3)) + np.int32(0x2A5137A0))
    for _ in range(3):
        root = root - (root - a / (root * root)) * F(1 / 3)
    return where((a == F(0)) | lax.ne(a, a) | (a == F(np.inf)), x, with_sign_of(root, x))
