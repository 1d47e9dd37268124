# SPDX-License-Identifier: Apache-2.0
"""Arrays in pages of memory that record writes, even if the content is restored."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Any

import jax
import numpy as np

__all__ = ["WatchedArray", "pages_remember"]

_PAGE = mmap.PAGESIZE
_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61  # of an entry in /proc/self/pagemap


class WatchedArray:
    """An array of JAX at the beginning of a page of a private mapping of a file.

    A page belongs to the file until the process writes to it. Then the system gives the process its own copy of the
    page, and keeps it, whatever is written later.
    """

    def __init__(self, x: np.ndarray):
        size = max(x.nbytes, 1)
        file = os.memfd_create("brainevent_check")
        try:
            os.ftruncate(file, size)
            os.pwrite(file, np.ascontiguousarray(x).reshape(-1).view(np.uint8).tobytes(), 0)
            memory = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(file)
        host: np.ndarray = np.frombuffer(memory, np.uint8, x.nbytes).view(x.dtype).reshape(x.shape)
        self._address, self._pages = host.ctypes.data, -(-size // _PAGE)
        self.array: jax.Array = jax.device_put(host)

    @property
    def is_watched(self) -> bool:
        """Whether JAX reads these pages, not a copy of them."""
        return bool(self.array.size) and self.array.unsafe_buffer_pointer() == self._address

    @property
    def was_written(self) -> bool:
        """Whether the array was written to since it was made."""
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(self._address // _PAGE * 8)
            entries = np.frombuffer(file.read(8 * self._pages), np.uint64)
        return any(entry & (_PRESENT | _SWAPPED) and not entry & _OF_FILE for entry in entries.tolist())


@functools.cache
def pages_remember() -> bool:
    """Return whether this system records writes to pages."""
    try:
        trial: Any = WatchedArray(np.zeros(4, np.float32))
        if not trial.is_watched or trial.was_written:
            return False
        np.asarray(trial.array).max()
        only_read = not trial.was_written
        first = ctypes.c_ubyte.from_address(trial._address)
        first.value = first.value
        return only_read and bool(trial.was_written)
    except (OSError, AttributeError, ValueError):
        return False
