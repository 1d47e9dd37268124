# SPDX-License-Identifier: Apache-2.0
"""Load Numba's registries without interruption: Numba loads them once per process, and half would stay missing."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from numba.core.registry import cpu_target

__all__ = ["load_registries", "uninterrupted"]

_LATER = ("numba.core.boxing", "numba.core.runtime.context")  # what Numba imports when it first compiles


def load_registries() -> None:
    """Load all types and functions of Numba, including those added since."""
    with uninterrupted():
        for name in _LATER:
            importlib.import_module(name)
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block: Python handles it only in the main thread."""
    known = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(known):
        yield
        return
    pressed: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, known)
        if pressed:
            known(*pressed[0])
