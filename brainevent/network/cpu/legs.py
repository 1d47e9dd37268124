# SPDX-License-Identifier: Apache-2.0
"""The legs of a run: some steps in native code, one thread for each part, and Python between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...backends.numba.registries import uninterrupted
from ..engine import Stopped, never
from .layout import NOT_FINITE, RUN
from .memory import Memory
from .native import drive_function
from .recording import Recording
from .words import Table, address, lines, words_of

__all__ = ["Legs"]

Array = Any
_SECONDS = 0.05  # of a leg: so long does Ctrl-C wait


class Legs:
    """Runs the steps of a recording; yields each step after which a float state is not finite, if that is checked.

    Before each leg, `stopped` says whether it is the end.
    """

    def __init__(self, memory: Memory, recording: Recording, stopped: Stopped = never):
        self.memory, self.recording, self.stopped = memory, recording, stopped
        parts = memory.plan.parts
        self._meeting, self._stops, self._abort = lines(parts), lines(parts), lines(1)
        self._alive: list[Array] = []
        self._runs = [self._run_table(part) for part in range(parts)]

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
                self.memory.advance(ran)
            seconds = max(time.perf_counter() - began, 1e-9)
            leg = max(1, min(int(ran * _SECONDS / seconds), 8 * leg))
            last = self.memory.step - 1
            if np.bitwise_or.reduce(self._stops[:, last & 1]) & NOT_FINITE:
                yield last

    def _leg(self, begin: int, end: int) -> int:
        """Run from one turn to another or to one before it; return to which."""
        for run in self._runs:
            run["begin"], run["end"] = begin, end
        came = [-1] * len(self._runs)

        def go(part: int) -> None:
            came[part] = drive_function()(self._runs[part].address, part)

        others = [
            threading.Thread(target=go, args=(part,), name=f"brainevent part {part}", daemon=True)
            for part in range(1, len(came))
        ]
        try:
            for thread in others:
                thread.start()
            go(0)
        except BaseException:
            self._abort[0, 0] = 1
            self.memory.torn = True
            raise
        finally:
            for thread in others:
                if thread.ident is not None:
                    thread.join()
        return came[0]

    def _run_table(self, part: int) -> Table:
        memory, recording = self.memory, self.recording
        updates = [(update.address, update.tables) for update in memory.updates.values()]
        lists = {
            "updates": [word for f, tables in updates for word in (f, tables[part].address)],
            "deliveries": [word for f, tables in memory.deliveries for word in (f, tables[part].address)],
            "bundled": [word for f, tables in memory.bundles for word in (f, tables[part].address)],
            "records": [record.address for record in recording.records[part].values()],
            "sampled": [table.address for table in recording.samples[part]],
            "finite": [table.address for table in memory.finite[part]],
        }
        words = {
            "parts": memory.plan.parts,
            "first": recording.first,
            "begin": 0,
            "end": 0,
            "meeting": address(self._meeting),
            "abort": address(self._abort),
            "stops": address(self._stops),
            "populations": len(memory.updates),
            "projections": len(memory.deliveries),
            "bundles": len(memory.bundles),
            "samples": len(lists["sampled"]),
            "states": len(lists["finite"]),
            **{key: self._list(values) for key, values in lists.items()},
        }
        return Table(RUN._fields, words)

    def _list(self, values: Sequence[int]) -> int:
        """Return the address of a list of words, which lives as long as this."""
        self._alive.append(words_of(values))
        return address(self._alive[-1])
