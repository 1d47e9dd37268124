# SPDX-License-Identifier: Apache-2.0
"""Read what ready plasticity is made of: pairs, rates and times, as numbers."""

from __future__ import annotations

import math
from typing import Any

from ...errors import NetworkError, did_you_mean
from ..description.checks import is_number
from ..description.units import plain

__all__ = ["Value", "has_nearest", "number", "positive"]

Value = Any  # a number, or a quantity of one
_PAIRS = ("all", "nearest")


def has_nearest(rule: str, pairs: str) -> bool:
    """Return whether a spike meets only the nearest spikes of the other side, as `pairs` says."""
    if pairs not in _PAIRS:
        raise NetworkError(f"{rule}: pairs is {pairs!r}{did_you_mean(str(pairs), _PAIRS)}; pass 'all' or 'nearest'")
    return pairs == "nearest"


def number(rule: str, name: str, value: Value, unit: str = "1") -> float:
    """Return a finite number of a unit."""
    found = plain(f"{rule}: {name}", value, unit)
    if not is_number(found) or not math.isfinite(found):
        raise NetworkError(f"{rule}: {name} is {value!r}; pass a finite number{_of(unit)}")
    return float(found)


def positive(rule: str, name: str, value: Value, unit: str = "1") -> float:
    """Return a number of a unit that is above 0."""
    found = number(rule, name, value, unit)
    if found <= 0:
        raise NetworkError(f"{rule}: {name} is {found:g}; pass a number{_of(unit)} above 0")
    return found


def _of(unit: str) -> str:
    return "" if unit == "1" else f" of {unit}"
