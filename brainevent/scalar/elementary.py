# SPDX-License-Identifier: Apache-2.0
"""exp, log, tanh, erf and their relatives by polynomials of our own, in float32 operations that every engine has."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "INFINITY",
    "LN2_HIGH",
    "LN2_LOW",
    "LOG2_E",
    "F",
    "Scalar",
    "bits",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "expm1_reduced",
    "from_bits",
    "log",
    "log1p",
    "log2",
    "logistic",
    "polynomial",
    "power_of_two",
    "reduced",
    "scaled",
    "split",
    "tanh",
    "where",
    "with_sign_of",
]

F = np.float32
LOG2_E = F(1.442695041)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # the first has 9 bits: its product with an exponent is exact
ROOT_HALF = F(0.70710678)
INFINITY = F(np.inf)

Scalar = Any


def polynomial(x: Scalar, *coefficients: float) -> Scalar:
    """Evaluate by Horner's rule, the highest power first."""
    total = F(coefficients[0])
    for c in coefficients[1:]:
        total = total * x + F(c)
    return total


def bits(x: Scalar) -> Scalar:
    """Return the bits of a float32 number."""
    return lax.bitcast_convert_type(x, np.int32)


def from_bits(integer: Scalar) -> Scalar:
    """Return the float32 number of some bits."""
    return lax.bitcast_convert_type(integer, np.float32)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """Return one of two float32 numbers."""
    return lax.select(condition, *(jnp.asarray(x, np.float32) for x in (a, b)))


def power_of_two(k: Scalar) -> Scalar:
    """Return 2^k for k from -126 to 127."""
    return from_bits(lax.shift_left(k + 127, np.int32(23)))


def scaled(x: Scalar, k: Scalar) -> Scalar:
    """Return x * 2^k for k from -252 to 254: in two factors, of which neither overflows."""
    half = lax.shift_right_arithmetic(k, np.int32(1))
    return x * power_of_two(half) * power_of_two(k - half)


def with_sign_of(magnitude: Scalar, x: Scalar) -> Scalar:
    """Return a magnitude that is not negative, or NaN, with the sign of x."""
    return from_bits(bits(magnitude) | (bits(x) & np.int32(-(2**31))))


def reduced(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return k and r such that x = k ln 2 + r and |r| is at most ln 2 / 2."""
    k = lax.round(x * LOG2_E, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.convert_element_type(k, np.int32), x - k * LN2_HIGH - k * LN2_LOW


def expm1_reduced(r: Scalar) -> Scalar:
    """Return exp(r) - 1 for |r| up to ln 2 / 2."""
    p = polynomial(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
    return r + r * r * p


def exp(x: Scalar) -> Scalar:
    """Return e^x."""
    k, r = reduced(lax.max(lax.min(x, F(89)), F(-104)))
    return scaled(F(1) + expm1_reduced(r), k)


def exp2(x: Scalar) -> Scalar:
    """Return 2^x."""
    x = lax.max(lax.min(x, F(129)), F(-150))
    k = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return scaled(F(1) + expm1_reduced((x - k) * F(0.6931471806)), lax.convert_element_type(k, np.int32))


def expm1(x: Scalar) -> Scalar:
    """Return e^x - 1."""
    k, r = reduced(lax.max(lax.min(x, F(89)), F(-17.5)))
    whole = scaled(expm1_reduced(r) + (F(1) - scaled(F(1), -k)), k)
    return where(lax.abs(x) < F(2**-24), x, whole)


def split(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return e and m such that x = 2^e m, with m from sqrt(1/2) to sqrt(2); x is positive and normal."""
    above = bits(x) - bits(ROOT_HALF)
    e = lax.shift_right_arithmetic(above, np.int32(23))
    return lax.convert_element_type(e, np.float32), from_bits(bits(x) - lax.shift_left(e, np.int32(23)))


def log(x: Scalar) -> Scalar:
    """Return the natural logarithm."""
    e, m = split(x)
    f = m - F(1)
    square = f * f
    p = polynomial(
        *(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
    small = (f * square * p + e * LN2_LOW) - F(0.5) * square
    result = (f + small) + e * LN2_HIGH
    result = where(x < INFINITY, result, x)  # infinity and NaN
    return where(x == 0, -INFINITY, where(x < 0, F(np.nan), result))


def log2(x: Scalar) -> Scalar:
    """Return the logarithm to base 2: exact of powers of two."""
    e, m = split(x)
    number = (x > F(0)) & (x < INFINITY)
    natural = lax.log(where(number, m, x))
    return where(number, e + natural * LOG2_E, natural)


def log1p(x: Scalar) -> Scalar:
    """Return log(1 + x)."""
    u = F(1) + x
    lost = where(x < F(1), x - (u - F(1)), F(1) - (u - x))
    result = where((u > 0) & (u < INFINITY), lax.log(u) + lost / u, lax.log(u))
    return where(lax.abs(x) < F(2**-24), x, result)


def tanh(x: Scalar) -> Scalar:
    """Return the hyperbolic tangent."""
    a = lax.abs(x)
    square = x * x
    p = polynomial(square, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    large = F(1) - F(2) / (lax.exp(a + a) + F(1))
    small = where(a < F(2**-12), x, x + x * square * p)
    return where(a < F(0.625), small, with_sign_of(large, x))


def logistic(x: Scalar) -> Scalar:
    """Return 1 / (1 + e^-x)."""
    e = lax.exp(-lax.abs(x))
    return where(x < 0, e, F(1)) / (F(1) + e)


def _tail(a: Scalar) -> Scalar:
    """Return exp(a^2) erfc(a) of numbers from 1."""
    q = F(1) / a
    y = q * q
    middle = polynomial(
        *(y, 2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1),
        *(6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1),
        5.638259427386472e-1,
    )
    far = polynomial(
        *(y, -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786),
        *(-1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1),
    )
    return q * where(a < F(2), middle, far)


def erf(x: Scalar) -> Scalar:
    """Return the error function."""
    a = lax.abs(x)
    square = x * x
    small = x * polynomial(
        *(square, 7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2),
        *(1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710),
    )
    complement = lax.exp(-square) * _tail(a)
    large = where(a < F(4), F(1) - complement, F(1))
    return where(a < F(1), small, with_sign_of(where(lax.eq(a, a), large, x), x))


def erfc(x: Scalar) -> Scalar:
    """Return 1 - erf(x), accurate where that is small: e^(-a^2) by the square of 12 bits of a, and the rest."""
    a = lax.abs(x)
    head = from_bits(bits(a) & np.int32(-4096))
    small = lax.exp(-(head * head)) * lax.exp((head - a) * (head + a)) * _tail(a)
    small = where(a < F(10), small, F(0))
    large = where(x < F(0), F(2) - small, small)
    return where(lax.eq(x, x), where(a < F(1), F(1) - lax.erf(x), large), x)


def erf_inv(x: Scalar) -> Scalar:
    """Return the inverse of the error function (after M. Giles, 2010)."""
    a = lax.abs(x)
    w = -where(a < F(0.5), lax.log1p(-x * x), lax.log((F(1) - a) * (F(1) + a)))
    near, far = w - F(2.5), lax.sqrt(w) - F(3)
    p = polynomial(
        *(near, 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
        *(-0.00417768164, 0.246640727, 1.50140941),
    )
    q = polynomial(
        *(far, -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
        *(0.00943887047, 1.00167406, 2.83297682),
    )
    result = where(w < F(5), p, q) * x
    return where(a == F(1), with_sign_of(INFINITY, x), result)
