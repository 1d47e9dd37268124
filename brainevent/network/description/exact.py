# SPDX-License-Identifier: Apache-2.0
"""The exact values of a built network: those of its description, as far as these are the ones of now."""

from __future__ import annotations

from typing import Any

import numpy as np

from .values import Values

__all__ = ["exact_value"]

Array = Any


def exact_value(given: Any, now: Array) -> Array:
    """Return a parameter or state as float64: as `given` in a description, unless it was drawn or set since."""
    if given is None or isinstance(given, Values):
        return np.asarray(now, np.float64)
    wide = np.asarray(given, np.float64)
    same = np.array_equal(np.broadcast_to(wide.astype(np.asarray(now).dtype), np.shape(now)), now)
    return wide if same else np.asarray(now, np.float64)
