# SPDX-License-Identifier: Apache-2.0
"""How many threads share a product, and what each takes."""

from __future__ import annotations

from typing import Any

import numba

from ... import config
from ...backends.numba import inner
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

_MANY = 2**26  # stored elements, from which on a product is compiled for threads, which takes seconds
_ENOUGH = 2**18  # if our kernels are to be parallel
_WAKING = 100_000  # elements that a thread adds in the time in which two are told to, and are waited for
_SUMMING = 2  # elements that it adds in the time in which it clears a sum and adds it up
_LOOKED_AT = 4096  # elements of x from which it is told how many events there are, about
_LONG = 64  # elements of a row, on average, from which on threads may share it
_FAR_MORE = 16  # elements for each sum and thread, at most,
_TO_CUT = 32  # and one for so many elements of a row: to cut short rows takes longer

# Loops that say so run in threads, and nothing else.
_ONLY = ("comprehension", "fusion", "inplace_binop", "numpy", "reduction", "setitem", "stencil")
IN_THREADS = {"prange": True, **dict.fromkeys(_ONLY, False)}


def are_worth_it(elements: int) -> bool:
    """Say whether the kernel of a product with so many stored elements is compiled for threads."""
    return elements >= (_ENOUGH if config.get_numba_parallel() else _MANY)


def are_long(rows: int, elements: int, *, in_order: bool) -> bool:
    """Say whether threads may share each row: those are long, and their columns ascend."""
    return in_order and elements >= _LONG * max(1, rows)


@inner
def threads_for(elements: int, sums: int) -> int:
    """Return how many threads add so many elements, each to so many sums of its own."""
    return min(numba.get_num_threads(), elements // (_SUMMING * sums + _WAKING))


@inner
def threads_for_columns(elements: int, sums: int, row: int) -> int:
    """Return how many threads add elements, each to some of the sums, in rows so long; 0 if rows are better shared."""
    threads = min(numba.get_num_threads(), elements // _WAKING)
    return threads if elements < min(_FAR_MORE, row // _TO_CUT) * threads * sums else 0


@inner
def of_events(elements: int, x: Any) -> int:
    """Return about how many of the stored elements are in rows where x is not zero, once for each of its columns."""
    flat, active, seen = x.reshape(x.size), 0, 0
    for start in range(0, flat.size, max(BLOCK, flat.size // (_LOOKED_AT // BLOCK))):
        stop = min(start + BLOCK, flat.size)
        for i in range(unsigned(start), unsigned(stop)):  # side by side, so that many are looked at a time
            active += flat[i] != 0
        seen += stop - start
    return elements * flat.size // max(1, x.shape[0]) * active // max(1, seen)


@inner
def of_rows(rows: int, thread: int, threads: int) -> tuple[int, int]:
    """Return where the rows of a thread begin and end."""
    return rows * thread // threads, rows * (thread + 1) // threads
