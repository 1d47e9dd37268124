# SPDX-License-Identifier: Apache-2.0
"""The functions of our own that replace primitives of JAX, and their errors.

They are traced as a rule is, once, and each engine runs these lines: so all return the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from .circular import cos, sin
from .elementary import Scalar, erf, erf_inv, exp, exp2, expm1, log, log1p, logistic, tanh
from .power import power

__all__ = ["FUNCTIONS", "LARGEST_ERRORS"]

# By primitive of JAX.
FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "cos": cos,
    "erf": erf,
    "erf_inv": erf_inv,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "logistic": logistic,
    "pow": power,
    "sin": sin,
    "tanh": tanh,
}
# In units in the last place, against float64, where arguments and results are normal numbers.
LARGEST_ERRORS: dict[str, float] = {
    "cos": 2.6,
    "erf": 2.7,
    "erf_inv": 4.0,
    "exp": 1.0,
    "exp2": 1.0,
    "expm1": 1.6,
    "log": 0.9,
    "log1p": 1.5,
    "logistic": 2.4,
    "pow": 1.4,
    "sin": 2.6,
    "tanh": 1.4,
}
