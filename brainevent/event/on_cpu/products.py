# SPDX-License-Identifier: Apache-2.0
"""Which walk computes a product with a sparse matrix, by one thread or several."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from . import coordinates, shared, visits, walks
from .coordinates import Elements
from .laws import Law
from .rows import Rows
from .threads import are_long, are_worth_it

__all__ = ["kernel"]


def kernel(
    law: Law,
    rows: Rows | Elements,
    arrays: Sequence[Any],
    *,
    number: int,
    stored: int,
    transpose: bool,
    ndim: int,
    in_order: bool = False,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel of a matrix with a law, for an x of rank `ndim`, and the structure that the kernel takes.

    `number` is that of rows, `stored` that of elements, and `in_order` says whether the columns of each row ascend.
    """
    if isinstance(rows, Elements):
        return _of_elements(law, rows, ndim=ndim), rows.structure(*arrays, transpose=transpose)
    found = _of_rows(
        law,
        rows,
        transpose=transpose,
        ndim=ndim,
        threads=are_worth_it(stored),
        long=are_long(number, stored, in_order=in_order),
    )
    return found, rows.structure(*arrays)


@functools.cache
def _of_elements(law: Law, elements: Elements, *, ndim: int) -> Any:
    make = coordinates.gather_element_columns if ndim == 2 else coordinates.gather_elements
    return make(law, elements)


@functools.cache
def _of_rows(law: Law, rows: Rows, *, transpose: bool, ndim: int, threads: bool, long: bool) -> Any:
    walk = _walk(law, rows, transpose=transpose, ndim=ndim)
    if not threads:
        return shared.by_one_thread(walk, transpose=transpose)
    if long and law.event and transpose and ndim == 1 and rows.columns:
        return shared.in_rows_or_columns(walk, visits.scatter_part(law, rows), law, rows)
    return shared.in_rows(walk, law, rows, transpose=transpose)


def _walk(law: Law, rows: Rows, *, transpose: bool, ndim: int) -> Any:
    if not transpose:
        return walks.gather_columns(law, rows) if ndim == 2 else walks.gather(law.gathered or law, rows)
    if law.event:
        return visits.scatter_event_columns(law, rows) if ndim == 2 else visits.scatter_events(law, rows)
    return walks.scatter_columns(law, rows) if ndim == 2 else walks.scatter(law, rows)
