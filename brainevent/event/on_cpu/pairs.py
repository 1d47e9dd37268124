# SPDX-License-Identifier: Apache-2.0
"""Products of pairs, as in gradients of weights: `kernel((of_rows, of_columns), structure, out)`.

Both sides are matrices, whose columns are summed over. Where one side holds events, or numbers of which zeros are left
out, values of the other side are chosen: zero times NaN would not be zero. Rows without events are not visited.
"""

from __future__ import annotations

import functools
from typing import Any

from ...backends.numba.inner import inner
from . import each
from .coordinates import Coordinates
from .rows import Rows, unsigned
from .terms import ANY_ORDER

__all__ = ["per_element", "putting"]


@functools.cache
def per_element(rows: Rows | Coordinates, *, event: bool, silent: bool, by_rows: bool) -> Any:
    """Return the kernel; `by_rows` says that x, the side with events or zeros that are left out, is that of rows."""
    walk = each.in_active_rows if by_rows and (event or silent) else each.in_rows
    chosen = _per_element(rows, _term(event=event, silent=silent, by_rows=by_rows), walk)
    if not event and not silent:
        return chosen
    walk = each.in_rows_with_any if by_rows else each.in_rows  # with several columns, most rows are active
    multiplied = _per_element(rows, _term(event=False, silent=False, by_rows=by_rows), walk)

    @inner
    def kernel(sides: Any, structure: Any, out: Any) -> None:
        of_rows, of_columns = sides
        if of_rows.shape[1] > 1 and _all_finite(of_rows) and _all_finite(of_columns):
            multiplied(sides, structure, out)  # with zeros: as vectors, which choices are not
        else:
            chosen(sides, structure, out)

    return kernel


@inner(fastmath=ANY_ORDER)
def _all_finite(values: Any) -> bool:
    flat, zero = values.reshape(values.size), values.dtype.type(0)
    total = zero
    for i in range(unsigned(flat.size)):  # as vectors, which tests of each value are not
        total += flat[i] * zero
    return total == zero


def _per_element(rows: Rows | Coordinates, term: Any, walk: Any) -> Any:
    if isinstance(rows, Coordinates):
        return _of_elements(rows, term)
    has, place = rows.has, rows.place
    put = putting(rows)

    @inner(fastmath=ANY_ORDER)
    def at(sides: Any, structure: Any, out: Any, row: Any, j: Any, column: Any) -> None:
        of_rows, of_columns = sides
        zero = out.dtype.type(0)
        total = zero
        if has(column, of_columns.shape[0]):
            for b in range(of_rows.shape[1]):
                total += term(of_rows[row, b], of_columns[column, b], zero)
        put(out, place(structure, j, out), total)

    return walk(at, rows, fastmath=ANY_ORDER)


def _of_elements(elements: Coordinates, term: Any) -> Any:
    row_of, column_of, stored, has = elements.into, elements.out_of, elements.stored, elements.has

    @inner(fastmath=ANY_ORDER)
    def each_of_elements(sides: Any, structure: Any, out: Any) -> None:
        of_rows, of_columns = sides
        zero = out.dtype.type(0)
        for j in range(unsigned(stored(structure))):
            row, column = unsigned(row_of(structure, j)), unsigned(column_of(structure, j))
            total = zero
            if has(row, of_rows.shape[0]) and has(column, of_columns.shape[0]):
                if of_rows.shape[1] == 1:
                    total = term(of_rows[row, 0], of_columns[column, 0], zero)
                else:
                    for b in range(of_rows.shape[1]):
                        total += term(of_rows[row, b], of_columns[column, b], zero)
            out[j] = total

    return each_of_elements


@functools.cache
def _term(*, event: bool, silent: bool, by_rows: bool) -> Any:
    """Return what the values of a row and of a column add: `term(of_rows, of_columns, zero)`."""
    of_x = inner(_chosen if event else _product_unless_zero if silent else _product)
    return of_x if by_rows else inner(lambda value, x, zero: of_x(x, value, zero))


def _chosen(x: Any, value: Any, zero: Any) -> Any:
    return value if x != 0 else zero


def _product_unless_zero(x: Any, value: Any, zero: Any) -> Any:
    return x * value if x != 0 else zero


def _product(x: Any, value: Any, zero: Any) -> Any:
    return x * value


def putting(rows: Rows) -> Any:
    """Return how the result of an element gets to its place, which several may have unless weights are in order."""
    return _write if rows.in_order else _add


@inner
def _write(out: Any, here: Any, total: Any) -> None:
    out[here] = total


@inner
def _add(out: Any, here: Any, total: Any) -> None:
    out[here] += total
