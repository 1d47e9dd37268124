# SPDX-License-Identifier: Apache-2.0
"""Memory for arrays that native code reads and writes at random places."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np

__all__ = ["LINE_BYTES", "aligned", "untouched"]

LINE_BYTES = 64  # of a line of cache

_LARGE = 2**20  # bytes
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)

Array = Any


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros that begin with a line of cache, in pages of 2 MB where they are large and the system has such.

    A vector that crosses lines takes twice as long, and so does an access whose page the processor must look up.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size >= _LARGE and _HUGE_PAGES is not None:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(_HUGE_PAGES)
        return np.frombuffer(memory, dtype).reshape(shape)
    room = np.zeros(size + LINE_BYTES, np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + size].view(dtype).reshape(shape)


def untouched(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros of which the system holds only the pages that something was written to."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _LARGE:
        return aligned(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype).reshape(shape)
