# SPDX-License-Identifier: Apache-2.0
"""Delays in ms become whole numbers of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.units import array_in
from ..description.values import Values
from .distribution import LOGNORMAL, NORMAL, Distribution

__all__ = ["LARGEST_DELAY", "delay_dtype", "steps_of"]

LARGEST_DELAY = 65_535  # steps
_NEAR = 1e-6  # of a step, and of the number of steps

Array = Any


def steps_of(where: str, delay: Any, dt: float, *, round_delays: bool = False) -> Any:
    """Return a delay in steps: int64 (), an array of them, or the law by which they are drawn."""
    if delay is None:
        return np.int64(1)
    if isinstance(delay, Values):
        return _drawn(where, delay, dt)
    given = array_in(where, delay, "ms")
    if given.dtype.kind not in "iuf":
        raise NetworkError(f"{where} is {delay!r}; pass ms: a number, an array or values such as normal(1.5, 0.75)")
    steps = given.astype(np.float64) / dt
    _check_range(where, given, steps, dt)
    whole = np.rint(steps)
    apart = np.abs(steps - whole) > _NEAR * np.maximum(1, steps)
    if (short := steps < 1 - _NEAR).any() and not round_delays:
        raise NetworkError(
            f"{where}: {_first(given, short)} ms is below one step, the least delay; pass {dt:g} ms or more, or "
            "build(round_delays=True)"
        )
    if apart.any() and not round_delays:
        raise NetworkError(
            f"{where}: {_first(given, apart)} ms, not a multiple of dt={dt:g} ms; pass a multiple, or "
            "build(round_delays=True)"
        )
    return np.maximum(1, whole).astype(np.int64)[()]


def delay_dtype(steps: Array | Distribution) -> type:
    """Return the smallest dtype that holds delays."""
    largest = steps.bounds[1] if isinstance(steps, Distribution) else np.max(steps, initial=1)
    return np.uint8 if round(min(largest, LARGEST_DELAY)) <= 255 else np.uint16


def _drawn(where: str, delay: Values, dt: float) -> Distribution:
    if delay.unit not in (None, "ms"):
        raise NetworkError(f"{where}: has the unit {delay.unit}; pass ms, or a number, which means ms")
    law = delay.law.scaled(1 / dt)
    first, last = law.bounds
    if last <= 0 or np.rint(last) > LARGEST_DELAY:
        hint = f", such as with high={LARGEST_DELAY * dt:g}" if delay.law.kind in (NORMAL, LOGNORMAL) else ""
        raise NetworkError(
            f"{where}: values are from {first * dt:g} to {last * dt:g} ms; pass values from {dt:g} to "
            f"{LARGEST_DELAY * dt:g} ms, which are 1 to {LARGEST_DELAY} steps{hint}"
        )
    return law


def _check_range(where: str, given: Array, steps: Array, dt: float) -> None:
    for wrong in (~np.isfinite(steps), steps <= 0, steps > LARGEST_DELAY * (1 + _NEAR)):
        if wrong.any():
            raise NetworkError(
                f"{where}: {_first(given, wrong)} ms; pass delays from {dt:g} to {LARGEST_DELAY * dt:g} ms, "
                f"which are 1 to {LARGEST_DELAY} steps"
            )


def _first(given: Array, wrong: Array) -> str:
    """Name the first value that is wrong, and where it is."""
    if given.ndim == 0:
        return f"{given[()]:g}"
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"element {place[0] if len(place) == 1 else place} is {given[place]:g}"
