# SPDX-License-Identifier: Apache-2.0
"""Write files in one piece: whoever reads finds what was there before, or all that is new."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Let a file hold the data, whole or not at all, whatever other threads and processes write there."""
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        path.write_bytes(data)
        return
    place = os.path.realpath(path)  # what a link leads to is replaced, not the link
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
