# SPDX-License-Identifier: Apache-2.0
"""Cut rows whose columns ascend to the elements in a range of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba import inner, prefetch

__all__ = ["cut_rows"]

_NEAR = 8  # elements around the expected place of a column that are tested first


@inner
def cut_rows(indices: Any, here: Any, end: Any, found: int, first: int, last: int, size: int) -> None:
    """Cut rows, from `here[k]` to `end[k]` for the first `found`, to the elements in the columns from first to last.

    Columns ascend in a row, and there are `size` of them; 0 and `size` need no search.
    """
    before, upto = first / max(1, size), last / max(1, size)
    for k in range(found):  # all are prefetched before the first is read
        length = end[k] - here[k]
        prefetch(indices, here[k] + np.int64(length * before))
        prefetch(indices, here[k] + np.int64(length * upto))
    for k in range(found):
        begin, length = here[k], end[k] - here[k]
        if first > 0:
            here[k] = _first_of(indices, begin, end[k], begin + np.int64(length * before), first)
        if last < size:
            expected = max(here[k], begin + np.int64(length * upto))
            end[k] = _first_of(indices, here[k], end[k], expected, last)


@inner
def _first_of(indices: Any, begin: int, end: int, expected: int, column: int) -> int:
    """Return the place of the first element, of those from begin to end, whose column is not less."""
    step = _NEAR
    if expected < end and indices[np.uint64(expected)] < column:
        low = expected + 1
        high = low + step
        while high < end and indices[np.uint64(high - 1)] < column:
            low, step = high, 2 * step
            high = low + step
        high = min(high, end)
    else:
        high = min(expected, end)
        low = high - step
        while low > begin and indices[np.uint64(low)] >= column:
            high, step = low, 2 * step
            low = high - step
        low = max(low, begin)
    while low < high:
        middle = (low + high) // 2
        if indices[np.uint64(middle)] < column:
            low = middle + 1
        else:
            high = middle
    return low
