# SPDX-License-Identifier: Apache-2.0
"""Numbers that are exact: integers that a float has, and those of the description of a built network."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from .values import Values

__all__ = ["exact_value", "refuse_rounded", "rounded_integers"]

Array = Any


def exact_value(given: Any, now: Array) -> Array:
    """Return a parameter or state as float64: as `given` in a description, unless it was drawn or set since."""
    if given is None or isinstance(given, Values):
        return np.asarray(now, np.float64)
    wide = np.asarray(given, np.float64)
    same = np.array_equal(np.broadcast_to(wide.astype(np.asarray(now).dtype), np.shape(now)), now)
    return wide if same else np.asarray(now, np.float64)


def rounded_integers(numbers: Array, dtype: Any) -> Array:
    """Say which of an array are integers that a dtype of floats rounds: bool, in its shape.

    A float that is given may be rounded, as 0.1 is. An integer is meant exactly: it is a count, a number or a mask.
    """
    dtype = np.dtype(dtype)
    if numbers.dtype.kind not in "iu" or dtype.kind != "f" or np.iinfo(numbers.dtype).max <= 2 ** _digits(dtype):
        return np.zeros(numbers.shape, bool)
    exponents = np.frexp(numbers.astype(dtype))[1]  # of what it is rounded to, never less than its own
    below = np.maximum(exponents - _digits(dtype), 0).astype(numbers.dtype)  # binary digits that are lost
    return (numbers >> below) << below != numbers


def refuse_rounded(where: str, numbers: Array, dtype: Any, of: str = "element", hint: str = "") -> None:
    """Raise if numbers are integers that a dtype of floats rounds; `of` is what each is of, `hint` what to pass."""
    rounded = rounded_integers(numbers, dtype)
    if not rounded.any():
        return
    first = np.argwhere(rounded)[0].tolist()
    place = f" at {of} {first[0] if len(first) == 1 else tuple(first)}" if first else ""
    raise NetworkError(
        f"{where}: is {numbers[tuple(first)]}{place}; {np.dtype(dtype)} rounds it: pass integers up to "
        f"{2 ** _digits(dtype)}{hint or ', or floats'}"
    )


def _digits(dtype: Any) -> int:
    """Return how many binary digits floats have: integers of so many are exact."""
    return int(np.finfo(np.dtype(dtype)).nmant) + 1
