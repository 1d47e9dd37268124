# SPDX-License-Identifier: Apache-2.0
"""The functions of our own: those that replace primitives of JAX, with their errors, and those of random numbers.

They are traced as a rule is, once, and each engine runs these lines: so all return the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from .circular import cos, sin
from .elementary import Scalar, erf, erf_inv, erfc, exp, exp2, expm1, log, log1p, log2, logistic, tanh
from .inverse import acos, acosh, asin, asinh, atan, atan2, atanh, cbrt
from .poisson import be_poisson_more, be_poisson_of
from .power import power
from .threefry import be_bits, be_more_bits, be_turned

__all__ = ["CALLED", "FUNCTIONS", "LARGEST_ERRORS"]

# By primitive of JAX.
FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cbrt": cbrt,
    "cos": cos,
    "erf": erf,
    "erf_inv": erf_inv,
    "erfc": erfc,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "logistic": logistic,
    "pow": power,
    "sin": sin,
    "tanh": tanh,
}
# In units in the last place, against float64, where arguments and results are normal numbers.
LARGEST_ERRORS: dict[str, float] = {
    "acos": 1.3,
    "acosh": 2.9,
    "asin": 2.4,
    "asinh": 2.0,
    "atan": 2.8,
    "atan2": 3.3,
    "atanh": 2.4,
    "cbrt": 0.8,
    "cos": 2.6,
    "erf": 2.7,
    "erf_inv": 4.0,
    "erfc": 10.5,
    "exp": 1.0,
    "exp2": 1.0,
    "expm1": 1.6,
    "log": 0.9,
    "log1p": 1.5,
    "log2": 2.0,
    "logistic": 2.4,
    "pow": 1.4,
    "sin": 2.6,
    "tanh": 1.4,
}
# Functions of `jax.jit` that stay calls, with the dtypes of their operands; by the name that JAX gives them.
CALLED: dict[str, tuple[Callable[..., Scalar], tuple[str, ...]]] = {
    "be_bits": (be_bits, ("uint32",) * 4),
    "be_more_bits": (be_more_bits, ("uint32",) * 4),
    "be_turned": (be_turned, ("uint32",) * 4),
    "be_poisson_of": (be_poisson_of, ("float32",) * 2),
    "be_poisson_more": (be_poisson_more, (*("uint32",) * 4, "float32")),
}
