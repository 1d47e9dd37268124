# SPDX-License-Identifier: Apache-2.0
"""The elements of a drawn matrix as arrays: Numba draws them on the host, first to count them, then to store them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

from ...backends.numba import inner
from ..description import Shape
from ..room import check_places, check_room
from ..structure import known_on_host
from .format import given, tables
from .numbers import SCALAR, UNIFORM
from .on_cpu import through

__all__ = ["elements_of"]


def elements_of(where: str, drawn: Any, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row pointers, ascending columns, and the words of weights; not under tracing."""
    drawn = known_on_host(where, drawn)
    prob = np.clip(np.nan_to_num(drawn[7:8].view(np.float32)[0]), 0, 1)
    about = int(float(prob) * shape[0] * shape[1])  # counting very many takes hours
    check_room(where, f"about {about} elements", 8 * about + 8 * shape[0], on_host=True)
    with jax.ensure_compile_time_eval():
        structure = [np.asarray(x) for x in given(SCALAR, jnp.ones(1), jnp.asarray(drawn), tables())[1]]
    plan, logarithms = structure[0], structure[1].view(np.uint64)
    indptr = np.zeros(shape[0] + 1, np.int64)
    _count_rows(plan, logarithms, shape[1], indptr)
    indptr = np.cumsum(indptr)
    number = int(indptr[-1])
    check_room(where, f"{number} elements", 8 * number + 8 * shape[0], on_host=True)
    check_places(where, f"{number} elements", number)
    columns, words = np.empty(number, np.int32), np.empty(number, np.uint32)
    _fill_rows(plan, logarithms, shape[1], indptr, columns, words)
    return indptr, columns, words


@inner
def _one_more(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
    return total + 1


@inner
def _next(total: Any, parts: Any, quantiles: Any, x: Any, silent: Any, out: Any, column: Any, word: Any) -> Any:
    x[total] = column
    out[total] = word
    return total + 1


_count, _fill = through(UNIFORM, _one_more), through(UNIFORM, _next)


@numba.njit(nogil=True)
def _count_rows(plan: Any, logarithms: Any, end: int, counts: Any) -> None:
    """Write how many elements row i has, up to a column, into `counts[i + 1]`."""
    for row in range(counts.shape[0] - 1):
        counts[row + 1] = _count(np.int64(0), plan, logarithms, 0, 0, 0, 0, 0, row, 0, end)


@numba.njit(nogil=True)
def _fill_rows(plan: Any, logarithms: Any, end: int, indptr: Any, columns: Any, words: Any) -> None:
    """Write the columns and the words of weights of these elements."""
    for row in range(indptr.shape[0] - 1):
        _fill(np.int64(indptr[row]), plan, logarithms, 0, 0, columns, 0, words, row, 0, end)
