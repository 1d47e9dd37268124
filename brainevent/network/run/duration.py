# SPDX-License-Identifier: Apache-2.0
"""A number of steps, as users give it: an integer, or a time with a unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._units import is_quantity
from ...errors import NetworkError
from ..description.checks import as_count, is_number
from ..description.units import plain

__all__ = ["MOST_STEPS", "counted_run", "counted_steps"]

MOST_STEPS = 2**32 - 1
_NEAR = 1e-6  # of a step, and of the number of steps
_MOST = 0.1  # of a step, however many there are


def counted_run(steps: Any, ms: Any, dt: float, what: str = "run") -> int:
    """Return the number of steps of a run, of which either `steps` or `ms` is given."""
    if steps is None and ms is None:
        raise NetworkError(f"{what}: pass how long to run: a number of steps, as in {what}(1000), or {what}(ms=500)")
    if steps is not None and ms is not None:
        raise NetworkError(f"{what}: steps is {steps} and ms is {ms}; pass one of them")
    return counted_steps(f"{what}: steps", steps, dt) if ms is None else _counted_ms(f"{what}: ms", ms, dt)


def _counted_ms(where: str, ms: Any, dt: float) -> int:
    if not is_quantity(ms) and (isinstance(ms, bool) or not is_number(ms)):
        raise NetworkError(f"{where} is {ms!r}; pass a number of milliseconds, such as 500")
    count = as_count(_steps_in(where, ms, dt), MOST_STEPS)
    if count is None:
        raise NetworkError(f"{where} is {ms}; pass a time from {dt:g} ms to {MOST_STEPS * dt:g} ms")
    return count


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
    if abs(steps - whole) > min(_MOST, _NEAR * max(1, abs(steps))):
        raise NetworkError(f"{where} is {steps * dt:g} ms, not a multiple of dt={dt:g} ms; pass a multiple")
    return whole
