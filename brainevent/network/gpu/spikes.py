# SPDX-License-Identifier: Apache-2.0
"""`Spikes`: what blocks recorded of spikes, ordered on the device by population, step and neuron."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..pages import aligned
from ..plan.plan import Plan
from .device import Device, Memory
from .partition import Partition
from .structs import LISTED, filled
from .text import other_text

__all__ = ["STEPS", "Listing", "SpikeRoom", "Spikes", "spikes_text"]

_THREADS = 64
_BLOCKS = 2048
_SPARE = 1.1  # times the spikes that are expected
_GROWTH, _LEAST = 4, 2**27  # of room for spikes: times those so far, and so many more; untouched, it takes no memory
STEPS = 2**16  # of a launch that records spikes, at most
_MOST = 4096  # spikes of a population and step that the device orders

_ORDERING = ("unordered", "ordered", "steps")  # what is held of each spike

Array = Any


@dataclass(eq=False)
class SpikeRoom:
    """What one launch records: where each block ended, and its spikes, of which there is room for `capacity`.

    `used` is how many spikes the last launch listed, when it has ended.
    """

    ends: Memory
    capacity: int = 0
    used: int = 0
    memory: Memory | None = None

    @property
    def address(self) -> int:
        """Where the spikes lie."""
        return self.memory.address if self.memory else 0


class Listing:
    """The spikes of a population: steps and neurons, in arrays that grow."""

    def __init__(self) -> None:
        self._used = 0
        self._arrays: tuple[Array, Array] = np.zeros(0, np.uint32), np.zeros(0, np.int32)

    def reserve(self, number: int, share: float) -> None:
        """Make room for more spikes, when those so far are of `share` of the run; raise `MemoryError` if there is none.

        `number` is what the next launches can have at most, and far more than they will. So there is room for it
        beyond all spikes that the run will have by now: an array that grew at each launch would be copied each time.
        """
        used, needed = self._used, self._used + number
        if needed <= self._arrays[0].size:
            return
        expected = int(used / share * _SPARE) if 0 < share < 1 else used
        room = number + min(expected, _GROWTH * used + _LEAST)  # a run may begin with a burst
        try:
            grown = aligned((room,), np.uint32), aligned((room,), np.int32)
        except MemoryError:  # what is needed now may fit
            grown = aligned((needed,), np.uint32), aligned((needed,), np.int32)
        for new, old in zip(grown, self._arrays, strict=True):
            new[:used] = old[:used]
        self._arrays = grown

    def more(self, number: int) -> tuple[Array, Array]:
        """Return the room for more spikes, which was made before."""
        begin, self._used = self._used, self._used + number
        steps, neurons = (array[begin : self._used] for array in self._arrays)
        return steps, neurons

    @property
    def used(self) -> int:
        """How many spikes there are."""
        return self._used

    def back_to(self, used: int) -> None:
        """Forget all spikes but so many."""
        self._used = used

    @property
    def whole(self) -> tuple[Array, Array]:
        """All of them."""
        steps, neurons = (array[: self._used] for array in self._arrays)
        return steps, neurons


class Spikes:
    """Memory for spikes, by block; it grows, and outlives a run. One of two rooms is read while the other is filled."""

    def __init__(self, device: Device, plan: Plan, partition: Partition):
        self.device, self.plan, self.partition = device.beside(), plan, partition
        self.capacity = 0  # spikes of a block
        self._rooms = [SpikeRoom(device.memory(16 * partition.here, "ends of launches")) for _ in range(2)]
        self._held: dict[str, Memory] = {}
        self._kernels: dict[str, Any] = {}

    def make_room(self, capacity: int) -> None:
        """Make room for the given number of spikes of a block in all rooms that are entered from now on."""
        self.capacity = max(self.capacity, capacity)

    def next_room(self) -> SpikeRoom:
        """Return the room for the next launch, which is not that of the last one."""
        self._rooms.reverse()
        self._enlarge(self._rooms[0])
        return self._rooms[0]

    def begin(self) -> None:
        """Make room in both rooms, of which none is in use."""
        for room in self._rooms:
            self._enlarge(room)

    def _enlarge(self, room: SpikeRoom) -> None:
        """Let a room that is not in use have what was asked for, or what it had if there is no memory."""
        before, asked = room.capacity, self.capacity
        if before >= asked:
            return
        try:
            self._take(room, asked)
        except NetworkError:
            if not before:
                raise
            self.capacity = before  # launches end when it is full, and go on
            self._take(room, before)

    def _take(self, room: SpikeRoom, capacity: int) -> None:
        """Take memory for the given number of spikes of a block."""
        room.memory = None  # given back before more is taken
        room.memory = self.device.memory(8 * capacity * self.partition.here, "spikes that are recorded")
        room.capacity = capacity
        for what, nbytes in self._needed().items():
            self._room(what, nbytes)  # now, since to give memory back waits for what runs

    def _needed(self) -> dict[str, int]:
        groups = 4 * len(self.plan.populations) * STEPS
        return dict.fromkeys(_ORDERING, 4 * self.most) | {"tally": groups, "cursors": groups}

    @property
    def most(self) -> int:
        """How many spikes a room may have."""
        return self.capacity * self.partition.here

    def take(self, into: Mapping[str, Listing], first: int, steps: int, room: SpikeRoom) -> None:
        """Add the spikes of each population in a launch of some steps, for which there is room."""
        names = tuple(into)
        groups = len(names) * steps
        shares = [self.partition.share(name, self.plan.population(name).size) for name in names]
        ranges = np.array([[begin, size] for begin, _, size in shares], np.uint32)
        of_ranges, tally, cursors = (
            self._room(what, nbytes)
            for what, nbytes in (("ranges", ranges.nbytes), ("tally", 4 * groups), ("cursors", 4 * groups))
        )
        of_ranges.upload(ranges)
        tally.clear()
        listed = filled(
            LISTED,
            blocks=self.partition.here,
            capacity=room.capacity,
            populations=len(names),
            steps=steps,
            first=first,
            spikes=room.address,
            ends=room.ends.address,
            ranges=of_ranges.address,
            tally=tally.address,
            cursors=cursors.address,
        )
        self._launch("tally_spikes", listed, self.partition.here)
        counts = tally.download(np.uint32, (len(names), steps))
        total = int(counts.sum(dtype=np.int64))
        if not total:
            return
        flat = counts.reshape(-1)
        cursors.upload(np.cumsum(flat, dtype=np.uint32) - flat)
        unordered, ordered, at = (self._room(what, 4 * total) for what in _ORDERING)
        listed["unordered"], listed["ordered"], listed["at"] = unordered.address, ordered.address, at.address
        self._launch("gather_spikes", listed, self.partition.here)
        self._launch("order_spikes", listed, min(_BLOCKS, groups))
        begin = 0
        for listing, of_steps, (_, first_here, _) in zip(into.values(), counts, shares, strict=True):
            number = int(of_steps.sum(dtype=np.int64))
            when, neurons = listing.more(number)
            at.fill(when, 4 * begin)
            ordered.fill(neurons, 4 * begin)
            _order_bursts(neurons, of_steps)
            if first_here:
                neurons += first_here
            begin += number

    def _launch(self, entry: str, listed: Any, blocks: int) -> None:
        if entry not in self._kernels:
            self._kernels[entry] = self.device.kernel(spikes_text(self.device.words), entry, 0)
        self.device.launch(self._kernels[entry], blocks, _THREADS, 0, [listed.tobytes()], at_once=False)

    def _room(self, what: str, nbytes: int) -> Memory:
        """Return memory that is kept for a purpose, larger than the last one if need be."""
        held = self._held.get(what)
        if held is None or held.nbytes < nbytes:
            self._held.pop(what, None)
            held = self._held[what] = self.device.memory(nbytes, f"{what} of spikes that are recorded")
        return held


def spikes_text(words: str | None) -> str:
    """Return the text of the kernels that order spikes."""
    return other_text(["spikes.cu"], _THREADS, words)


def _order_bursts(neurons: Array, counts: Array) -> None:
    """Order the groups that are too large for the device, in place."""
    ends = np.cumsum(counts, dtype=np.int64)
    for group in np.flatnonzero(counts > _MOST):
        neurons[ends[group] - counts[group] : ends[group]].sort()
