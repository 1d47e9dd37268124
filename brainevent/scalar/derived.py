# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that are a few of ours, written in `jax.lax` and inlined where they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .elementary import expm1_reduced, reduced, scaled

__all__ = ["DERIVED"]

Scalar = Any
_LARGEST = np.float32(90)  # where sinh and cosh are infinite in float32


def _like(value: float, x: Scalar) -> Scalar:
    return jnp.asarray(value, x.dtype)


def _clamp(low: Scalar, x: Scalar, high: Scalar) -> Scalar:
    return lax.min(lax.max(x, low), high)


def _integer_pow(x: Scalar, *, y: int) -> Scalar:
    """Multiply by squaring, from the lowest bit of the exponent to the highest."""
    result, power, left = None, x, abs(y)
    while left:
        if left & 1:
            result = power if result is None else result * power
        left >>= 1
        power = power * power if left else power
    if result is None:
        return _like(1, x)
    return _like(1, x) / result if y < 0 else result


def _sign(x: Scalar) -> Scalar:
    """Return -1, 1, or x itself where it is zero or NaN."""
    below = x if np.dtype(x.dtype).kind == "u" else lax.select(x < 0, _like(-1, x), x)
    return lax.select(x > 0, _like(1, x), below)


def _round_from_zero(x: Scalar, **_: Any) -> Scalar:
    whole = lax.floor(lax.abs(x))
    whole = lax.select(lax.abs(x) - whole >= np.float32(0.5), whole + np.float32(1), whole)
    return lax.select(x == 0, x, lax.select(x < 0, -whole, whole))


def _clz(x: Scalar) -> Scalar:
    """Count the zeros before the highest bit: set all bits below it, and count those that are left."""
    for amount in (1, 2, 4, 8, 16):
        x = x | lax.shift_right_logical(x, _like(amount, x))
    return lax.population_count(~x)


def _before(x: Scalar, y: Scalar) -> Scalar:
    """Say whether x is less than y where NaN is greater than all numbers."""
    return (x < y) | (lax.eq(x, x) & lax.ne(y, y))


def _cosh(x: Scalar) -> Scalar:
    """Return cosh by exp / 2, which is finite wherever cosh is."""
    k, r = reduced(lax.min(lax.abs(x), _LARGEST))
    half = scaled(np.float32(1) + expm1_reduced(r), k - 1)
    return half + np.float32(0.25) / half


def _sinh(x: Scalar) -> Scalar:
    """Return sinh by expm1 / 2, which is accurate near zero, and finite wherever sinh is."""
    k, r = reduced(lax.min(lax.abs(x), _LARGEST))
    half = scaled(expm1_reduced(r) + (np.float32(1) - scaled(np.float32(1), -k)), k - 1)
    large = half + half / (half + half + np.float32(1))
    large = lax.select(half < np.float32(2**100), large, half)
    return lax.select(lax.abs(x) < np.float32(2**-24), x, lax.select(x < 0, -large, large))


def _nextafter(x: Scalar, y: Scalar) -> Scalar:
    """Return the next normal number after x towards y; those beside zero are the smallest of either sign."""
    raw = lax.bitcast_convert_type(x, np.int32)
    outward = (x < y) == (x > 0)
    moved = lax.bitcast_convert_type(raw + lax.select(outward, np.int32(1), np.int32(-1)), np.float32)
    smallest = lax.select(y > 0, np.float32(2**-126), np.float32(-(2**-126)))
    moved = lax.select(lax.eq(x, np.float32(0)), smallest, moved)
    moved = lax.select(lax.eq(x, y), y, moved)
    return lax.select(lax.ne(x, x) | lax.ne(y, y), x + y, moved)


# By primitive of JAX: functions of its operands and its parameters.
DERIVED: dict[str, Callable[..., Scalar]] = {
    "clamp": _clamp,
    "integer_pow": _integer_pow,
    "square": lambda x: x * x,
    "sign": _sign,
    "rsqrt": lambda x: np.float32(1) / lax.sqrt(x),
    "is_finite": lambda x: lax.abs(x) < np.float32(np.inf),
    "round": _round_from_zero,  # to nearest even is a primitive of ours
    "clz": _clz,
    "lt_to": _before,
    "le_to": lambda x, y: ~_before(y, x),
    "tan": lambda x, **_: lax.sin(x) / lax.cos(x),
    "sinh": _sinh,
    "cosh": _cosh,
    "nextafter": _nextafter,
    "one_minus_square": lambda x, **_: _like(1, x) - x * x,
}
