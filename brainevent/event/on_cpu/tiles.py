# SPDX-License-Identifier: Apache-2.0
"""Rows added tile by tile of the sums, if these do not fit the first cache of a processor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba import inner
from .laws import Law, adding, fetching
from .rows import LINE, Rows, unsigned

__all__ = ["add_in_tiles"]

_LEAST, _MOST = 4096, 65536  # sums of a tile: they stay in a processor's first cache, or in the second one
_WORTH = 16384  # sums from which on tiles are faster
_RUN = 128  # elements of a row in a tile, on average, for which it need not be larger
_SLICE = 32  # and for which tiles are faster
_ENOUGH = 8  # rows
_ROWS_AHEAD = 2  # rows whose next elements are prefetched while others are added
_TOGETHER, _ONE = np.uint64(8), np.uint64(1)  # elements of which only the last is tested
_ALL = 2**63 - 1  # no index is above it


def add_in_tiles(law: Law, rows: Rows) -> Any:
    """Return a function that adds rows, `here[k]` to `end[k]` of the first `found`, tile by tile of the sums.

    It adds nothing, and returns False, if that would not be faster. From each row it takes elements until one is behind
    the tile, so it is fast for sorted rows, and correct for all. In the end, `here` is where the rows end.
    """
    common, weight, add_to, fetch = law.common, law.weight, adding(law, rows), fetching(law, rows)
    column, place = rows.column, rows.place

    @inner
    def add(weights: Any, structure: Any, listed: Any, here: Any, end: Any, found: int, out: Any) -> bool:
        elements = np.int64(0)
        for k in range(found):
            elements += end[k] - here[k]
        size = out.shape[0]
        tile, places = _LEAST, max(1, found * size)
        while tile < _MOST and elements * tile < _RUN * places:
            tile *= 2
        if found < _ENOUGH or size < max(2 * tile, _WORTH) or elements * tile // places < _SLICE:
            return False
        one = common(weights)
        until = np.int64(-1)  # the last sum of a tile
        while until < size - 1:
            until = until + tile if until + tile < size - 1 else np.int64(_ALL)
            for k in range(found):
                row, j, last = listed[k], unsigned(here[k]), unsigned(end[k])
                following = k + _ROWS_AHEAD if k + _ROWS_AHEAD < found else k + _ROWS_AHEAD - found
                later = unsigned(here[unsigned(following)])
                ahead = later - j
                fetch(weights, structure, later)
                while j + _TOGETHER <= last and column(structure, row, j + _TOGETHER - _ONE) <= until:
                    fetch(weights, structure, j + LINE + ahead)
                    for i in range(_TOGETHER):
                        e = j + i
                        add_to(out, column(structure, row, e), weight(one, weights, place(structure, e, weights)))
                    j += _TOGETHER
                while j < last and column(structure, row, j) <= until:
                    add_to(out, column(structure, row, j), weight(one, weights, place(structure, j, weights)))
                    j += _ONE
                here[k] = j
        return True

    return add
