# SPDX-License-Identifier: Apache-2.0
"""`Legs`: some steps in native code, one thread for each part, and Python between them; `Runs`: their tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ..engine import Stopped, never
from .memory import Memory
from .native import drive_alone_function, drive_function
from .plastic_text import ARRIVE, FINISH
from .recording import Recording
from .tables import ALONE, FAULTY, NOT_FINITE, RUN, Table, address, lines, words_of

__all__ = ["LEG_SECONDS", "Alone", "Legs", "Runs"]

Array = Any


class Runs:
    """The tables of a run, with what they point to."""

    def __init__(self, memory: Memory, recording: Recording):
        self.memory, self.recording = memory, recording
        parts = memory.plan.parts
        self.meeting, self.stops, self.abort = lines(parts), lines(parts), lines(1)
        self._alive: list[Array] = []
        self._updates = [words_of(self._updated(part)) for part in range(parts)]
        self.tables = [self._table(part) for part in range(parts)]

    def follow_updates(self) -> None:
        """Run the updates that the memory has now."""
        for part, words in enumerate(self._updates):
            words[:] = self._updated(part)

    def _updated(self, part: int) -> list[int]:
        """Return functions and tables of the updates of a part."""
        updates = self.memory.updates.values()
        return [word for update in updates for word in (update.address, update.tables[part].address)]

    def _table(self, part: int) -> Table:
        memory, recording = self.memory, self.recording
        gathered = [*memory.bundles, *memory.couplings, *memory.plastic_calls(ARRIVE)]
        delivered = [*memory.deliveries, *memory.plastic_calls(FINISH)]
        samples = [*recording.samples[part], *recording.of_synapses[part]]
        lists = {
            "deliveries": [word for f, tables in delivered for word in (f, tables[part].address)],
            "bundled": [word for f, tables in gathered for word in (f, tables[part].address)],
            "records": [record.address for record in recording.records[part].values()],
            "sampled": [table.address for table in samples],
            "finite": [table.address for table in memory.finite[part]],
            "faulty": [one.faulty(part) for one in memory.plastic.values()] if memory.watched else [],
        }
        words = {
            "parts": memory.plan.parts,
            "first": recording.first,
            "begin": 0,
            "end": 0,
            "meeting": address(self.meeting),
            "abort": address(self.abort),
            "stops": address(self.stops),
            "populations": len(memory.updates),
            "projections": len(delivered),
            "bundles": len(gathered),
            "samples": len(recording.samples[part]),
            "of_synapses": len(recording.of_synapses[part]),
            "faults": len(lists["faulty"]),
            "states": len(lists["finite"]),
            "updates": address(self._updates[part]),
            **{key: self._list(values) for key, values in lists.items()},
        }
        return Table(RUN._fields, words)

    def _list(self, values: Sequence[int]) -> int:
        """Return the address of a list of words, which lives as long as this."""
        self._alive.append(words_of(values))
        return address(self._alive[-1])


class Alone:
    """A run of all parts in the thread of the caller, whose native code counts the steps.

    Of `inputs`, in the tables of which they are, those that are not finite let nothing run.
    """

    def __init__(self, runs: Runs, inputs: Sequence[Table] = ()):
        self._native, self._alive = drive_alone_function(), (runs, inputs)
        self._lists = [words_of([table.address for table in tables]) for tables in (runs.tables, inputs)]
        lists = dict(zip(("runs", "given"), map(address, self._lists), strict=True))
        words = {"parts": runs.memory.plan.parts, "clock": address(runs.memory.clock), "why": 0, "inputs": len(inputs)}
        self._table = Table(ALONE._fields, words | lists)
        self._why = self._table.view("why")

    @property
    def address(self) -> int:
        """Where the table is."""
        return self._table.address

    @property
    def why(self) -> int:
        """Why the last leg ended: bits."""
        return self._why.item(0)

    def drive(self, begin: int, end: int) -> int:
        """Run from one turn to another or to one before it; return to which, or -1 if an input is not finite."""
        came: int = self._native(self._table.address, begin, end)
        return came


LEG_SECONDS = 0.05  # of a leg: so long does Ctrl-C wait


class Legs:
    """Runs the steps of a recording; yields each step after which a float state is not finite, if that is checked.

    Before each leg, `stopped` says whether it is the end. With `alone`, the thread of the caller runs all parts.
    """

    def __init__(self, memory: Memory, recording: Recording, stopped: Stopped = never, *, alone: bool = False):
        self.memory, self.recording, self.stopped = memory, recording, stopped
        self._runs = Runs(memory, recording)
        self._alone = Alone(self._runs) if alone else None
        self.turn = 0  # steps that ran

    def __iter__(self) -> Iterator[int]:
        """Run all steps."""
        return self.until(self.recording.steps)

    def until(self, turn: int) -> Iterator[int]:
        """Run to a turn, leg by leg; Ctrl-C is held back within a leg, so that it ends with a whole step."""
        leg = self.memory.leg
        while self.turn < turn and not self.stopped():
            self.recording.make_room()
            began = time.perf_counter()
            with uninterrupted():
                end = min(self.turn + leg, turn, self.turn + self.memory.steps_left)
                ran = self._leg(self.turn, end) - self.turn
                self.turn += ran
                self.memory.step = self.recording.first + self.turn
                self.memory.settle()
            seconds = max(time.perf_counter() - began, 1e-9)
            leg = self.memory.leg = max(1, min(int(ran * LEG_SECONDS / seconds), 8 * leg))
            last = self.memory.step - 1
            if self._why(last) & NOT_FINITE:
                yield last

    def _why(self, last: int) -> int:
        """Return why the last step, of a number, ended a leg."""
        if self._alone is not None:
            return self._alone.why
        return int(np.bitwise_or.reduce(self._runs.stops[:, [last & 1, FAULTY + (last & 1)]], None))

    def _leg(self, begin: int, end: int) -> int:
        """Run from one turn to another or to one before it; return to which."""
        if self._alone is not None:
            return self._alone.drive(begin, end)
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
