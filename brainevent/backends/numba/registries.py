# SPDX-License-Identifier: Apache-2.0
"""Load Numba's registries without interruption: Numba loads them once per process, and half would stay missing."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from numba.core.registry import cpu_target

__all__ = ["load_registries", "uninterrupted"]

# What Python programs handle. Others are rare, and each costs a microsecond in a step of a network.
_SIGNALS = tuple(
    getattr(signal, f"SIG{name}") for name in ("INT", "ALRM", "TERM", "USR1", "USR2", "HUP", "VTALRM", "PROF")
)
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
