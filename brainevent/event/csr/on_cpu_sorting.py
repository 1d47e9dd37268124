# SPDX-License-Identifier: Apache-2.0
"""Numba loops that sort stored elements by row or by column: they are counted, and then written to their places.

Elements of equal keys keep their order. Keys must be below `starts.shape[0] - 1`; callers check that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.loops import loop_of

__all__ = ["sort_by_column", "sort_by_key"]

_loop = loop_of(__file__)


@inner
def _count(keys: Any, starts: Any) -> Any:
    """Write where the elements of each key start, and return a copy that counts those that are written."""
    starts[:] = 0
    for j in range(keys.shape[0]):
        starts[np.uint64(keys[j]) + np.uint64(1)] += 1
    for key in range(starts.shape[0] - 1):
        starts[key + 1] += starts[key]
    return starts[:-1].copy()


@_loop
def sort_by_key(keys: Any, others: Any, starts: Any, sorted_others: Any, order: Any) -> None:
    """Sort elements in coordinates by one of them."""
    free = _count(keys, starts)
    for j in range(keys.shape[0]):
        key = np.uint64(keys[j])
        place = np.uint64(free[key])
        free[key] += 1
        sorted_others[place] = others[j]
        order[place] = j


@_loop
def sort_by_column(indices: Any, indptr: Any, starts: Any, rows: Any, order: Any) -> None:
    """Sort elements in compressed rows by column."""
    free = _count(indices, starts)
    for row in range(indptr.shape[0] - 1):
        for j in range(indptr[row], indptr[row + 1]):
            column = np.uint64(indices[j])
            place = np.uint64(free[column])
            free[column] += 1
            rows[place] = row
            order[place] = j
