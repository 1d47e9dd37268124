# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of values of synapses times values of neurons: `kernel(y, w, structure, out)`.

All but the structure are matrices with a row for each entry of a batch; a single row serves all entries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...backends.numba import inner
from ..on_cpu import places, unsigned

__all__ = ["of_columns", "of_rows"]


@functools.cache
def of_rows(*, within: bool) -> Callable[..., Any]:
    """Return the kernel that multiplies each element with the value of its row; the structure is where rows begin."""
    cut = places(within=within).row

    @inner
    def kernel(y: Any, w: Any, indptr: Any, out: Any) -> None:
        if not within:
            out[:] = 0
        for b in range(out.shape[0]):
            values, weights, found = y[min(b, y.shape[0] - 1)], w[min(b, w.shape[0] - 1)], out[b]
            for row in range(values.shape[0]):
                begin, end = cut(indptr, row, out.shape[1])
                value = values[row]
                for j in range(begin, end):
                    found[j] = weights[j] * value

    return kernel


@functools.cache
def of_columns(*, within: bool) -> Callable[..., Any]:
    """Return the kernel that multiplies each element with the value of its column; the structure is the columns."""
    has = places(within=within).has

    @inner
    def kernel(y: Any, w: Any, indices: Any, out: Any) -> None:
        for b in range(out.shape[0]):
            values, weights, found = y[min(b, y.shape[0] - 1)], w[min(b, w.shape[0] - 1)], out[b]
            for j in range(unsigned(out.shape[1])):
                column = unsigned(indices[j])
                if has(column, values.shape[0]):
                    found[j] = weights[j] * values[column]
                else:
                    found[j] = 0

    return kernel
