# SPDX-License-Identifier: Apache-2.0
"""Let Numba load what it loads once in a process without being interrupted: half of it would stay so."""

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
    """Tell Numba's compiler of all types and functions that it knows, also those that were added since."""
    with uninterrupted():
        for name in _LATER:
            importlib.import_module(name)
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block: Python asks for it in the main thread alone."""
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
