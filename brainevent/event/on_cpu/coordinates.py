# SPDX-License-Identifier: Apache-2.0
"""Products of elements in coordinates: `kernel(weights, structure, x, out)`; without rows.

An element takes from x at one of its ends and adds to the sum at the other one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...backends.numba.inner import inner
from .events import no_event
from .rows import BLOCK, is_there, unsigned
from .terms import Terms, adding

__all__ = ["Coordinates", "coordinates", "gather_element_columns", "gather_elements"]


@dataclass(frozen=True)
class Coordinates:
    """What these walks need of a format: the sum to which element j adds, and its source; see `Rows` for the rest.

    `structure(*arrays, transpose=...)` makes of an operator's arrays the tuple that the others are given.
    """

    into: Callable[..., Any]
    out_of: Callable[..., Any]
    stored: Callable[..., Any]
    has: Callable[..., Any]
    structure: Callable[..., tuple[Any, ...]]


@functools.cache
def coordinates(*, within: bool) -> Coordinates:
    """Return elements with an array of rows and one of columns."""
    return Coordinates(
        into=inner(lambda structure, j: structure[0][j]),
        out_of=inner(lambda structure, j: structure[1][j]),
        stored=inner(lambda structure: structure[0].shape[0]),
        has=is_there(within=within),
        structure=lambda row, col, transpose: (col, row) if transpose else (row, col),
    )


@inner
def _is_silent(x: Any) -> bool:
    start = 0
    while start < x.size and no_event(x, start, min(start + BLOCK, x.size)):
        start += BLOCK
    return start >= x.size


def gather_elements(of: Terms, elements: Coordinates) -> Any:
    """Return the kernel for a vector x."""
    event, common, weight, counts, term, nothing = of.event, of.common, of.weight, of.counts, of.term, of.nothing
    into, out_of, stored, has, add = (
        elements.into,
        elements.out_of,
        elements.stored,
        elements.has,
        adding(of, elements),
    )

    @inner
    def gather_elements(weights: Any, structure: Any, x: Any, out: Any) -> None:
        out[:] = nothing(out)
        if event and _is_silent(x):
            return
        one = common(weights)
        for j in range(unsigned(stored(structure))):
            source = out_of(structure, j)
            if has(source, x.shape[0]):
                value = x[unsigned(source)]
                if counts(value):
                    add(out, into(structure, j), term(weight(one, weights, j), value))

    return gather_elements


def gather_element_columns(of: Terms, elements: Coordinates) -> Any:
    """Return the kernel for each column of a matrix x."""
    event, common, weight, counts, term, merge = of.event, of.common, of.weight, of.counts, of.term, of.merge
    into, out_of, stored, has, nothing = elements.into, elements.out_of, elements.stored, elements.has, of.nothing

    @inner
    def gather_element_columns(weights: Any, structure: Any, x: Any, out: Any) -> None:
        silent = nothing(out)
        out[:] = silent
        if event and _is_silent(x.ravel()):
            return
        one = common(weights)
        for j in range(unsigned(stored(structure))):
            here, source, target = weight(one, weights, j), unsigned(out_of(structure, j)), unsigned(into(structure, j))
            if has(source, x.shape[0]) and has(target, out.shape[0]):
                for b in range(x.shape[1]):  # the weight is read once; a choice, and not a branch, lets sums be vectors
                    value = x[source, b]
                    adds = term(here, value)
                    out[target, b] = merge(out[target, b], adds if counts(value) else silent)

    return gather_element_columns
