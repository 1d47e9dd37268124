# SPDX-License-Identifier: Apache-2.0
"""Weights in finer quanta: each is as large as before, and so many times as many quanta."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .projections import ProjectionPlan

__all__ = ["finer", "finer_about"]

_LARGEST_16 = 2**15 - 1


def finer(synapses: Any, times: int) -> Any:
    """Return a `SynapsePlan` with weights of so many times as many quanta."""
    if times == 1 or not synapses.weights.size:
        return synapses
    numbers = synapses.weights.astype(np.int64) * times
    narrow = synapses.weights.dtype == np.int16 and np.abs(numbers).max() <= _LARGEST_16
    return dataclasses.replace(synapses, weights=numbers.astype(np.int16 if narrow else np.int32))


def finer_about(about: ProjectionPlan, times: int) -> ProjectionPlan:
    """Return what is known of a projection with weights of so many times as many quanta."""
    low, high = (weight * times for weight in about.weights)
    targets, weights, delays = about.dtypes
    held = "int16" if weights == "int16" and max(-low, high) <= _LARGEST_16 else "int32"
    return dataclasses.replace(about, weights=(low, high), least=about.least * times, dtypes=(targets, held, delays))
