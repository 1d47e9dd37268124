# SPDX-License-Identifier: Apache-2.0
"""How many threads share a product, and the part of each."""

from __future__ import annotations

from typing import Any

import numba

from ... import config
from ...backends.numba.inner import inner
from .rows import BLOCK, unsigned

__all__ = [
    "IN_THREADS",
    "are_long",
    "are_worth_it",
    "of_events",
    "of_rows",
    "threads_for",
    "threads_for_columns",
]

_MANY = 2**26  # stored elements from which on a product is compiled for threads, which takes seconds
_ENOUGH = 2**18  # if `config` asks for parallel kernels
_WAKING = 100_000  # elements that a thread adds in the time in which two threads start and end
_SUMMING = 2  # elements that it adds in the time in which it clears a sum and adds it up
_LOOKED_AT = 4096  # elements of x from which the number of events is estimated, about
_LONG = 64  # elements of a row, on average, from which on threads may share rows
_FAR_MORE = 16  # elements for each sum and thread, at most,
_TO_CUT = 32  # and one for each of these elements of a row: cutting short rows takes longer

# Only loops over `prange` run in threads.
_ONLY = ("comprehension", "fusion", "inplace_binop", "numpy", "reduction", "setitem", "stencil")
IN_THREADS = {"prange": True, **dict.fromkeys(_ONLY, False)}


def are_worth_it(elements: int) -> bool:
    """Say whether the kernel of a product with this number of stored elements is compiled for threads."""
    return elements >= (_ENOUGH if config.get_numba_parallel() else _MANY)


def are_long(rows: int, elements: int, *, in_order: bool) -> bool:
    """Say whether threads may share each row: rows are long, and their columns ascend."""
    return in_order and elements >= _LONG * max(1, rows)


@inner
def threads_for(elements: int, sums: int) -> int:
    """Return how many threads add elements, each to `sums` sums of its own."""
    return min(numba.get_num_threads(), elements // (_SUMMING * sums + _WAKING))


@inner
def threads_for_columns(elements: int, sums: int, row: int) -> int:
    """Return how many threads share the sums, with rows of `row` elements; 0 if sharing the rows is faster."""
    threads = min(numba.get_num_threads(), elements // _WAKING)
    return threads if elements < min(_FAR_MORE, row // _TO_CUT) * threads * sums else 0


@inner
def of_events(elements: int, x: Any) -> int:
    """Return the approximate number of stored elements in rows where x is not zero, counted for each column of x."""
    flat, active, seen = x.reshape(x.size), 0, 0
    for start in range(0, flat.size, max(BLOCK, flat.size // (_LOOKED_AT // BLOCK))):
        stop = min(start + BLOCK, flat.size)
        for i in range(unsigned(start), unsigned(stop)):  # contiguous, so that many are tested at a time
            active += flat[i] != 0
        seen += stop - start
    return elements * flat.size // max(1, x.shape[0]) * active // max(1, seen)


@inner
def of_rows(rows: int, thread: int, threads: int) -> tuple[int, int]:
    """Return where the rows of a thread begin and end."""
    return rows * thread // threads, rows * (thread + 1) // threads
