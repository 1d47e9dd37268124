# SPDX-License-Identifier: Apache-2.0
"""Graded spikes: how much synapses deliver at most whose spikes have values, and how fine their quanta are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["BEYOND", "delivered_at_most", "finer_quantum", "graded_amounts", "largest_value", "reach"]

_SMALLEST = float(np.finfo(np.float32).tiny)
_SUM = 2**30  # quanta into a neuron: as much again may wait
BEYOND = 2**40  # quanta: more than a sum may have, whatever else there is
_EXACT = 2**24  # quanta of a weight: float32 has them exactly
_ROUNDED = 1 + 2.0**-22  # by how much the product of a weight and a value may be rounded up
Array = Any
Range = tuple[float, float] | None


def largest_value(value_range: Range) -> float:
    """Return the largest |value| of a spike; 1 for spikes without values."""
    return 1.0 if value_range is None else max(abs(end) for end in value_range)


def reach(value_range: Range, least: int) -> float:
    """Return by which factor a synapse delivers more than its |weight| at most, of which the smallest is given.

    A weight of w quanta delivers rint(w * value): at most the product, rounded up by half a quantum.
    """
    if value_range is None:
        return 1.0
    most = largest_value(value_range)
    return most * _ROUNDED + (0 if most == round(most) else 0.5 / max(least, 1))


def delivered_at_most(sizes: Array, factor: float) -> Array:
    """Return how much synapses deliver at most, given |weights| or sums of them in quanta, and their `reach`.

    What is far beyond 32 bits is cut off, so that many of them can be added up.
    """
    return sizes if factor == 1 else np.minimum(np.ceil(sizes * factor), BEYOND).astype(np.int64)


def graded_amounts(weights: Array, values: Array) -> Array:
    """Return what synapses deliver, int32: the product in the floats of the value, rounded to a whole number."""
    return np.rint(weights.astype(values.dtype) * values).astype(np.int32)


def finer_quantum(quantum: np.floating[Any], largest: float, largest_sum: float) -> np.floating[Any]:
    """Return a quantum, divided by a power of two, that is as fine as weights and sums of what they deliver allow."""
    room = min(_EXACT * float(quantum) / largest, _SUM * float(quantum) / largest_sum, float(quantum) / _SMALLEST)
    times = 2.0 ** max(0, math.floor(math.log2(room))) if room >= 1 else 1.0
    finer: np.floating[Any] = quantum.dtype.type(float(quantum) / times)
    return finer
