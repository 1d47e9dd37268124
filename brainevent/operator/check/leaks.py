# SPDX-License-Identifier: Apache-2.0
"""The promise about memory that a call allocates: it is released when the call ends."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import time
from collections.abc import Callable
from typing import Any

import jax

from ..compare import Broken, Skipped
from .subject import Subject

__all__ = ["check_released"]

ROUNDS, CALLS, SECONDS = 5, 10, 0.05
LEAST = 256  # bytes a call


def check_released(subject: Subject) -> None:
    """The memory of this process does not grow in every round of calls."""
    used = _used()
    if used is None:
        raise Skipped("this system does not report how much memory is in use")
    compiled, operands = subject.compiled(), subject.operands()

    def call() -> None:
        jax.block_until_ready(compiled(*operands))

    begin = time.perf_counter()
    call()
    calls = max(2, min(CALLS, int(SECONDS / max(time.perf_counter() - begin, 1e-6) / ROUNDS)))
    growth = _least_growth(call, calls, used)
    if growth >= LEAST * calls:
        raise Broken(f"each call leaves {growth // calls:,} bytes that are not released")


def _least_growth(call: Callable[[], Any], calls: int, used: Callable[[], int]) -> int:
    """Return the least growth in a round: other threads allocate at times, a leak grows in all rounds."""
    gc.collect(0)
    sizes = [used()]
    for _ in range(ROUNDS):
        for _ in range(calls):
            call()
        sizes.append(used())
    return min(after - before for before, after in itertools.pairwise(sizes))


class _Info(ctypes.Structure):
    """The result of mallinfo2."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    )


@functools.cache
def _used() -> Callable[[], int] | None:
    """Return a function that gives the bytes which are allocated."""
    try:
        info = ctypes.CDLL(None).mallinfo2
        info.restype = _Info
    except (AttributeError, OSError):
        return None

    def allocated() -> int:
        found = info()
        return int(found.uordblks + found.hblkhd)

    return allocated
