# SPDX-License-Identifier: Apache-2.0
"""Current clamps of a config: a current into chosen nodes, between two times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.populations import Population
from ..models.step_current import step_current

__all__ = ["Clamp", "clamped", "clamps_of"]

Array = Any
Clamp = tuple[float, float, float]  # pA, from and to ms

_KEYS = ("amp", "delay", "duration")


def clamps_of(where: str, given: Mapping[str, Any]) -> list[Clamp]:
    """Return the currents of one input: one, or one for each element of lists."""
    columns = []
    for key in _KEYS:
        found = given.get(key)
        values: list[Any] = found if isinstance(found, list) else [found]
        if not values or not all(isinstance(one, (int, float)) and np.isfinite(one) for one in values):
            raise NetworkError(
                f"{where}: {key} is {found!r}; it must be a number (amp in pA, delay and duration in ms)"
            )
        columns.append([float(one) for one in values])
    if len({len(column) for column in columns}) > 1:
        raise NetworkError(f"{where}: amp, delay and duration have {[len(c) for c in columns]} elements")
    for key, column in zip(_KEYS[1:], columns[1:], strict=True):
        if min(column) < 0:
            raise NetworkError(f"{where}: {key} is {min(column):g}; it must not be negative")
    return [(amp, delay, delay + duration) for amp, delay, duration in zip(*columns, strict=True)]


def clamped(population: Population, clamps: list[tuple[Clamp, Array]], dt: float) -> Population:
    """Return a population with currents into some of its neurons, each with a mask (neurons,)."""
    for number, ((amp, start, stop), mask) in enumerate(clamps):
        amplitude = amp if mask.all() else np.where(mask, amp, 0.0)
        population = step_current(population, amplitude=amplitude, start=start, stop=stop, name=f"clamp{number}", dt=dt)
    return population
