# SPDX-License-Identifier: Apache-2.0
"""The functions of float64 numbers: primitives that NumPy and C's library have, and others made of these.

They are accurate to a few units in the last place, but, unlike those of float32, not the same bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["COMPOSED", "PRIMITIVES_64", "of_float64"]

Array = Any
Scalar = Any

# By the primitive of JAX; C's library has all of them by the same names.
_OF_NUMPY: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, f"arc{name[1:]}") for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    **{name: getattr(np, name) for name in ("cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log", "log1p", "log2")},
    **{name: getattr(np, name) for name in ("nextafter", "sin", "sinh", "tan", "tanh")},
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "pow": np.power,
}


def of_float64(name: str) -> str:
    """Return the name in forms of a function of float64 numbers."""
    return f"{name}_float64"


# By name: functions of float64 arrays of equal shape.
PRIMITIVES_64 = {of_float64(name): function for name, function in _OF_NUMPY.items()}


def _logistic(x: Scalar) -> Scalar:
    return 1 / (1 + lax.exp(-x))


def _erf_inv(y: Scalar) -> Scalar:
    """Solve erf(x) = y: a start after Winitzki (2008), and steps of Halley, in the tails by erfc."""
    a, tail = 0.147, 1 - lax.abs(y)
    logarithm = lax.log1p(-y * y)
    middle = 2 / (np.pi * a) + logarithm / 2
    x = lax.sqrt(lax.max(lax.sqrt(middle * middle - logarithm / a) - middle, jnp.zeros_like(y)))
    for _ in range(3):
        off = jnp.where(tail < 0.5, tail - lax.erfc(x), lax.erf(x) - lax.abs(y))
        step = off * (np.sqrt(np.pi) / 2) * lax.exp(x * x)
        x = x - step / (1 + x * step)
    x = jnp.where(tail == 0, jnp.inf, jnp.where(tail >= 0, x, jnp.nan))
    return jnp.where(y == 0, y, jnp.where(y < 0, -x, x))


# By name in forms: functions that lines of forms replace.
COMPOSED: dict[str, Callable[..., Scalar]] = {
    of_float64("erf_inv"): _erf_inv,
    of_float64("logistic"): _logistic,
}
