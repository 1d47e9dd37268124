# SPDX-License-Identifier: Apache-2.0
"""Strip units from what describes a network: numbers are in ms, mV, pA, nS and pF."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event import units

__all__ = ["UNITS", "array_in", "plain", "split"]

UNITS = ("ms", "mV", "pA", "nS", "pF")


def split(where: str, value: Any) -> tuple[Any, str | None]:
    """Return the numbers of a value, and the name of their unit; None of what has none."""
    if not units.is_quantity(value):
        return value, None
    package = units.loaded()
    for name in UNITS:
        if value.dim == getattr(package, name).dim:
            return units.numbers_in(value, getattr(package, name)), name
    if value.dim == package.UNITLESS.dim:
        return units.numbers_in(value, None), None
    raise NetworkError(f"{where}: has the unit {value.unit}; pass one that is {', '.join(UNITS)} or a number")


def plain(where: str, value: Any, unit: str | None = None) -> Any:
    """Return the numbers of a value; `unit` is what they must be in, if they have a unit."""
    numbers, found = split(where, value)
    if unit is not None and found not in (None, unit):
        raise NetworkError(f"{where}: has the unit {found}; pass {unit}, or a number, which means {unit}")
    return numbers


def array_in(where: str, value: Any, unit: str | None = None) -> Any:
    """Return the numbers of a value as an array of NumPy; `unit` as in `plain`."""
    numbers = plain(where, value, unit)
    try:
        return np.asarray(numbers)
    except ValueError:  # parts of different shapes
        kind = type(numbers).__name__
        raise NetworkError(f"{where}: parts of this {kind} have different shapes; pass one array of numbers") from None
