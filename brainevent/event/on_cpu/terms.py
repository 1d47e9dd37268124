# SPDX-License-Identifier: Apache-2.0
"""What Numba kernels of products do at a stored element: how its weight is read, and what it adds to a sum."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.numba import half
from ...backends.numba.inner import inner
from ...backends.numba.memory import prefetch
from .rows import Rows, is_there, unsigned

__all__ = ["ANY_ORDER", "Terms", "adding", "fetching", "index_test", "product"]

ANY_ORDER = {"reassoc", "nsz"}  # of additions, which then become vectors
_HALF = np.uint64(8)  # weights of 64 bits that memory sends together
_LOADS = {"float16": half.from_float16, "bfloat16": half.from_bfloat16}


@dataclasses.dataclass(frozen=True)
class Terms:
    """What a walk does at an element with a weight, where x has a value; all functions are compiled.

    `common(weights)` is the weight of all elements, if they have one, and `weight(common, weights, place)` that of an
    element. Walks that scatter merge the `term(weight, value)` of an element with its sum, by `merge(sum, term)`; all
    sums begin as `nothing(out)`, and values for which `counts(value)` is false are ignored. Walks that gather begin
    with `start(out)`, call `add(total, weight, value)` for values that count, in any order, and write the total by
    `finish(out, row, total, common)`. If they ask for `tests`, walks that test indices are faster, even if all indices
    are right.
    """

    homogeneous: bool
    wide: bool  # weights have more than 32 bits
    event: bool
    common: Callable[..., Any]
    weight: Callable[..., Any]
    counts: Callable[..., Any]
    term: Callable[..., Any]
    merge: Callable[..., Any]
    nothing: Callable[..., Any]
    start: Callable[..., Any]
    add: Callable[..., Any]
    finish: Callable[..., Any]
    tests: bool = False
    gathered: Terms | None = None  # those of walks that gather for a vector, if they are others


@functools.cache
def product(dtype: str, *, event: bool, homogeneous: bool, silent: bool = False) -> Terms:
    """Return the terms of sums of weights with events, or of weights times numbers; if `silent`, zeros are left out."""
    load = _LOADS.get(dtype, _itself)
    of = Terms(
        homogeneous=homogeneous,
        wide=dtype == "float64",
        event=event,
        common=inner((lambda weights: load(weights[0])) if homogeneous else (lambda weights: 0)),
        weight=inner(
            (lambda common, weights, place: common)
            if homogeneous
            else (lambda common, weights, place: load(weights[place]))
        ),
        counts=inner((lambda x: x != 0) if event or silent else (lambda x: True)),
        term=inner((lambda weight, x: weight) if event else (lambda weight, x: weight * x)),
        merge=inner(lambda total, term: total + term),
        nothing=_zero,
        start=_zero,
        add=inner(
            (lambda total, weight, x: total + weight) if event else (lambda total, weight, x: total + weight * x),
            fastmath=ANY_ORDER,
        ),
        finish=_write,
    )
    return dataclasses.replace(of, gathered=_count(of)) if event and homogeneous else of


def _count(of: Terms) -> Terms:
    """Return the same for events and one weight: events are counted, and the count is multiplied by the weight."""
    return dataclasses.replace(
        of,
        counts=inner(lambda x: True),
        start=inner(lambda out: np.int64(0)),
        add=inner(lambda total, weight, x: total + x),
        finish=_write_times,
        tests=True,
    )


@inner
def _itself(x: Any) -> Any:
    return x


@inner
def _write(out: Any, row: Any, total: Any, common: Any) -> None:
    out[row] = total


@inner(inline="always")
def _write_times(out: Any, row: Any, total: Any, common: Any) -> None:
    out[row] = 0
    if total:  # without events, a weight that is NaN is ignored
        out[row] = total * common


@inner
def _zero(out: Any) -> Any:
    return out.dtype.type(0)


def index_test(of: Terms, rows: Rows) -> Callable[..., Any]:
    """Return how a walk tests whether an index is in range."""
    return is_there(within=False) if of.tests else rows.has


@functools.cache
def adding(of: Terms, rows: Rows) -> Callable[..., Any]:
    """Return a function that adds a term to one of the sums, if its index is in range."""
    has, merge = rows.has, of.merge

    @inner
    def add(sums: Any, index: Any, term: Any) -> None:
        if has(index, sums.shape[0]):
            sums[unsigned(index)] = merge(sums[unsigned(index)], term)

    return add


@functools.cache
def fetching(of: Terms, rows: Rows) -> Callable[..., Any]:
    """Return a function that prefetches `LINE` elements from j on: the arrays that a format reads, and weights."""
    fetch_structure, weights_too, wide = rows.fetch, rows.in_order and not of.homogeneous, of.wide

    @inner
    def fetch(weights: Any, structure: Any, j: Any) -> None:
        fetch_structure(structure, j)
        if weights_too:
            prefetch(weights, np.int64(j))
            if wide:
                prefetch(weights, np.int64(j + _HALF))

    return fetch
