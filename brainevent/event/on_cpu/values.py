# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: `kernel(y, w, structure, out)`.

All but the structure are matrices with a row for each entry of a batch; a single row serves all entries.
"""

from __future__ import annotations

import functools
from typing import Any

from ...backends.numba import inner
from .rows import Rows, unsigned

__all__ = ["of_columns", "of_rows"]


@functools.cache
def of_rows(rows: Rows) -> Any:
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
def of_columns(rows: Rows) -> Any:
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
