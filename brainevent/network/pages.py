# SPDX-License-Identifier: Apache-2.0
"""Memory for arrays that native code reads and writes at random places."""

from __future__ import annotations

import errno
import itertools
import math
import mmap
from typing import Any

import numpy as np

__all__ = ["LINE_BYTES", "aligned", "untouched"]

LINE_BYTES = 64  # of a line of cache

_LARGE = 2**20  # bytes
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)

# Arrays that one loop runs through begin at different lines of a page: a near cache keeps few of one line.
_PAGE = 4096
_STARTS = itertools.cycle(range(0, _PAGE, LINE_BYTES * 7))

Array = Any


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros that begin with a line of cache, in pages of 2 MB where they are large and the system has such.

    A vector that crosses lines takes twice as long, and so does an access whose page the processor must look up.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size >= _LARGE and _HUGE_PAGES is not None:
        memory = _mapped(size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(_HUGE_PAGES)
        room = np.frombuffer(memory, np.uint8)
    else:
        room = np.zeros(size + LINE_BYTES + _PAGE, np.uint8)
    start = -room.ctypes.data % LINE_BYTES + next(_STARTS)
    return room[start : start + size].view(dtype).reshape(shape)


def untouched(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return zeros of which the system holds only the pages that something was written to."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _LARGE:
        return aligned(shape, dtype)
    return np.frombuffer(_mapped(size), dtype).reshape(shape)


def _mapped(size: int, **how: Any) -> mmap.mmap:
    """Return new memory of the system; raise as NumPy does if there is none."""
    try:
        return mmap.mmap(-1, size, **how)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"Unable to allocate {size} bytes") from None
