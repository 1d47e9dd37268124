# SPDX-License-Identifier: Apache-2.0
"""The functions of our own: those that replace primitives of JAX, with their errors, and those of random numbers.

They are traced as a rule is, once, and each engine runs these lines: so all return the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from .circular import be_high_product, cos, sin
from .elementary import Scalar, erf, erf_inv, exp, exp2, expm1, log, log1p, logistic, tanh
from .poisson import be_poisson_more, be_poisson_of
from .power import power
from .threefry import be_bits

__all__ = ["CALLED", "FUNCTIONS", "LARGEST_ERRORS"]

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
# Functions of `jax.jit` that stay calls, with the dtypes of their operands; by the name that JAX gives them.
CALLED: dict[str, tuple[Callable[..., Scalar], tuple[str, ...]]] = {
    "be_bits": (be_bits, ("uint32",) * 4),
    "be_high_product": (be_high_product, ("uint32",) * 2),
    "be_poisson_of": (be_poisson_of, ("float32",) * 2),
    "be_poisson_more": (be_poisson_more, (*("uint32",) * 4, "float32")),
}
