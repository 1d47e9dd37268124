# SPDX-License-Identifier: Apache-2.0
"""Pause a thread at an arbitrary point, to show what other threads do to its memory."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["stall_while_running"]

STOPS, PAUSE = 10, 1.2e-3  # signals that make one stop, each of some hundred microseconds; seconds between two stops


def stall_while_running(threads: Sequence[threading.Thread], end: float) -> None:
    """Pause one thread after another, for a millisecond each, up to a time; then wait until all have ended."""
    stop, random = _stopper(), Random(0)
    while stop is not None and time.monotonic() < end:
        running = [thread.native_id for thread in threads if thread.is_alive() and thread.native_id is not None]
        if not running:
            break
        chosen = random.choice(running)
        for _ in range(STOPS):
            stop(chosen)
        time.sleep(PAUSE)
    for thread in threads:
        thread.join()


@functools.cache
def _stopper() -> Callable[[int], None] | None:
    """Return a function that stops a thread of this process, by its native id; None if the system does not support it.

    This uses a signal whose handler is a function of the C library: `usleep`, with the signal's number as the
    microseconds. It stays the handler, because a signal without a handler would end the process.
    """
    try:
        library, number = ctypes.CDLL(None), signal.SIGRTMIN + 20
        library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        kill, usleep = library.tgkill, ctypes.cast(library.usleep, ctypes.c_void_p)
    except (AttributeError, OSError):
        return None
    before = library.signal(number, usleep)
    if before:  # it has a handler already
        library.signal(number, before)
        return None
    return lambda thread: kill(os.getpid(), thread, number)
