# SPDX-License-Identifier: Apache-2.0
"""`Runs`: the tables from which native code knows what to run and record, one for each part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .layout import RUN
from .memory import Memory
from .recording import Recording
from .words import Table, address, lines, words_of

__all__ = ["Runs"]

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
        lists = {
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
            "meeting": address(self.meeting),
            "abort": address(self.abort),
            "stops": address(self.stops),
            "populations": len(memory.updates),
            "projections": len(memory.deliveries),
            "bundles": len(memory.bundles),
            "samples": len(lists["sampled"]),
            "states": len(lists["finite"]),
            "updates": address(self._updates[part]),
            **{key: self._list(values) for key, values in lists.items()},
        }
        return Table(RUN._fields, words)

    def _list(self, values: Sequence[int]) -> int:
        """Return the address of a list of words, which lives as long as this."""
        self._alive.append(words_of(values))
        return address(self._alive[-1])
