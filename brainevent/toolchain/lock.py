# SPDX-License-Identifier: Apache-2.0
"""Lock a file: one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["locked_file"]


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Wait until no other process or thread holds this file, and hold it.

    Not every filesystem has locks: without them nobody waits.
    """
    import fcntl  # Windows has none

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing is not enough: a forked child may have the same descriptor
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
