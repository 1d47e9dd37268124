# SPDX-License-Identifier: Apache-2.0
"""How a long run is cut into chunks: by what the last one took, and until Ctrl-C is pressed."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Pace", "Stop", "stopped_by_ctrl_c"]

_SECONDS = 0.5  # a chunk should take no longer
_FIRST = 16  # steps
_GROWTH = 8  # at most, from one chunk to the next: the first one may have compiled the network
_MOST = 1 << 30


class Pace:
    """How many steps the next chunk has: a power of two, as an engine may compile a program for each length."""

    def __init__(self) -> None:
        self.steps = _FIRST

    def took(self, steps: int, seconds: float) -> None:
        """Learn from a chunk; one that was shorter than planned says little if it took little."""
        wished = steps * _SECONDS / max(seconds, 1e-9)
        if steps < self.steps and wished >= self.steps:
            return
        self.steps = 2 ** math.floor(math.log2(min(max(wished, 1), steps * _GROWTH, _MOST)))


class Stop:
    """Whether Ctrl-C was pressed."""

    pressed = False


@contextmanager
def stopped_by_ctrl_c() -> Iterator[Stop]:
    """Let the first Ctrl-C be noted, so that no chunk breaks off; the second one raises `KeyboardInterrupt`.

    A handler that the program has set itself stays, and threads other than the main one receive no signals.
    """
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.pressed:
            signal.default_int_handler(number, frame)
        stop.pressed = True

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
