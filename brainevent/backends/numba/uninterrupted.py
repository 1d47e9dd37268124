# SPDX-License-Identifier: Apache-2.0
"""Delay signals: what Numba does once per process would stay half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

__all__ = ["uninterrupted"]

# What Python programs handle. Others are rare, and each costs a microsecond in a step of a network.
_SIGNALS = tuple(
    getattr(signal, f"SIG{name}") for name in ("INT", "ALRM", "TERM", "USR1", "USR2", "HUP", "VTALRM", "PROF")
)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, alarms and other signals to the end of the block: Python handles them only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {number: known for number in _SIGNALS if callable(known := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, frame: arrived.append((number, frame)))

    def deliver() -> None:
        with ExitStack() as pending:
            for number, frame in reversed(arrived):
                pending.callback(handlers[number], number, frame)

    try:
        yield
    finally:
        with ExitStack() as pending:  # all handlers are restored and called, also if one raises
            pending.callback(deliver)
            for number, known in handlers.items():
                pending.callback(signal.signal, number, known)
