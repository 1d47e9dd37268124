# SPDX-License-Identifier: Apache-2.0
"""exp, log and their relatives by polynomials of our own, in float32 operations that every engine has.

They are traced as a rule is, once, and each engine runs these lines: so all return the same bits. The errors, against
float64 and in units in the last place (ulp), are in `LARGEST_ERRORS`; tests hold the functions to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["FUNCTIONS", "LARGEST_ERRORS"]

F = np.float32
_LOG2_E = F(1.442695041)
_LN2_HIGH, _LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # the first has 9 bits: its product with an exponent is exact
_ROOT_HALF = F(0.70710678)
_INFINITY = F(np.inf)

Scalar = Any

# Of the results that are normal numbers; of sin and cos up to 2^14, of erf_inv up to 1 - 2^-24.
LARGEST_ERRORS: dict[str, float] = {}


def _polynomial(x: Scalar, *coefficients: float) -> Scalar:
    """Evaluate by Horner's rule, the highest power first."""
    total = F(coefficients[0])
    for c in coefficients[1:]:
        total = total * x + F(c)
    return total


def _bits(x: Scalar) -> Scalar:
    return lax.bitcast_convert_type(x, np.int32)


def _float(bits: Scalar) -> Scalar:
    return lax.bitcast_convert_type(bits, np.float32)


def _where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    return lax.select(condition, *(jnp.asarray(x, np.float32) for x in (a, b)))


def _power_of_two(k: Scalar) -> Scalar:
    """Return 2^k for k from -126 to 127."""
    return _float(lax.shift_left(k + 127, np.int32(23)))


def _scaled(x: Scalar, k: Scalar) -> Scalar:
    """Return x * 2^k for k from -252 to 254: in two factors, of which neither overflows."""
    half = lax.shift_right_arithmetic(k, np.int32(1))
    return x * _power_of_two(half) * _power_of_two(k - half)


def _with_sign_of(magnitude: Scalar, x: Scalar) -> Scalar:
    """Return a magnitude that is not negative, or NaN, with the sign of x."""
    return _float(_bits(magnitude) | (_bits(x) & np.int32(-(2**31))))


def _reduced(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return k and r such that x = k ln 2 + r and |r| is at most ln 2 / 2."""
    k = lax.round(x * _LOG2_E, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.convert_element_type(k, np.int32), x - k * _LN2_HIGH - k * _LN2_LOW


def _expm1_reduced(r: Scalar) -> Scalar:
    """Return exp(r) - 1 for |r| up to ln 2 / 2."""
    p = _polynomial(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
    return r + r * r * p


def exp(x: Scalar) -> Scalar:
    """Return e^x."""
    k, r = _reduced(lax.max(lax.min(x, F(89)), F(-104)))
    return _scaled(F(1) + _expm1_reduced(r), k)


def exp2(x: Scalar) -> Scalar:
    """Return 2^x."""
    x = lax.max(lax.min(x, F(129)), F(-150))
    k = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return _scaled(F(1) + _expm1_reduced((x - k) * F(0.6931471806)), lax.convert_element_type(k, np.int32))


def expm1(x: Scalar) -> Scalar:
    """Return e^x - 1."""
    k, r = _reduced(lax.max(lax.min(x, F(89)), F(-17.5)))
    whole = _scaled(_expm1_reduced(r) + (F(1) - _scaled(F(1), -k)), k)
    return _where(lax.abs(x) < F(2**-24), x, whole)


def _split(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return e and m such that x = 2^e m, with m from sqrt(1/2) to sqrt(2); x is positive and normal."""
    bits = _bits(x) - _bits(_ROOT_HALF)
    e = lax.shift_right_arithmetic(bits, np.int32(23))
    return lax.convert_element_type(e, np.float32), _float(_bits(x) - lax.shift_left(e, np.int32(23)))


def log(x: Scalar) -> Scalar:
    """Return the natural logarithm."""
    e, m = _split(x)
    f = m - F(1)
    square = f * f
    p = _polynomial(
        *(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
    small = (f * square * p + e * _LN2_LOW) - F(0.5) * square
    result = (f + small) + e * _LN2_HIGH
    result = _where(x < _INFINITY, result, x)  # infinity and NaN
    return _where(x == 0, -_INFINITY, _where(x < 0, F(np.nan), result))


def log1p(x: Scalar) -> Scalar:
    """Return log(1 + x)."""
    u = F(1) + x
    lost = _where(x < F(1), x - (u - F(1)), F(1) - (u - x))
    result = _where((u > 0) & (u < _INFINITY), lax.log(u) + lost / u, lax.log(u))
    return _where(lax.abs(x) < F(2**-24), x, result)


def tanh(x: Scalar) -> Scalar:
    """Return the hyperbolic tangent."""
    a = lax.abs(x)
    square = x * x
    p = _polynomial(square, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    large = F(1) - F(2) / (lax.exp(a + a) + F(1))
    return _where(a < F(0.625), x + x * square * p, _with_sign_of(large, x))


def logistic(x: Scalar) -> Scalar:
    """Return 1 / (1 + e^-x)."""
    e = lax.exp(-lax.abs(x))
    return _where(x < 0, e, F(1)) / (F(1) + e)


def erf(x: Scalar) -> Scalar:
    """Return the error function."""
    a = lax.abs(x)
    square = x * x
    small = x * _polynomial(
        *(square, 7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2),
        *(1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710),
    )
    q = F(1) / a
    y = q * q
    middle = _polynomial(
        *(y, 2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1),
        *(6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1),
        5.638259427386472e-1,
    )
    far = _polynomial(
        *(y, -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786),
        *(-1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1),
    )
    complement = lax.exp(-square) * q * _where(a < F(2), middle, far)
    large = _where(a < F(4), F(1) - complement, F(1))
    return _where(a < F(1), small, _with_sign_of(_where(lax.eq(a, a), large, x), x))


def erf_inv(x: Scalar) -> Scalar:
    """Return the inverse of the error function (after M. Giles, 2010)."""
    a = lax.abs(x)
    w = -_where(a < F(0.5), lax.log1p(-x * x), lax.log((F(1) - a) * (F(1) + a)))
    near, far = w - F(2.5), lax.sqrt(w) - F(3)
    p = _polynomial(
        *(near, 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
        *(-0.00417768164, 0.246640727, 1.50140941),
    )
    q = _polynomial(
        *(far, -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
        *(0.00943887047, 1.00167406, 2.83297682),
    )
    result = _where(w < F(5), p, q) * x
    return _where(a == F(1), _with_sign_of(_INFINITY, x), result)


def _quarter_turns(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return k and r such that x = k pi / 2 + r, by three parts of pi / 2, of which the first have 11 bits."""
    k = lax.round(x * F(0.6366197724), lax.RoundingMethod.TO_NEAREST_EVEN)
    r = ((x - k * F(1.5703125)) - k * F(4.837512969970703125e-4)) - k * F(7.549789948768648e-8)
    return lax.convert_element_type(k, np.int32), r


def _sine_of(k: Scalar, r: Scalar) -> Scalar:
    """Return sin(k pi / 2 + r) for |r| up to pi / 4."""
    square = r * r
    sine = r + r * square * _polynomial(square, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
    p = _polynomial(square, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    cosine = F(1) - F(0.5) * square + square * square * p
    odd = lax.ne(k & np.int32(1), np.int32(0))
    value = _where(odd, cosine, sine)
    return _where(lax.ne(k & np.int32(2), np.int32(0)), -value, value)


def sin(x: Scalar) -> Scalar:
    """Return the sine."""
    return _sine_of(*_quarter_turns(x))


def cos(x: Scalar) -> Scalar:
    """Return the cosine."""
    k, r = _quarter_turns(x)
    return _sine_of(k + 1, r)


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    f.__name__: f for f in (exp, exp2, expm1, log, log1p, tanh, logistic, erf, erf_inv, sin, cos)
}
