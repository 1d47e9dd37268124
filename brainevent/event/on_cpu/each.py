# SPDX-License-Identifier: Apache-2.0
"""Walks that call a function at each element of a row: of all rows, of chosen ones, or of those that have an event.

The function is `at(operands, structure, out, i, j, column)`, with element j of row i, or of the row chosen as number i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from .events import next_event, no_event
from .rows import Rows, unsigned

__all__ = ["in_active_rows", "in_chosen_rows", "in_event_rows", "in_rows", "in_rows_with_any"]


def in_rows(at: Any, rows: Rows, **options: Any) -> Any:
    """Return the kernel for all rows: `kernel(operands, structure, out)`, where the first operand has as many rows."""
    bounds, column, number = rows.bounds, rows.column, rows.number

    @inner(**options)
    def each_of_rows(operands: Any, structure: Any, out: Any) -> None:
        out[:] = 0
        for row in range(unsigned(min(operands[0].shape[0], number(structure)))):
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                at(operands, structure, out, row, j, unsigned(column(structure, row, j)))

    return each_of_rows


def in_active_rows(at: Any, rows: Rows, **options: Any) -> Any:
    """Return the same kernel for rows in which the first operand, a matrix, is not zero everywhere."""
    bounds, column, number = rows.bounds, rows.column, rows.number

    @inner(**options)
    def each_of_active(operands: Any, structure: Any, out: Any) -> None:
        out[:] = 0
        values, width = operands[0].reshape(operands[0].size), operands[0].shape[1]
        last = min(operands[0].shape[0], number(structure)) * width
        found = next_event(values, 0)
        while found < last:
            row = found // width
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                at(operands, structure, out, unsigned(row), j, unsigned(column(structure, row, j)))
            found = next_event(values, (row + 1) * width)

    return each_of_active


def in_rows_with_any(at: Any, rows: Rows, **options: Any) -> Any:
    """Return the same kernel, which is faster if most rows are active, and slower if few are.

    Values of the first operand are tested row by row, and not some rows at once.
    """
    bounds, column, number = rows.bounds, rows.column, rows.number

    @inner(**options)
    def each_with_any(operands: Any, structure: Any, out: Any) -> None:
        out[:] = 0
        values, width = operands[0].reshape(operands[0].size), operands[0].shape[1]
        for row in range(unsigned(min(operands[0].shape[0], number(structure)))):
            first = np.int64(row) * width
            if not no_event(values, first, first + width):
                begin, end = bounds(structure, row)
                for j in range(begin, end):
                    at(operands, structure, out, row, j, unsigned(column(structure, row, j)))

    return each_with_any


def in_chosen_rows(at: Any, rows: Rows) -> Any:
    """Return the kernel for chosen rows: `kernel(operands, structure, chosen, out)`; some may be out of range."""
    bounds, column, number = rows.bounds, rows.column, rows.number

    @inner
    def each_of_chosen(operands: Any, structure: Any, chosen: Any, out: Any) -> None:
        out[:] = 0
        for i in range(unsigned(chosen.shape[0])):
            row = chosen[i]
            if 0 <= row < number(structure):
                begin, end = bounds(structure, row)
                for j in range(begin, end):
                    at(operands, structure, out, i, j, unsigned(column(structure, row, j)))

    return each_of_chosen


def in_event_rows(at: Any, rows: Rows) -> Any:
    """Return the kernel for rows of events: `kernel(weights, structure, events, operand, after, out)`.

    The result starts as the weights, of any shape, and `after` is not read.
    """
    bounds, column = rows.bounds, rows.column

    @inner
    def each_of_events(weights: Any, structure: Any, events: Any, operand: Any, after: Any, out: Any) -> None:
        row = next_event(events, 0)
        while row < events.shape[0]:
            begin, end = bounds(structure, row)
            for j in range(begin, end):
                at(operand, structure, out, row, j, unsigned(column(structure, row, j)))
            row = next_event(events, row + 1)

    return each_of_events
