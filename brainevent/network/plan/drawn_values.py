# SPDX-License-Identifier: Apache-2.0
"""States and parameters of a population as arrays of the rule's dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.units import plain
from ..description.values import Values
from .keys import key_of

__all__ = ["array_of"]

_LARGEST = float(np.finfo(np.float32).max)

Array = Any


def array_of(where: str, value: Any, name: str, size: int, dtype: str, seed: int) -> Array:
    """Return a value as a scalar () or an array (size,) of a dtype; `name` decides which values are drawn."""
    if isinstance(value, Values):
        if max(map(abs, value.law.bounds)) > _LARGEST:
            raise NetworkError(f"{where}: values may not fit in float32; pass smaller ones, or high=")
        return _drawn(value, name, size, dtype, seed)
    given = np.asarray(plain(where, value))
    if given.shape not in ((), (size,)):
        raise NetworkError(f"{where}: has the shape {given.shape}; pass a number, or an array ({size},)")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise NetworkError(f"{where}: is NaN{_place(np.isnan(given))}; pass numbers")
    with np.errstate(over="ignore"):
        found = given.astype(dtype)
    lost = (found != given) if dtype in ("int32", "uint32") else np.isinf(found) & np.isfinite(given)
    if np.any(lost):
        raise NetworkError(
            f"{where}: is {given[lost].flat[0]}{_place(lost)}, which does not fit in {dtype}; pass numbers that do"
        )
    return found[()] if found.ndim == 0 else np.ascontiguousarray(found)


def _drawn(value: Values, name: str, size: int, dtype: str, seed: int) -> Array:
    from .on_cpu_words import draw_words, values_of

    words, more = np.empty(size, np.uint32), np.empty(size, np.uint32)
    draw_words(np.array(key_of(seed, name), np.uint32), 0, 0, size, words, more)
    values = np.empty(size, np.float32)
    values_of(value.law.numbers(-np.inf, np.inf), words, size, values)
    return values.astype(dtype)


def _place(wrong: Array) -> str:
    return f" at neuron {int(np.flatnonzero(wrong)[0])}" if np.ndim(wrong) else ""
