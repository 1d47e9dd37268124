# SPDX-License-Identifier: Apache-2.0
"""Export a compiled library within a program, and load exported libraries."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...ffi.portable import check_environment, environment, pack
from .library import load_library, load_library_file

__all__ = ["carry", "load"]


def carry(library: bytes, symbol: str, device: str) -> np.ndarray:
    """Pack a library and the name of one handler for an exported program."""
    return pack("source", {"symbol": symbol, "device": device, **environment()}, library)


def load(header: dict[str, Any], code: bytes) -> int:
    """Return the address of an exported handler."""
    check_environment(header)
    return ctypes.cast(getattr(_loaded(code), header["symbol"]), ctypes.c_void_p).value or 0


def _loaded(code: bytes) -> ctypes.CDLL:
    """Load a library from memory, or from a file that is removed afterwards."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("brainevent"), "wb") as file:
            file.write(code)
            file.flush()
            return load_library("of an exported program", file.fileno(), "export it again").handle
    with tempfile.TemporaryDirectory(prefix="brainevent-") as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(code)
        return load_library_file(str(path)).handle
