# SPDX-License-Identifier: Apache-2.0
"""`Afar` and `Told`: synapses from neurons of other processes, and the spikes that these processes tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from ..plan.plan import Plan
from .arrays import Arrays
from .device import Device, Memory, cleared, held
from .kernels import Kernels
from .partition import Partition
from .sorter import Numbering, place_synapses
from .spikes import SpikeRoom
from .structs import AFAR, NOBODY, TOLD, filled
from .text import other_text

__all__ = ["HEAD", "Afar", "Told", "afar_text", "neurons_of", "numbering_of"]

HEAD = 2  # words of a message before its spikes: a status, and how many there are
_THREADS, _BLOCKS = 256, 256
_LEAST = 1024  # spikes for which there is room
_SOME = 16  # blocks that write a message, of a number of spikes that is not known

Array = Any
Ranges = Mapping[str, tuple[int, int]]


def afar_text(words: str | None) -> str:
    """Return the text of the kernels."""
    return other_text(["afar.cu"], _THREADS, words)


def neurons_of(plan: Plan) -> int:
    """Return how many neurons a network has."""
    return sum(population.size for population in plan.populations)


def _begins(plan: Plan) -> dict[str, int]:
    """Return where the numbers of each population begin among those of all neurons."""
    sizes = [population.size for population in plan.populations]
    names = [population.name for population in plan.populations]
    return dict(zip(names, accumulate(sizes, initial=0), strict=False))


def numbering_of(plan: Plan, own: Ranges, partition: Partition, *, afar: bool = False) -> Numbering:
    """Return numbers by which synapses that end on own neurons are placed: those between these, or all from `afar`.

    Sources have the numbers of the partition, or those among all neurons.
    """
    begins, blocks, sources, targets = _begins(plan), partition.blocks, {}, {}
    for p in plan.populations:
        low, high = own[p.name]
        here = np.arange(partition.begins[p.name], partition.begins[p.name] + high - low)
        numbers = np.arange(begins[p.name], begins[p.name] + p.size) if afar else np.full(p.size, NOBODY)
        numbers[low:high] = NOBODY if afar else here
        sources[p.name] = numbers.astype(np.uint32)
        targets[p.name] = np.full(p.size, blocks, np.uint32)
        targets[p.name][low:high] = here // blocks * (blocks + 1) + here % blocks
    return Numbering(blocks + 1, sources, targets)


class Afar:
    """The synapses that end on own neurons and begin at those of other processes: a row for each of all neurons.

    Args:
        device: Where they lie.
        plan: The whole network.
        own: The neurons of each population that this process owns.
        partition: Which block has which of these.
    """

    def __init__(self, device: Device, plan: Plan, own: Ranges, partition: Partition):
        whole = replace(partition, pushed=True, sources=neurons_of(plan))
        rows = place_synapses(device, plan, whole, 0, numbering=numbering_of(plan, own, partition, afar=True))
        assert rows.starts is not None
        self._plan, self._partition = plan, partition
        self._synapses, self._starts, self._entry = rows.synapses, rows.starts, rows.entry
        self._kernels = Kernels(device, afar_text(device.words), _THREADS)
        self._about = self._described()
        self._deliver = self._kernels.launcher("deliver_afar", _BLOCKS, self._about)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self._synapses.nbytes + self._starts.nbytes

    def _described(self, **more: Any) -> Any:
        entry, partition = self._entry, self._partition
        return filled(
            AFAR,
            neurons=neurons_of(self._plan),
            blocks=partition.blocks,
            cells=partition.cells,
            pushed=partition.pushed,
            wide=entry.wide,
            cell_shift=entry.cell_shift,
            cell_mask=(1 << entry.cell_bits) - 1,
            delay_shift=entry.delay_shift,
            weight_shift=0 if entry.wide else 32 - entry.weight_bits,
            starts=self._starts.address,
            synapses=self._synapses.address,
            **more,
        )

    def deliver(self, arrays: Arrays, **messages: int) -> None:
        """Add the spikes of messages to the sums of arrays, unless a process has failed or spikes had no room."""
        about = self._about
        about["slots"], about["bytes"], about["sums"] = arrays.slots, bool(arrays.falling), arrays.ring.address
        for name, value in messages.items():
            about[name] = value
        self._deliver()

    def least_delays(self) -> list[int]:
        """Return for each projection at most the least delay of its synapses here; 0 if it has none.

        The least one of all projections is exact.
        """
        found = cleared(self._kernels.device, 16, "the least delay")
        self._kernels.launch("least_afar", _BLOCKS, self._described(least=found.address))
        least = ~int(found.download(np.uint32, 1)[0]) % 2**32
        begins = {**_begins(self._plan), "": neurons_of(self._plan)}
        edges = [int(self._starts.download(np.uint32, 1, 4 * begin)[0]) for begin in begins.values()]
        has = {name: edges[k] < edges[k + 1] for k, name in enumerate([*begins][:-1])}
        return [max(p.delays[0], least) if p.entries and has[p.source] else 0 for p in self._plan.projections]


class Told:
    """The spikes of own neurons since the last exchange, of which other processes are told.

    Nothing is launched in vain if the word `halted` is not 0. If spikes have `values`, each launch has one step, and is
    listed before the next one.

    Attributes:
        size: How many words of a message a spike has.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        own: Ranges,
        partition: Partition,
        populations: tuple[str, ...],
        halted: Memory,
        values: Memory | None = None,
    ):
        begins, self.size = _begins(plan), 1 if values is None else 2
        ranges = [[partition.begins[p], own[p][1] - own[p][0], begins[p] + own[p][0]] for p in populations]
        self._device, self._here = device, partition.here
        self._ranges = held(device, np.array(ranges, np.uint32).reshape(-1, 3), "populations that are told of")
        about = {"populations": len(populations), "neurons": neurons_of(plan), "ranges": self._ranges.address}
        about |= {"size": self.size, "values": 0 if values is None else values.address}
        self._about = filled(TOLD, blocks=self._here, halted=halted.address, **about)
        self._kernels = Kernels(device, afar_text(device.words), _THREADS)
        self._list = self._kernels.launcher("list_spikes", self._here, self._about)
        self._tell_some = self._kernels.launcher("tell_spikes", _SOME, self._about)
        self._capacity, self._most = 0, 0
        self._lists: list[Memory] = []
        self.make_room(_LEAST)

    def make_room(self, capacity: int) -> None:
        """Take memory for so many spikes; keep those that are listed."""
        if capacity <= self._capacity:
            return
        what = "spikes that other processes are told of"
        lists = [self._device.memory(4 * (1 + self.size * capacity), what) for _ in range(2)]
        for new, old in zip(lists, self._lists or lists, strict=True):
            words = old.download(np.uint32, 1 + self.size * self._capacity) if self._lists else np.zeros(1, np.uint32)
            new.upload(words)
        self._lists, self._capacity = lists, capacity

    def begin(self) -> None:
        """Forget the spikes that were told."""
        self._device.fill_zero(self._lists[0].address, 4)
        self._most = 0

    def turn(self) -> None:
        """Use the other list, which is empty since the last message was written."""
        self._lists.reverse()

    def count(self) -> None:
        """Learn how many spikes are listed."""
        self._most = int(self._lists[0].download(np.uint32, 1)[0])

    def add(self, begin: int, room: SpikeRoom) -> None:
        """Add the spikes of a launch that has ended; the last exchange was before step `begin`."""
        self._most += room.used
        if self._most > self._capacity:
            self.make_room(1 << self._most.bit_length())
        if room.used:
            self.list_spikes(begin, room)

    def list_spikes(self, begin: int, room: SpikeRoom) -> None:
        """Add the spikes of a launch, for which there is room."""
        about = self._about
        about["begin"], about["listed"], about["capacity"] = begin, self._lists[0].address, room.capacity
        about["spikes"], about["ends"], about["most"] = room.address, room.ends.address, self._capacity
        self._list()

    def tell(self, status: int, message: int, room: int, steps: int = 0) -> None:
        """Write a message, at an address, with room for a number of spikes; empty the other list.

        If the launch before did not have so many steps, or a state was not finite after them, the status says so.
        """
        about = self._about
        about["status"], about["message"], about["room"], about["steps"] = status, message, room, steps
        about["listed"], about["other"] = (one.address for one in self._lists)
        if self._most <= _SOME * _THREADS:
            self._tell_some()
        else:
            self._kernels.launch("tell_spikes", min(_BLOCKS, self._most // _THREADS), about)
