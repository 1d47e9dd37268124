# SPDX-License-Identifier: Apache-2.0
"""A number of steps, as users give it: an integer, or a time with a unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event.units import is_quantity
from ..description.checks import as_count
from ..description.units import plain

__all__ = ["MOST_STEPS", "counted_steps"]

MOST_STEPS = 2**32 - 1
_NEAR = 1e-6  # of a step, and of the number of steps


def counted_steps(where: str, given: Any, dt: float, *, least: str = f"from 1 to {MOST_STEPS}") -> int:
    """Return a number of steps; a time is that of a whole number of steps."""
    value = _steps_in(where, given, dt) if is_quantity(given) else given
    count = as_count(value, MOST_STEPS)
    if count is None:
        shown = f"{given} ({value} steps)" if is_quantity(given) else repr(given)
        hint = ", or a time with a unit, such as 500 * brainunit.ms" if isinstance(given, (float, np.floating)) else ""
        raise NetworkError(f"{where} is {shown}; pass an integer {least}{hint}")
    return count


def _steps_in(where: str, time: Any, dt: float) -> Any:
    given = np.asarray(plain(where, time, "ms"), np.float64)
    if given.ndim or not np.isfinite(given):
        raise NetworkError(f"{where} is {time}; pass one finite time")
    steps = float(given) / dt
    whole = round(steps)
    if abs(steps - whole) > _NEAR * max(1, abs(steps)):
        raise NetworkError(f"{where} is {steps * dt:g} ms, not a multiple of dt={dt:g} ms; pass a multiple")
    return whole
