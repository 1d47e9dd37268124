# SPDX-License-Identifier: Apache-2.0
"""Walks through all rows: `walk(weights, structure, x, first, last, out)` goes through those from first to last.

Walks that gather compute `A @ x`, with a sum for each row; walks that scatter compute `A.T @ x`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from .rows import Rows
from .terms import ANY_ORDER, Terms, adding, index_test

__all__ = ["gather", "gather_columns", "scatter", "scatter_columns"]


def gather(of: Terms, rows: Rows) -> Any:
    """Return the walk that adds up each row for a vector x."""
    common, weight, counts, start, add, finish = of.common, of.weight, of.counts, of.start, of.add, of.finish
    bounds, column, place, has = rows.bounds, rows.column, rows.place, index_test(of, rows)

    @inner(fastmath=False if of.tests else ANY_ORDER)
    def gather(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        one = common(weights)
        for row in range(np.uint64(first), np.uint64(last)):
            total = start(out)
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                source = column(structure, row, j)
                if has(source, x.shape[0]):
                    value = x[np.uint64(source)]
                    if counts(value):
                        total = add(total, weight(one, weights, place(structure, j, weights)), value)
            finish(out, row, total, one)

    return gather


def gather_columns(of: Terms, rows: Rows) -> Any:
    """Return the walk that adds up each row for each column of a matrix x."""
    common, weight, counts, term, merge, nothing = of.common, of.weight, of.counts, of.term, of.merge, of.nothing
    bounds, column, place, has = rows.bounds, rows.column, rows.place, rows.has

    @inner
    def gather_columns(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        one, silent = common(weights), nothing(out)
        out[first:last] = silent
        # Unsigned: a row that may be negative keeps sums from being vectors.
        for row in range(np.uint64(first), np.uint64(last)):
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                here, source = weight(one, weights, place(structure, j, weights)), np.uint64(column(structure, row, j))
                if has(source, x.shape[0]):
                    for b in range(x.shape[1]):  # a choice below, and not a branch, for the same reason
                        value = x[source, b]
                        adds = term(here, value)
                        out[row, b] = merge(out[row, b], adds if counts(value) else silent)

    return gather_columns


def scatter(of: Terms, rows: Rows, *, clears: bool = True) -> Any:
    """Return the walk that adds each row to the sums of its columns, times a vector x.

    Unless it `clears` the sums, they are zero before.
    """
    common, weight, counts, term, add = of.common, of.weight, of.counts, of.term, adding(of, rows)
    bounds, column, place, nothing = rows.bounds, rows.column, rows.place, of.nothing

    @inner
    def scatter(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        if clears:
            out[:] = nothing(out)
        one = common(weights)
        for row in range(np.uint64(first), np.uint64(last)):
            value = x[row]
            if not counts(value):
                continue
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                add(out, column(structure, row, j), term(weight(one, weights, place(structure, j, weights)), value))

    return scatter


def scatter_columns(of: Terms, rows: Rows) -> Any:
    """Return the same walk for each column of a matrix x."""
    common, weight, counts, term, merge, nothing = of.common, of.weight, of.counts, of.term, of.merge, of.nothing
    bounds, column, place, has = rows.bounds, rows.column, rows.place, rows.has

    @inner
    def scatter_columns(weights: Any, structure: Any, x: Any, first: int, last: int, out: Any) -> None:
        out[:] = nothing(out)
        one, silent = common(weights), nothing(out)
        for row in range(np.uint64(first), np.uint64(last)):
            any_counts = False
            for b in range(x.shape[1]):
                any_counts |= counts(x[row, b])
            if not any_counts:
                continue
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                here, target = weight(one, weights, place(structure, j, weights)), np.uint64(column(structure, row, j))
                if has(target, out.shape[0]):
                    for b in range(x.shape[1]):
                        value = x[row, b]
                        adds = term(here, value)
                        out[target, b] = merge(out[target, b], adds if counts(value) else silent)

    return scatter_columns
