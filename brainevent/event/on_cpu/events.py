# SPDX-License-Identifier: Apache-2.0
"""Find events among booleans: a whole block is tested at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import any_of
from .rows import BLOCK, unsigned

__all__ = ["list_events", "next_event", "no_event"]


@inner
def list_events(x: Any, start: int, last: int, places: Any) -> tuple[int, int]:
    """Write where x is true, from start up to last or until `places` is full; return where it stopped, and how many."""
    found, room = 0, places.shape[0] - BLOCK
    while start < last and found <= room:
        stop = start + BLOCK
        if stop <= last:
            if any_of(x, start, 64):
                for eighth in range(start, stop, 8):
                    if any_of(x, eighth, 8):
                        for i in range(unsigned(eighth), unsigned(eighth + 8)):  # without a branch: spikes are random
                            places[unsigned(found)] = i
                            found += x[i]
        else:
            stop = last
            for i in range(unsigned(start), unsigned(stop)):
                places[unsigned(found)] = i
                found += x[i]
        start = stop
    return start, found


@inner
def no_event(x: Any, start: int, stop: int) -> bool:
    """Say whether x has no event from start to stop; a whole block is tested without branches, as vectors."""
    first, found = np.uint64(start), np.uint8(0)
    if stop - start == BLOCK:
        for i in range(BLOCK):
            found |= np.uint8(x[first + np.uint64(i)] != 0)
    else:
        for i in range(stop - start):
            found |= np.uint8(x[first + np.uint64(i)] != 0)
    return found == 0


@inner
def next_event(x: Any, start: int) -> int:
    """Return where the next event is, from start on, or the size of x."""
    size = x.shape[0]
    while start < size:
        stop = min(start + BLOCK - start % BLOCK, size)
        if not no_event(x, start, stop):
            while start < stop:
                if x[unsigned(start)]:
                    return start
                start += 1
        start = stop
    return size
