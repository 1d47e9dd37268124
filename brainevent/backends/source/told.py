# SPDX-License-Identifier: Apache-2.0
"""Compiled libraries report their errors, so that none is lost if XLA aborts the process."""

from __future__ import annotations

import contextlib
import ctypes
import functools

from ...ffi import last_words
from ...ffi.callbacks import native_address

__all__ = ["let_it_tell"]

_CELL = "BE_REPORT"  # the variable of a library with the address of the report function


def let_it_tell(library: ctypes.CDLL) -> ctypes.CDLL:
    """Make a loaded library report its errors."""
    with contextlib.suppress(ValueError):  # it was not built by this package, and has no such variable
        ctypes.c_void_p.in_dll(library, _CELL).value = _address()
    return library


@functools.cache
def _address() -> int:
    return native_address(_report, lambda error: f"an entry point failed: {error!r}", words=3)


def _report(call_frame: int, text: int, code: int) -> int:
    """Make an XLA error from an exception of an entry point."""
    message = ctypes.string_at(text).decode(errors="replace")
    return last_words.make_error(call_frame, message, ctypes.c_int32(code).value)
