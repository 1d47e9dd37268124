# SPDX-License-Identifier: Apache-2.0
"""The legs of a run: some steps in native code, one thread for each part, and Python between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ..engine import Stopped, never
from .layout import NOT_FINITE
from .memory import Memory
from .native import drive_function
from .recording import Recording
from .runs import Runs

__all__ = ["LEG_SECONDS", "Legs"]

LEG_SECONDS = 0.05  # of a leg: so long does Ctrl-C wait


class Legs:
    """Runs the steps of a recording; yields each step after which a float state is not finite, if that is checked.

    Before each leg, `stopped` says whether it is the end.
    """

    def __init__(self, memory: Memory, recording: Recording, stopped: Stopped = never):
        self.memory, self.recording, self.stopped = memory, recording, stopped
        self._runs = Runs(memory, recording)

    def __iter__(self) -> Iterator[int]:
        """Run leg by leg; Ctrl-C is held back within a leg, so that it ends with a whole step."""
        turn, leg = 0, 1
        while turn < self.recording.steps and not self.stopped():
            self.recording.make_room()
            began = time.perf_counter()
            with uninterrupted():
                end = min(turn + leg, self.recording.steps, turn + self.memory.steps_left)
                ran = self._leg(turn, end) - turn
                turn += ran
                self.memory.step += ran
                self.memory.settle()
            seconds = max(time.perf_counter() - began, 1e-9)
            leg = max(1, min(int(ran * LEG_SECONDS / seconds), 8 * leg))
            last = self.memory.step - 1
            if np.bitwise_or.reduce(self._runs.stops[:, last & 1]) & NOT_FINITE:
                yield last

    def _leg(self, begin: int, end: int) -> int:
        """Run from one turn to another or to one before it; return to which."""
        tables = self._runs.tables
        for table in tables:
            table["begin"], table["end"] = begin, end
        came = [-1] * len(tables)

        def go(part: int) -> None:
            came[part] = drive_function()(tables[part].address, part)

        others = [
            threading.Thread(target=go, args=(part,), name=f"brainevent part {part}", daemon=True)
            for part in range(1, len(came))
        ]
        try:
            for thread in others:
                thread.start()
            go(0)
        except BaseException:
            self._runs.abort[0, 0] = 1
            self.memory.torn = True
            raise
        finally:
            for thread in others:
                if thread.ident is not None:
                    thread.join()
        return came[0]
