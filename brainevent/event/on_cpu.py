# SPDX-License-Identifier: Apache-2.0
"""What Numba kernels of several formats share: how a weight is read, what it adds, and where there is no event."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from ..backends.numba import half, prefetch

__all__ = ["BLOCK", "LISTED", "Terms", "add_in_tiles", "no_event", "terms", "unsigned"]

BLOCK = 64  # elements that are looked at together for an event
LISTED = 512  # events that are listed before their rows are added
_LEAST, _MOST = 4096, 16384  # sums of a tile: they stay in a processor's nearest cache, or in the next one
_RUN = 128  # elements of a row, on average, for which a tile need not be larger
_SLICE = 32  # and that make it worth while
_ENOUGH = 8  # rows
_AHEAD = 2  # rows of which the next elements are fetched
_TOGETHER, _ONE = np.uint64(8), np.uint64(1)  # elements of which only the last is looked at
_LINE = 64  # bytes that come from memory at once
_ALL = 2**62  # above all indices
_LOADS = {"float16": half.from_float16, "bfloat16": half.from_bfloat16}


@dataclass(frozen=True)
class Terms:
    """How a kernel reads weights, and what it does with an element of x; all are compiled.

    `common(weights)` is the one weight of all elements, if there is one; `weight(common, weights, where)` is that of
    the element at an index. `counts(x)` says whether an element of x adds anything, and `term(weight, x)` what.
    """

    event: bool
    homogeneous: bool
    common: Callable[..., Any]
    weight: Callable[..., Any]
    counts: Callable[..., Any]
    term: Callable[..., Any]


@functools.cache
def terms(dtype: str, *, event: bool, homogeneous: bool) -> Terms:
    """Return the terms of a sum of weights, of a dtype, where there are events, or of weights times numbers."""
    load = _LOADS.get(dtype, _itself)
    if homogeneous:
        common = numba.njit(lambda weights: load(weights[0]))
        weight = numba.njit(lambda common, weights, where: common)
    else:
        common = numba.njit(lambda weights: 0)
        weight = numba.njit(lambda common, weights, where: load(weights[where]))
    counts = numba.njit((lambda x: x > 0) if event else (lambda x: True))
    term = numba.njit((lambda weight, x: weight) if event else (lambda weight, x: weight * x))
    return Terms(event, homogeneous, common, weight, counts, term)


@numba.njit
def _itself(x: Any) -> Any:
    return x


@numba.njit
def unsigned(index: Any) -> Any:
    """Return an index that Numba does not test for being negative."""
    return np.uint64(index)


@numba.njit
def no_event(x: Any, start: int, stop: int) -> bool:
    """Say whether there is none from start to stop; a whole block is looked at without branches, many at a time."""
    first, found = np.uint64(start), np.uint8(0)
    if stop - start == BLOCK:
        for i in range(BLOCK):
            found |= np.uint8(x[first + np.uint64(i)] > 0)
    else:
        for i in range(stop - start):
            found |= np.uint8(x[first + np.uint64(i)] > 0)
    return found == 0


def add_in_tiles(of: Terms, where: Callable[..., Any]) -> Any:
    """Return a function that adds rows, `at[k]` to `end[k]` of the first `found`, tile by tile of the sums.

    It adds nothing, and returns False, where that would not be faster. From each row it takes what comes before the
    tile ends; so it is quick for sorted rows, and right for all. `at` is left where the rows end.
    """
    common, weight = of.common, of.weight

    @numba.njit
    def add(weights: Any, indices: Any, perm: Any, at: Any, end: Any, found: int, out: Any) -> bool:
        elements = np.int64(0)
        for k in range(found):
            elements += end[k] - at[k]
        size = out.shape[0]
        tile, places = _LEAST, max(1, found * size)
        while tile < _MOST and elements * tile < _RUN * places:
            tile *= 2
        expected = elements * tile // places  # elements of a row in a tile
        if found < _ENOUGH or size < max(2 * tile, _MOST) or expected < _SLICE:
            return False
        one, lines = common(weights), expected * indices.itemsize // _LINE + 2
        stop = np.int64(0)
        while stop < size:
            stop = stop + tile if stop + tile < size else np.int64(_ALL)
            for k in range(found):
                if k + _AHEAD < found:
                    for line in range(lines):
                        ahead = at[k + _AHEAD] + line * (_LINE // indices.itemsize)
                        prefetch(indices, ahead)
                        prefetch(weights, ahead)
                j, last = unsigned(at[k]), unsigned(end[k])
                while j + _TOGETHER <= last and indices[j + _TOGETHER - _ONE] < stop:
                    for i in range(_TOGETHER):
                        out[unsigned(indices[j + i])] += weight(one, weights, where(perm, j + i))
                    j += _TOGETHER
                while j < last and indices[j] < stop:
                    out[unsigned(indices[j])] += weight(one, weights, where(perm, j))
                    j += np.uint64(1)
                at[k] = j
        return True

    return add
