# SPDX-License-Identifier: Apache-2.0
"""Check that a given value is a number; booleans are not."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = ["as_count", "is_integer", "is_number"]


def as_count(value: Any, most: int) -> int | None:
    """Return a number of Python, NumPy or JAX from 1 to `most` as an int; None of anything else."""
    if isinstance(value, bool):
        return None
    try:
        count = operator.index(value)
    except TypeError:
        return None
    return count if 1 <= count <= most else None


def is_integer(value: Any) -> bool:
    """Say whether a value is one integer."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Say whether a value is one real number, or an array () of one."""
    try:
        return is_integer(value) or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf")
    except TypeError:  # of a quantity with a unit
        return False
