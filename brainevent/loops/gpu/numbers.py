# SPDX-License-Identifier: Apache-2.0
"""The types of numbers in the kernel of a loop: of elements in memory, and of what is computed with them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ...scalar.cuda_text import LOOP_TYPES
from ..values import HALVES, NARROW, check_dtype, held

__all__ = ["STORED", "computed", "literal", "nbytes", "stored", "word"]

# Elements in memory: as numbers they are read, and written, as C++ converts them.
STORED = LOOP_TYPES | dict(zip(NARROW, ("signed char", "short", "unsigned char", "unsigned short"), strict=True))
STORED |= dict(zip(HALVES, ("Float16", "BFloat16"), strict=True))


def stored(dtype: Any, what: str) -> str:
    """Return the type of elements; raise if a loop has no such numbers."""
    return STORED[check_dtype(dtype, what)]


def computed(dtype: str) -> str:
    """Return the type of a number of a dtype in a register."""
    return LOOP_TYPES[held(dtype)]


def word(dtype: str) -> str:
    """Return the type without a sign in which integers of a dtype are added, where overflow is defined."""
    return "unsigned long long" if dtype in ("int64", "uint64") else "unsigned"


def nbytes(dtype: str) -> int:
    """Return the size of an element."""
    return int(jnp.dtype(dtype).itemsize)


def literal(value: Any, dtype: str) -> str:
    """Return a number as it is written in C++."""
    if dtype in HALVES:
        return f"{STORED[dtype]}({literal(np.float32(value), 'float32')})"
    number = np.asarray(value, dtype)[()]
    if dtype == "bool":
        return "true" if number else "false"
    if dtype == "float32":
        return f"{float(number).hex()}f" if np.isfinite(number) else f"__uint_as_float({number.view(np.uint32)}u)"
    if dtype == "float64":
        return float(number).hex() if np.isfinite(number) else f"__longlong_as_double({number.view(np.uint64)}ull)"
    if dtype in NARROW:
        return f"({STORED[dtype]}){int(number)}"
    bits = int(number) % 2 ** (8 * number.dtype.itemsize)
    return f"({STORED[dtype]}){bits}{'ull' if dtype.endswith('64') else 'u'}"
