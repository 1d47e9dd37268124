# SPDX-License-Identifier: Apache-2.0
"""`Distribution`: the distribution of drawn values, as numbers that compiled loops take."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["EXPONENTIAL", "INTEGERS", "LOGNORMAL", "NORMAL", "UNIFORM", "Distribution"]

UNIFORM, NORMAL, LOGNORMAL, EXPONENTIAL, INTEGERS = range(5)
_MOST_DEVIATIONS = 5.5  # of a normal number that is drawn from 24 bits
_MOST_MEANS = 16.7  # of an exponential one

Array = Any


@dataclass(frozen=True)
class Distribution:
    """A distribution, and bounds at which its values are clipped.

    `a` and `b` are smallest value and width, mean and standard deviation (for LOGNORMAL, of the logarithm), mean and
    nothing, or first integer and step; `span` is how many integers there are.
    """

    kind: int
    a: float
    b: float
    low: float = -math.inf
    high: float = math.inf
    span: int = 0

    def scaled(self, factor: float) -> Distribution:
        """Return the law of values times a positive factor."""
        a, b = self.a * factor, self.b * factor
        if self.kind == LOGNORMAL:
            a, b = self.a + math.log(factor), self.b
        return dataclasses.replace(self, a=a, b=b, low=self.low * factor, high=self.high * factor)

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values are."""
        first, last = {
            UNIFORM: (self.a, self.a + self.b),
            NORMAL: (self.a - _MOST_DEVIATIONS * self.b, self.a + _MOST_DEVIATIONS * self.b),
            LOGNORMAL: tuple(math.exp(min(self.a + z * self.b, 700)) for z in (-_MOST_DEVIATIONS, _MOST_DEVIATIONS)),
            EXPONENTIAL: (0.0, _MOST_MEANS * self.a),
            INTEGERS: (self.a, self.a + self.b * (self.span - 1)),
        }[self.kind]
        first, last = min(first, last), max(first, last)
        return min(max(first, self.low), self.high), min(max(last, self.low), self.high)

    def numbers(self, low: float, high: float) -> Array:
        """Return the law as float32 (6,), clipped to these bounds too."""
        low, high = (min(max(x, low), high) for x in (self.low, self.high))
        return np.array([self.kind, self.a, self.b, low, high, self.span], np.float32)
