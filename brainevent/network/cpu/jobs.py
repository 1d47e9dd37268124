# SPDX-License-Identifier: Apache-2.0
"""`Job`: a run of a network as tables for native code in a program of JAX, which starts it for any operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..pages import untouched
from ..plan.plan import Plan
from ..plan.threads import threads_for
from ..run.recorded import Wanted
from .image import Image, arrays_of
from .memory import Memory
from .native import drive_alone_address, worker_address
from .plastic_pure import copies
from .recording import Recording
from .runs import Alone, Runs
from .tables import COPY, FLOATS, JOB, POINTER, SHOW, SUMS, ZEROS, Table, address, words_of

__all__ = ["Job"]

Array = Any
_MANY = 2**20  # elements


@dataclass(frozen=True, eq=False)
class _Parts:
    """What a run in one thread consists of, with inputs that are there to be replaced."""

    memory: Memory
    recording: Recording
    runs: Runs
    alone: Alone
    given: dict[tuple[str, str], Array]

    @classmethod
    def of(cls, plan: Plan, steps: int, wanted: Wanted, widths: Mapping[tuple[str, str], int]) -> _Parts:
        """Make all parts of a run, in arrays of their own but for synapses."""
        memory = Memory(plan, watched=False)
        memory.hold(max((plan.rows(*place) for place in plan.receptors()), default=1))
        given = {place: untouched((steps, width), plan.dtype) for place, width in widths.items()}
        memory.give(given)
        recording = Recording(memory, steps, wanted)
        recording.make_room()
        runs = Runs(memory, recording)
        return cls(memory, recording, runs, Alone(runs), given)

    @property
    def arrays(self) -> list[Array]:
        """All arrays that belong to the run, in an order that depends on the plan alone."""
        memory, recording = self.memory, self.recording
        outside = [memory.plan, *memory.plan.populations, memory.shared, recording.out, self.given, recording.wanted]
        return arrays_of([memory, recording, self.runs, self.alone], outside)

    @property
    def blank(self) -> list[Array]:
        """The arrays that are filled before anything reads them."""
        memory, recording = self.memory, self.recording
        neurons = [a for arrays in memory.arrays.values() for a in (*arrays.states.values(), *arrays.params.values())]
        spikes = [array for lists in memory.lists.values() for array in (*lists.spikes, *lists.values)]
        records = [*recording.counts.values(), *recording.rates.values()]
        carried = [a for arrays in memory.arrays.values() for a in (*arrays.coupled.values(), *arrays.shown.values())]
        plastic = [array for one in memory.plastic.values() for array in one.blank]
        kept = [array for one in memory.kept.values() for array in one.blank]
        return [
            *neurons,
            *carried,
            *spikes,
            *plastic,
            *kept,
            *records,
            *(array for some in recording.spikes.values() for array in some),
        ]


class Job:
    """A run of `steps` steps, which records what is wanted.

    Args:
        plan: The network.
        steps: How many steps.
        wanted: What to record.
        widths: Of each input, by population and receptor: how many numbers a step has.
        numbers: The numbers of operands and results, by name: of operands "job", "begin", "keys", "state p.s",
            "param p.k", "sums p.r" and "input p.r", and of results "after p.s", "pending p.r", "spikes p", "counts p",
            "rate p" and "sample label"; and those of plastic synapses, of `plastic_pure`.
    """

    def __init__(
        self,
        plan: Plan,
        steps: int,
        wanted: Wanted,
        widths: Mapping[tuple[str, str], int],
        numbers: Mapping[str, int],
    ):
        self._plan, self._steps, self._wanted, self._numbers = plan, steps, wanted, numbers
        parts, twin = (_Parts.of(plan, steps, wanted, widths) for _ in range(2))
        self._memory, self._recording, self._given = parts.memory, parts.recording, parts.given
        self._alone = parts.alone
        self._image = Image(parts.arrays, twin.arrays, parts.memory.ring.parts, parts.blank)
        memory = parts.memory
        self._lists = {
            "image": self._image.words,
            "moved": self._image.moved,
            "bundled": words_of(
                [w for f, tables in memory.bundles for table in tables for w in (f, self._place(table.address))]
            ),
            "keys": self._keys(),
            "pointers": _rows(POINTER, self._pointers()),
            "copies": _rows(COPY, self._copies()),
            "rings": _rows(SUMS, self._sums()),
            "shown": _rows(SHOW, self._shown()),
            "floats": _rows(FLOATS, self._floats()),
            "zeros": _rows(ZEROS, self._zeros()),
            "caught": words_of(
                [w for one in memory.plastic.values() for f, t in one.catches for w in (f, self._place(t.address))]
            ),
        }
        self.drawn = {name: updates.update.drawn for name, updates in memory.updates.items()}
        self._table = self._described()
        self._alive = memory.shared, memory.bundles
        del self._memory, self._recording, self._alone, self._given

    @property
    def words(self) -> Array:
        """The address of the table, as the first operand of a call."""
        return np.array([self._table.address & 0xFFFF_FFFF, self._table.address >> 32], np.uint32)

    def _place(self, where: int) -> int:
        return self._image.place(where)

    def _described(self) -> Table:
        memory, image, lists = self._memory, self._image, self._lists
        counts = {
            "words": image.words.size,
            "moves": image.moved.size,
            "cleared": image.cleared,
            "bytes": image.nbytes,
            "clock": self._place(address(memory.clock)) // 8,
            "alone": self._place(self._alone.address),
            "drive": drive_alone_address(),
            "worker": worker_address(),
            "threads": threads_for(_MANY),
            "steps": self._steps,
            "ahead": memory.ahead,
            "bundles": memory.plan.parts * len(memory.bundles),
            "populations": len(self._plan.populations),
            "given": len(lists["pointers"]),
            "copied": len(lists["copies"]),
            "ringed": len(lists["rings"]),
            "shows": len(lists["shown"]),
            "floated": len(lists["floats"]),
            "zeroed": len(lists["zeros"]),
            "catches": len(lists["caught"]) // 2,
        }
        return Table(JOB._fields, {**counts, **{name: address(array) for name, array in lists.items()}})

    def _keys(self) -> Array:
        """Return for each population where its list begins, then how long it is; then lists of places of keys."""
        places = [
            [self._image.word(table, "key0") for table in self._memory.updates[p.name].tables]
            for p in self._plan.populations
        ]
        ends = np.cumsum([2 * len(places), *(len(own) for own in places)]).tolist()
        return words_of([*ends[:-1], *(len(own) for own in places), *(place for own in places for place in own)])

    def _pointers(self) -> list[tuple[int, ...]]:
        """Return where native code is to find inputs, and where samples go."""
        rows = list[tuple[int, ...]]()
        for (name, receptor), width in ((place, array.shape[1]) for place, array in self._given.items()):
            updates = self._memory.updates[name]
            named = dict(zip(updates.population.quanta, updates.population.rule.arriving, strict=True))
            item = np.dtype(self._plan.dtype).itemsize if width == updates.population.size else 0
            for table in updates.tables:
                place = self._image.word(table, f"input:{named[receptor].text}")
                rows.append((place, self._numbers[f"input {name}.{receptor}"], item * table["low"]))
        labels = {of: [k for k, one in self._wanted.samples.items() if one.of_synapses == of] for of in (False, True)}
        samples = [*zip(*self._recording.samples, strict=True), *zip(*self._recording.of_synapses, strict=True)]
        for label, tables in zip([*labels[False], *labels[True]], samples, strict=True):
            rows += [(self._image.word(table, "out"), self._numbers[f"sample {label}"], 0) for table in tables]
        return rows

    def _copies(self) -> list[tuple[int, ...]]:
        rows = list[tuple[int, ...]]()
        for name, arrays in self._memory.arrays.items():
            for key, array in arrays.states.items():
                where = self._place(address(array)), array.nbytes
                rows.append((self._numbers[f"state {name}.{key}"], *where, array.dtype == np.float32, 0))
                rows.append((self._numbers[f"after {name}.{key}"], *where, 0, 1))
                for shown in arrays.shown.get(key, ()):  # couplings read one of both in the first step
                    where = self._place(address(shown)), shown.nbytes
                    rows.append((self._numbers[f"state {name}.{key}"], *where, shown.dtype == np.float32, 0))
            for key, array in arrays.params.items():
                where = self._place(address(array)), array.nbytes
                rows.append((self._numbers[f"param {name}.{key}"], *where, array.dtype == np.float32, 0))
        return rows + copies(self._memory, self._numbers, self._place)

    def _sums(self) -> list[tuple[int, ...]]:
        memory, rows = self._memory, list[tuple[int, ...]]()
        for name, receptor in self._plan.receptors():
            size, held = self._plan.population(name).size, self._plan.rows(name, receptor)
            for part, (low, high) in enumerate(pairwise(memory.places.bounds[name].tolist())):
                ring = memory.ring.parts[part]
                first = self._place(address(ring)) + 4 * int(memory.places.first[name, receptor][part])
                where = held, size, low, high, first, ring.shape[1], memory.ring.slots - 1
                rows.append((self._numbers[f"sums {name}.{receptor}"], *where, 0))
                rows.append((self._numbers[f"pending {name}.{receptor}"], *where, 1))
        return rows

    def _shown(self) -> list[tuple[int, ...]]:
        recording, itemsize = self._recording, np.dtype(self._plan.dtype).itemsize
        return [
            (
                self._numbers[f"spikes {name}"],
                self._plan.population(name).size,
                self._place(records[name].address),
                self._place(address(recording.rates[name])) + 4 * part * self._steps,
                itemsize,
            )
            for name in self._wanted.spikes
            for part, records in enumerate(recording.records)
        ]

    def _floats(self) -> list[tuple[int, ...]]:
        recording, itemsize = self._recording, np.dtype(self._plan.dtype).itemsize
        counts, rates = recording.counts, recording.rates
        rows: list[tuple[int, ...]] = [
            (self._numbers[f"counts {name}"], self._place(address(counts[name])), 1, counts[name].size, itemsize)
            for name in self._wanted.counts
        ]
        return rows + [
            (self._numbers[f"rate {name}"], self._place(address(rates[name])), *rates[name].shape, itemsize)
            for name in self._wanted.rates
        ]

    def _zeros(self) -> list[tuple[int, ...]]:
        itemsize = np.dtype(self._plan.dtype).itemsize
        rows = [
            (self._numbers[f"spikes {name}"], itemsize * self._steps * self._plan.population(name).size)
            for name in self._wanted.spikes
        ]
        return rows + [(self._numbers[f"sample {label}"], out.nbytes) for label, out in self._recording.out.items()]


def _rows(fields: Any, rows: Sequence[Sequence[int]]) -> Array:
    """Return rows of a table, (rows, fields)."""
    return np.array(rows, np.int64).reshape(len(rows), len(fields))
