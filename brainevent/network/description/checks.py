# SPDX-License-Identifier: Apache-2.0
"""Whether a value that a user gave is a number: booleans are none."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_integer", "is_number"]


def is_integer(value: Any) -> bool:
    """Say whether a value is one integer."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Say whether a value is one real number, or an array () of one."""
    return is_integer(value) or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf")
