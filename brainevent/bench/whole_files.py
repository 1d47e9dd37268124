# SPDX-License-Identifier: Apache-2.0
"""Write files atomically: readers find the old content or the complete new one."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write data to a file, completely or not at all, also if other threads and processes write to it."""
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        path.write_bytes(data)
        return
    place = os.path.realpath(path)  # the target of a link is replaced, not the link
    new = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(new)
