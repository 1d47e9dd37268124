# SPDX-License-Identifier: Apache-2.0
"""States and parameters of a population as arrays of the rule's dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._pieces import PIECE, pieces
from ...errors import NetworkError
from ..description.exact import refuse_rounded
from ..description.units import plain
from ..description.values import Values
from .keys import key_of
from .loops import draw_words, values_of

__all__ = ["array_of"]

_LARGEST = float(np.finfo(np.float32).max)

Array = Any


def array_of(where: str, value: Any, name: str, size: int, dtype: str, seed: int, exact: str | None = None) -> Array:
    """Return a value as a scalar () or an array (size,) of a dtype; `name` decides which values are drawn.

    `exact` is the dtype of floats that integers become where a rule reads them.
    """
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
    refuse_rounded(where, given, exact or dtype, "neuron")
    return found[()] if found.ndim == 0 else np.ascontiguousarray(found)


def _drawn(value: Values, name: str, size: int, dtype: str, seed: int) -> Array:
    words, more = (np.empty(min(size, PIECE), np.uint32) for _ in range(2))
    key, law = np.array(key_of(seed, name), np.uint32), value.law.numbers(-np.inf, np.inf)
    values, found = np.empty(words.size, np.float32), np.empty(size, dtype)
    for piece in pieces(size):
        count = piece.stop - piece.start
        draw_words(key, 0, piece.start, count, words, more)
        values_of(law, words, count, values)
        found[piece] = values[:count]
    return found


def _place(wrong: Array) -> str:
    return f" at neuron {int(np.flatnonzero(wrong)[0])}" if np.ndim(wrong) else ""
