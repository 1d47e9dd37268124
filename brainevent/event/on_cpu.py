# SPDX-License-Identifier: Apache-2.0
"""What Numba kernels of several formats share: how weights and indices are read, and where there is no event."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.numba import half, inner, prefetch

__all__ = [
    "BLOCK",
    "LINE",
    "LISTED",
    "Places",
    "Terms",
    "add_in_tiles",
    "fetching",
    "no_event",
    "places",
    "terms",
    "unsigned",
]

BLOCK = 64  # elements that are looked at together for an event
LINE, _HALF = np.uint64(16), np.uint64(8)  # elements that are asked for together: memory sends 64 bytes, 16 indices
LISTED = 512  # events that are listed before their rows are added
_LEAST, _MOST = 4096, 65536  # sums of a tile: they stay in a processor's nearest cache, or in the next one
_WORTH = 16384  # sums, from which on there is a tile that is worth while
_RUN = 128  # elements of a row, on average, for which a tile need not be larger
_SLICE = 32  # and that make it worth while
_ENOUGH = 8  # rows
_ROWS_AHEAD = 2  # of which the next elements are asked for while as many are added
_TOGETHER, _ONE = np.uint64(8), np.uint64(1)  # elements of which only the last is looked at
_ALL = 2**63 - 1  # no index is above it
_LOADS = {"float16": half.from_float16, "bfloat16": half.from_bfloat16}


@dataclass(frozen=True)
class Terms:
    """How a kernel reads weights, and what it does with an element of x; all are compiled.

    `common(weights)` is the one weight of all elements, if there is one; `weight(common, weights, where)` is that of
    the element at an index. `counts(x)` says whether an element of x adds anything, and `term(weight, x)` what. Weights
    that are `wide` have more than 32 bits.
    """

    event: bool
    homogeneous: bool
    wide: bool
    common: Callable[..., Any]
    weight: Callable[..., Any]
    counts: Callable[..., Any]
    term: Callable[..., Any]


@functools.cache
def terms(dtype: str, *, event: bool, homogeneous: bool) -> Terms:
    """Return the terms of a sum of weights, of a dtype, where there are events, or of weights times numbers."""
    load = _LOADS.get(dtype, _itself)
    if homogeneous:
        common = inner(lambda weights: load(weights[0]))
        weight = inner(lambda common, weights, where: common)
    else:
        common = inner(lambda weights: 0)
        weight = inner(lambda common, weights, where: load(weights[where]))
    counts = inner((lambda x: x != 0) if event else (lambda x: True))
    term = inner((lambda weight, x: weight) if event else (lambda weight, x: weight * x))
    return Terms(event, homogeneous, dtype == "float64", common, weight, counts, term)


@dataclass(frozen=True)
class Places:
    """How a kernel reads indices; all are compiled.

    `has(index, size)` says whether there is something at an index, `row(indptr, row, stored)` where a row begins and
    ends, and `of_weight(perm, j, weights)` where the weight of element j is, which is in `perm` if they are `indexed`;
    `add(sums, index, term)` adds to one of the sums. If all indices are known to be right these ask nothing. Else what
    is out of range adds nothing, and memory of others is neither read nor written.
    """

    has: Callable[..., Any]
    row: Callable[..., Any]
    of_weight: Callable[..., Any]
    add: Callable[..., Any]
    indexed: bool


@functools.cache
def places(*, within: bool, indexed: bool = False) -> Places:
    """Return how indices are read that are known to be within range or are not, and weights in order or permuted."""
    has = inner((lambda index, size: True) if within else (lambda index, size: unsigned(index) < unsigned(size)))
    at = inner(lambda perm, j, weights: unsigned(perm[j]))
    nearest = inner(lambda perm, j, weights: unsigned(min(max(perm[j], 0), weights.shape[0] - 1)))
    in_order = inner(lambda perm, j, weights: j)

    @inner
    def add(sums: Any, index: Any, term: Any) -> None:
        if has(index, sums.shape[0]):
            sums[unsigned(index)] += term

    of_weight = in_order if not indexed else at if within else nearest
    return Places(has, _row if within else _row_within, of_weight, add, indexed)


@inner
def _row(indptr: Any, row: Any, stored: Any) -> tuple[Any, Any]:
    return unsigned(indptr[row]), unsigned(indptr[row + 1])


@inner
def _row_within(indptr: Any, row: Any, stored: Any) -> tuple[Any, Any]:
    begin, end = max(indptr[row], 0), max(indptr[row + 1], 0)
    return min(unsigned(begin), unsigned(stored)), min(unsigned(end), unsigned(stored))


@inner
def _itself(x: Any) -> Any:
    return x


@inner
def unsigned(index: Any) -> Any:
    """Return an index that Numba does not test for being negative; one that is, is above all sizes."""
    return np.uint64(index)


@inner
def no_event(x: Any, start: int, stop: int) -> bool:
    """Say whether there is none from start to stop; a whole block is looked at without branches, many at a time."""
    first, found = np.uint64(start), np.uint8(0)
    if stop - start == BLOCK:
        for i in range(BLOCK):
            found |= np.uint8(x[first + np.uint64(i)] != 0)
    else:
        for i in range(stop - start):
            found |= np.uint8(x[first + np.uint64(i)] != 0)
    return found == 0


def fetching(of: Terms, at: Places) -> Callable[..., Any]:
    """Return a function that asks memory for `LINE` elements from j on: indices, and weights or where they are."""
    homogeneous, wide, indexed = of.homogeneous, of.wide, at.indexed

    @inner
    def fetch(weights: Any, indices: Any, perm: Any, j: Any) -> None:
        prefetch(indices, np.int64(j))
        if not homogeneous:
            prefetch(perm if indexed else weights, np.int64(j))
            if wide and not indexed:
                prefetch(weights, np.int64(j + _HALF))

    return fetch


def add_in_tiles(of: Terms, at: Places) -> Any:
    """Return a function that adds rows, `here[k]` to `end[k]` of the first `found`, tile by tile of the sums.

    It adds nothing, and returns False, where that would not be faster. From each row it takes what comes before the
    tile ends; so it is quick for sorted rows, and right for all. `here` is left where the rows end.
    """
    common, weight, where, add_to, fetch = of.common, of.weight, at.of_weight, at.add, fetching(of, at)

    @inner
    def add(weights: Any, indices: Any, perm: Any, here: Any, end: Any, found: int, out: Any) -> bool:
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
                j, last = unsigned(here[k]), unsigned(end[k])
                later = unsigned(here[k + _ROWS_AHEAD if k + _ROWS_AHEAD < found else k + _ROWS_AHEAD - found])
                ahead = later - j
                fetch(weights, indices, perm, later)
                while j + _TOGETHER <= last and indices[j + _TOGETHER - _ONE] <= until:
                    fetch(weights, indices, perm, j + LINE + ahead)
                    for i in range(_TOGETHER):
                        add_to(out, indices[j + i], weight(one, weights, where(perm, j + i, weights)))
                    j += _TOGETHER
                while j < last and indices[j] <= until:
                    add_to(out, indices[j], weight(one, weights, where(perm, j, weights)))
                    j += np.uint64(1)
                here[k] = j
        return True

    return add
