# SPDX-License-Identifier: Apache-2.0
"""How this thread computes with floats: the control register of the processor, through the C library."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["is_known", "watched"]

_BYTES = 64  # at least those of fenv_t
# By processor: where fenv_t of the GNU C library holds the register, its standard value, and the meaning of its bits.
_REGISTERS: dict[str, tuple[int, int, dict[str, int]]] = {
    "x86_64": (28, 0x1F80, {"flushing of denormal numbers": 0x8040, "rounding": 0x6000, "trapped errors": 0x1F80}),
    "aarch64": (0, 0, {"flushing of denormal numbers": 0x1080000, "rounding": 0xC00000, "trapped errors": 0x9F00}),
}


@functools.cache
def _functions() -> tuple[Callable[[Any], int], Callable[[Any], int]] | None:
    """Return the functions that read and set the mode; None where the layout of the mode is not known."""
    if not sys.platform.startswith("linux") or platform.machine() not in _REGISTERS:
        return None
    try:
        library = ctypes.CDLL("libm.so.6")
        return library.fegetenv, library.fesetenv
    except (OSError, AttributeError):
        return None


def is_known() -> bool:
    """Return whether the mode can be read and set on this system."""
    return _functions() is not None


@contextlib.contextmanager
def watched(standard: bool) -> Iterator[list[str]]:
    """List how the mode of this thread changes in this block, which may begin in the standard mode; restore it."""
    changed: list[str] = []
    functions = _functions()
    if functions is None:
        yield changed
        return
    read, write = functions
    place, usual, parts = _REGISTERS[platform.machine()]
    before, after = ctypes.create_string_buffer(_BYTES), ctypes.create_string_buffer(_BYTES)
    read(before)
    register = ctypes.c_uint32.from_buffer(before, place)
    own = register.value
    if standard:
        register.value = usual
        write(before)
    try:
        yield changed
    finally:
        read(after)
        found = ctypes.c_uint32.from_buffer(after, place).value
        changed += [part for part, bits in parts.items() if (found ^ register.value) & bits]
        register.value = own
        write(before)
