# SPDX-License-Identifier: Apache-2.0
"""Operators other than products: what they do at a stored element, most of them in the walks of `each.py`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...backends.numba import half
from ...backends.numba.inner import inner
from . import each
from .events import next_event
from .rows import Rows, unsigned
from .terms import adding as adding_to_sums
from .terms import product

__all__ = [
    "adding",
    "copied",
    "gathered_back",
    "nothing",
    "updated",
    "updated_columns",
    "updated_rows",
    "values_of_columns",
    "values_of_rows",
]

_HALVES = {
    "float16": (half.from_float16, half.to_float16),
    "bfloat16": (half.from_bfloat16, half.to_bfloat16),
}


@functools.cache
def copied(dtype: str, rows: Rows, *, homogeneous: bool) -> Any:
    """Return `kernel((weights,), structure, chosen, out)`, which writes chosen rows as dense ones."""
    of = product(dtype, event=True, homogeneous=homogeneous)
    common, weight, place, add = of.common, of.weight, rows.place, adding_to_sums(of, rows)

    @inner
    def at(operands: Any, structure: Any, out: Any, i: Any, j: Any, column: Any) -> None:
        weights = operands[0]
        add(out[i], column, weight(common(weights), weights, place(structure, j, weights)))

    return each.in_chosen_rows(at, rows)


@functools.cache
def gathered_back(rows: Rows) -> Any:
    """Return `kernel((dense,), structure, chosen, out)`, which adds dense rows to the elements of chosen rows."""
    has = rows.has

    @inner
    def at(operands: Any, structure: Any, out: Any, i: Any, j: Any, column: Any) -> None:
        dense = operands[0]
        if has(column, dense.shape[1]):
            out[j] += dense[i, column]

    return each.in_chosen_rows(at, rows)


@functools.cache
def updated(dtype: str, rows: Rows) -> Any:
    """Return `kernel(weights, structure, spikes, trace, after, out)`: the trace of its column is added to a weight."""
    has, holds, place, add = rows.has, rows.holds, rows.place, adding(dtype)

    @inner
    def at(trace: Any, structure: Any, out: Any, row: Any, j: Any, column: Any) -> None:
        if has(column, trace.shape[0]) and holds(structure, j, out.shape[0]):
            here = np.int64(place(structure, j, out))
            out.flat[here] = add(out.flat[here], trace[column])  # not reshaped before: XLA would copy all of it

    return each.in_event_rows(at, rows)


@functools.cache
def updated_rows(dtype: str) -> Any:
    """Return `kernel(weights, spikes, trace, after, out)` for the rows of a dense matrix."""
    add = adding(dtype)

    @inner
    def updated_rows(weights: Any, spikes: Any, trace: Any, after: Any, out: Any) -> None:
        i = next_event(spikes, 0)
        while i < spikes.shape[0]:
            for j in range(trace.shape[0]):
                out[i, j] = add(out[i, j], trace[j])
            i = next_event(spikes, i + 1)

    return updated_rows


@functools.cache
def updated_columns(dtype: str) -> Any:
    """Return `kernel(weights, spikes, trace, after, out)` for the columns of a dense matrix, row by row."""
    add = adding(dtype)

    @inner
    def updated_columns(weights: Any, spikes: Any, trace: Any, after: Any, out: Any) -> None:
        first = next_event(spikes, 0)
        if first < spikes.shape[0]:
            for i in range(trace.shape[0]):
                j = first
                while j < spikes.shape[0]:
                    out[i, j] = add(out[i, j], trace[i])
                    j = next_event(spikes, j + 1)

    return updated_columns


@functools.cache
def adding(dtype: str) -> Any:
    """Return a function that adds to a weight of a dtype; Numba has no arithmetic in 16 bits."""
    if dtype not in _HALVES:
        return inner(lambda weight, change: weight + change)
    load, store = _HALVES[dtype]
    return inner(lambda weight, change: store(load(weight) + change))


@functools.cache
def nothing(dtype: str) -> Any:
    """Return a function that returns the zero of a dtype."""
    if dtype not in _HALVES:
        return inner(lambda: 0)
    _, store = _HALVES[dtype]
    return inner(lambda: store(np.float32(0)))


# ---- values of synapses times values of neurons: `kernel(y, w, structure, out)`


@functools.cache
def values_of_rows(rows: Rows) -> Any:
    """Return the kernel that multiplies each element with the value of its row; columns are not read."""
    bounds, whole = rows.bounds, rows.within

    @inner
    def of_rows(y: Any, w: Any, structure: Any, out: Any) -> None:
        if not whole:
            out[:] = 0
        for b in range(out.shape[0]):
            values, weights, found = y[min(b, y.shape[0] - 1)], w[min(b, w.shape[0] - 1)], out[b]
            for row in range(unsigned(values.shape[0])):
                begin, end = bounds(structure, row)
                value = values[row]
                for j in range(begin, end):
                    found[j] = weights[j] * value

    return of_rows


@functools.cache
def values_of_columns(rows: Rows) -> Any:
    """Return the kernel that multiplies each element with the value of its column; row pointers are not read."""
    assert rows.columns is not None
    has, columns = rows.has, rows.columns

    @inner
    def of_columns(y: Any, w: Any, structure: Any, out: Any) -> None:
        indices = columns(structure)
        for b in range(out.shape[0]):
            values, weights, found = y[min(b, y.shape[0] - 1)], w[min(b, w.shape[0] - 1)], out[b]
            for j in range(unsigned(out.shape[1])):
                column = unsigned(indices[j])
                if has(column, values.shape[0]):
                    found[j] = weights[j] * values[column]
                else:
                    found[j] = 0

    return of_columns
