# SPDX-License-Identifier: Apache-2.0
"""How a long run is cut into chunks, by the time that the last one took, and stopped by Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Pace", "Stop", "stopped_by_ctrl_c"]

_SECONDS = 0.5  # a chunk should take no longer
_FIRST = 16  # steps
_GROWTH = 8  # at most, from one chunk to the next: the first one may have compiled the network
_MOST = 1 << 30
_PATIENCE = 1.0  # seconds in which an engine should have ended its step


class Pace:
    """How many steps the next chunk has: a power of two, as an engine may compile a program for each length."""

    def __init__(self) -> None:
        self.steps = _FIRST

    def took(self, steps: int, seconds: float) -> None:
        """Adapt the length to the time of a chunk; a fast chunk that was shorter than planned is ignored."""
        if not steps:
            return
        wished = steps * _SECONDS / max(seconds, 1e-9)
        if steps < self.steps and wished >= self.steps:
            return
        self.steps = 2 ** math.floor(math.log2(min(max(wished, 1), steps * _GROWTH, _MOST)))


class Stop:
    """Whether a run is to end: Ctrl-C was pressed."""

    pressed = False

    def asked(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self.pressed


@contextmanager
def stopped_by_ctrl_c() -> Iterator[Stop]:
    """Record Ctrl-C, so that the engine ends the run after a whole step.

    If it is pressed again more than a second later, something hangs, and it raises `KeyboardInterrupt`. A handler that
    the program has set itself stays, and threads other than the main one receive no signals.
    """
    stop, first = Stop(), math.inf

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        stop.pressed, first = True, min(first, now)
        if now - first > _PATIENCE:
            signal.default_int_handler(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
