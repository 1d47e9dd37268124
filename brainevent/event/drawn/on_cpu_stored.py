# SPDX-License-Identifier: Apache-2.0
"""Loops that draw the elements of a matrix on the host: first to count them, then to store them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.loops import loop_of
from .numbers import UNIFORM
from .on_cpu import through

__all__ = ["count_rows", "fill_rows"]

_loop = loop_of(__file__)


@inner
def _one_more(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
    return total + 1


@inner
def _next(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
    x[total] = column
    out[total] = word
    return total + 1


_count, _fill = through(UNIFORM, _one_more), through(UNIFORM, _next)


@_loop
def count_rows(plan: Any, logarithms: Any, end: int, counts: Any) -> None:
    """Write how many elements row i has, up to a column, into `counts[i + 1]`."""
    for row in range(counts.shape[0] - 1):
        counts[row + 1] = _count(np.int64(0), plan, logarithms, 0, 0, 0, 0, 0, row, 0, end)


@_loop
def fill_rows(plan: Any, logarithms: Any, end: int, indptr: Any, columns: Any, words: Any) -> None:
    """Write the columns and the words of weights of these elements."""
    for row in range(indptr.shape[0] - 1):
        _fill(np.int64(indptr[row]), plan, logarithms, 0, 0, columns, 0, words, row, 0, end)
