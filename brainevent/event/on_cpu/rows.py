# SPDX-License-Identifier: Apache-2.0
"""How Numba kernels find the stored elements of a format, row by row: where they are, and where their weights are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import prefetch

__all__ = ["BLOCK", "LINE", "LISTED", "Rows", "compressed", "fixed", "is_there", "unsigned"]

BLOCK = 64  # elements that are tested together for an event
LINE = np.uint64(16)  # elements that are prefetched together: memory sends 64 bytes, 16 indices
LISTED = 512  # events that are listed before their rows are added
_ONE = np.uint64(1)


@inner
def unsigned(index: Any) -> Any:
    """Return an index that Numba does not test for being negative; a negative one is above all sizes."""
    return np.uint64(index)


@dataclass(frozen=True)
class Rows:
    """What a walk needs of a format; all functions but `structure` are compiled.

    `structure(*arrays)` makes, in JAX, the tuple of arrays that the other functions take. `number(structure)` is the
    number of rows, and `stored(structure)` that of elements. `bounds(structure, row)` says where the elements of a row
    begin and end, `column(structure, row, j)` in which column element j is, and `place(structure, j, weights)` where
    its weight is: at j if weights are `in_order`. `fetch(structure, j)` prefetches `LINE` elements from j on.

    `has(index, size)` says whether an index is in range. If all are known to be `within` range, it tests nothing. Else
    out-of-range indices are ignored, and no memory of others is read or written. `holds(structure, j, size)` says
    whether the place of a weight is in range; `place` returns the nearest one that is. If the columns of all elements
    are in one array, `columns(structure)` is that array.
    """

    stored: Callable[..., Any]
    bounds: Callable[..., Any]
    column: Callable[..., Any]
    place: Callable[..., Any]
    fetch: Callable[..., Any]
    has: Callable[..., Any]
    number: Callable[..., Any]
    holds: Callable[..., Any]
    within: bool = True
    in_order: bool = True
    columns: Callable[..., Any] | None = None
    structure: Callable[..., tuple[Any, ...]] = lambda *arrays: arrays


@functools.cache
def compressed(*, within: bool, indexed: bool = False) -> Rows:
    """Return compressed sparse rows: indices, row pointers, and places of weights if these are `indexed`."""
    return Rows(
        stored=inner(lambda structure: structure[0].size),
        bounds=_bounds if within else _bounds_within,
        column=_column,
        place=(_place if within else _nearest_place) if indexed else _in_order,
        fetch=_fetch_indexed if indexed else _fetch,
        has=is_there(within=within),
        number=inner(lambda structure: structure[1].shape[0] - 1),
        holds=_holds_indexed if indexed and not within else _holds,
        within=within,
        in_order=not indexed,
        columns=_indices,
    )


@functools.cache
def fixed(*, within: bool) -> Rows:
    """Return rows of equal length: a matrix of indices."""
    return Rows(
        stored=inner(lambda structure: structure[0].size),
        bounds=_equal_bounds,
        column=_column,
        place=_in_order,
        fetch=_fetch,
        has=is_there(within=within),
        number=inner(lambda structure: structure[1].shape[0]),
        holds=_holds,
        within=within,
        columns=_indices,
        structure=lambda indices: (indices.reshape(indices.size), indices),
    )


@functools.cache
def is_there(*, within: bool) -> Any:
    """Return how to test whether an index is in range: if all are known to be, the answer is always True."""
    return inner((lambda index, size: True) if within else (lambda index, size: np.uint64(index) < np.uint64(size)))


@inner
def _bounds(structure: Any, row: Any) -> tuple[Any, Any]:
    row = np.uint64(row)
    return np.uint64(structure[1][row]), np.uint64(structure[1][row + _ONE])


@inner
def _bounds_within(structure: Any, row: Any) -> tuple[Any, Any]:
    row, stored = np.uint64(row), np.uint64(structure[0].size)
    begin, end = max(structure[1][row], 0), max(structure[1][row + _ONE], 0)
    return min(np.uint64(begin), stored), min(np.uint64(end), stored)


@inner
def _equal_bounds(structure: Any, row: Any) -> tuple[Any, Any]:
    begin, width = np.int64(row) * structure[1].shape[1], structure[1].shape[1]
    return np.uint64(begin), np.uint64(begin + width)  # of signed numbers, so that LLVM knows the length of rows


@inner
def _column(structure: Any, row: Any, j: Any) -> Any:
    return structure[0][j]


@inner
def _indices(structure: Any) -> Any:
    return structure[0]


@inner
def _in_order(structure: Any, j: Any, weights: Any) -> Any:
    return j


@inner
def _place(structure: Any, j: Any, weights: Any) -> Any:
    return np.uint64(structure[2][j])


@inner
def _nearest_place(structure: Any, j: Any, weights: Any) -> Any:
    return np.uint64(min(max(structure[2][j], 0), weights.shape[0] - 1))


@inner
def _holds(structure: Any, j: Any, size: Any) -> Any:
    return True


@inner
def _holds_indexed(structure: Any, j: Any, size: Any) -> Any:
    return np.uint64(structure[2][j]) < np.uint64(size)


@inner
def _fetch(structure: Any, j: Any) -> None:
    prefetch(structure[0], np.int64(j))


@inner
def _fetch_indexed(structure: Any, j: Any) -> None:
    prefetch(structure[0], np.int64(j))
    prefetch(structure[2], np.int64(j))
