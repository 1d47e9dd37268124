# SPDX-License-Identifier: Apache-2.0
"""`PlasticOrder`: numbers of plastic synapses on a device, in the order of a `NetworkState`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..plan.plastic import PlasticPlan
from .device import Device, Memory, held
from .partition import Partition
from .plastic_layout import PlasticLayout, kernels_of
from .several.meeting import Gather, alone
from .structs import DREW, FILLED, HELD, ORDERED, PLACED, READ, WRITTEN, filled

__all__ = ["PlasticOrder"]

_MOST_BLOCKS = 2048
_ROOM = 2**28  # bytes in which rows are sorted, about
_AT_ONCE = 2**25  # synapses that are copied at a time, about
_THREADS = 256
Array = Any


class PlasticOrder:
    """Copies weights and states of the synapses of a projection from and to a device, and draws them there.

    Synapses are sorted in each copy: an index would take more memory than weights do. Of several GPUs, each deals with
    the synapses of some sources, which it reads and writes on all of them. So numbers are given by their addresses, one
    of each GPU.

    Args:
        device: What holds them.
        plastic: The projection.
        partition: The neurons of each block.
        layout: Where synapses lie.
        of_all: What returns the values that each of several GPUs passes at the same time.
    """

    def __init__(
        self,
        device: Device,
        plastic: PlasticPlan,
        partition: Partition,
        layout: PlasticLayout,
        of_all: Gather = alone,
    ):
        self.device, self.plastic, self.layout = device, plastic, layout
        self._kernels = kernels_of(device, several=partition.gpus > 1)
        self._what = f"plastic synapses of {plastic.name}, while they are copied,"
        self._longest = int(np.diff(layout.rows).max(initial=0))
        number, count = partition.first // partition.here, partition.gpus
        ends = np.searchsorted(layout.rows, plastic.entries * np.arange(1, count) // count)
        edges = [0, *map(int, ends), plastic.sizes[0]]
        self._own = edges[number], edges[number + 1]  # sources
        self._rows = held(device, layout.rows.astype(np.uint64), self._what)
        sources, size = plastic.sizes
        target_bits, turn_bits = (max(1, (n - 1).bit_length()) for n in (size, layout.line))
        late = (plastic.distinct.size - 1).bit_length() if layout.which is not None else 0
        if target_bits + turn_bits + late > 64:
            raise NetworkError(
                f"build: {self._what} need {target_bits + turn_bits + late} bits to be put in order, but keys have 64; "
                "pass more blocks= or fewer different delays"
            )
        which = layout.which
        names = ("starts", "bases", "targets", "which")
        own = {name: layout.arrays[name].address for name in names if name in layout.arrays}
        self._held: list[dict[str, int]] = of_all(own)
        self._shared = {
            "blocks": partition.blocks,
            "own_blocks": partition.here,
            "sources": sources,
            "first_number": partition.begins[plastic.target],
            "target_bits": target_bits,
            "turn_bits": turn_bits,
            "target_bytes": layout.arrays["targets"].itemsize,
            "which_bytes": which.itemsize if which else 0,
            "longest": self._longest,
            "rows": self._rows.address,
        }

    def read(self, values: Sequence[int], found: Array) -> None:
        """Read the numbers of this GPU's sources, in the order of a state, into a float32 (entries,)."""
        for first, last, own in self._parts():
            there = self.device.memory(4 * (own.stop - own.start), self._what)
            self._order(READ, first, last, values, there=there.address)
            there.fill(found[own])

    def write(self, values: Sequence[int], given: Array) -> None:
        """Write the numbers of this GPU's sources, of those of all in the order of a state."""
        for first, last, own in self._parts():
            there = held(self.device, np.ascontiguousarray(given[own], np.float32), self._what)
            self._order(WRITTEN, first, last, values, there=there.address)

    def draw(self, values: Sequence[int], law: Array, key: Array) -> None:
        """Draw a number for each synapse of this GPU's sources: number k of a state takes word k."""
        how = {"key0": key[0], "key1": key[1], "law": (int(law[0]), *law[1:5], int(law[5]))}
        self._order(DREW, *self._own, values, **how)

    def fill(self, values: Memory, number: Array) -> None:
        """Let all that this GPU has be the same value."""
        word, entries = np.float32(number).view(np.uint32), self.layout.entries
        one = filled(FILLED, to=values.address, count=entries, word=word)
        self._kernels.launch("fill_words", max(1, min(_MOST_BLOCKS, -(-entries // _THREADS))), one)
        self.device.wait()

    def places(self, synapses: Array) -> Array:
        """Return where chosen synapses lie, which are given by their numbers in a state: int64.

        The number of their GPU begins at bit `GPU_SHIFT`.
        """
        found = np.empty(synapses.size, np.int64)
        sources = np.searchsorted(self.layout.rows, synapses, side="right") - 1
        for source in np.unique(sources):
            begin, end = (int(x) for x in self.layout.rows[source : source + 2])
            there = self.device.memory(8 * (end - begin), self._what)
            self._order(PLACED, source, source + 1, there=there.address)
            own = sources == source
            found[own] = there.download(np.int64, end - begin)[synapses[own] - begin]
        return found

    def _parts(self) -> Iterator[tuple[int, int, slice]]:
        """Yield some of this GPU's sources at a time, with the numbers of their synapses."""
        rows, (first, end) = self.layout.rows, self._own
        while first < end:
            last = int(np.searchsorted(rows, rows[first] + _AT_ONCE, side="right")) - 1
            last = min(max(last, first + 1), end)
            yield first, last, slice(int(rows[first]), int(rows[last]))
            first = last

    def _order(self, what: int, first: int, last: int, values: Sequence[int] = (), **more: Any) -> None:
        if not self._longest or first == last:
            return
        table = np.zeros(len(self._held), HELD)
        for one, own in zip(table, self._held, strict=True):
            for name, address in own.items():
                one[name] = address
        if values:
            table["values"] = values
        there = held(self.device, table, self._what)
        blocks = max(1, min(last - first, _MOST_BLOCKS, _ROOM // (8 * self._longest)))
        room = self.device.memory(8 * self._longest * blocks, self._what)
        one = filled(ORDERED, what=what, first=first, last=last, room=room.address, held=there.address, **self._shared)
        for name, value in more.items():
            one[name] = value
        self._kernels.launch("order_rows", blocks, one)
        self.device.wait()
