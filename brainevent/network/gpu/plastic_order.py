# SPDX-License-Identifier: Apache-2.0
"""`PlasticOrder`: numbers of plastic synapses on a device, in the order of a `NetworkState`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..pages import aligned
from ..plan.plastic import PlasticPlan
from .device import Device, Memory, held
from .partition import Partition
from .plastic_layout import PlasticLayout, kernels_of
from .structs import DREW, FILLED, ORDERED, PLACED, READ, WRITTEN, filled

__all__ = ["PlasticOrder"]

_MOST_BLOCKS = 2048
_ROOM = 2**28  # bytes in which rows are sorted, about
_AT_ONCE = 2**25  # synapses that are copied at a time, about
_THREADS = 256
Array = Any


class PlasticOrder:
    """Copies weights and states of the synapses of a projection from and to a device, and draws them there.

    Synapses are sorted in each copy: an index would take more memory than weights do.

    Args:
        device: What holds them.
        plastic: The projection.
        partition: The neurons of each block.
        layout: Where synapses lie.
    """

    def __init__(self, device: Device, plastic: PlasticPlan, partition: Partition, layout: PlasticLayout):
        self.device, self.plastic, self.layout = device, plastic, layout
        self._kernels, self._what = kernels_of(device), f"plastic synapses of {plastic.name}, while they are copied,"
        self._longest = int(np.diff(layout.rows).max(initial=0))
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
        self._shared = {
            "blocks": partition.blocks,
            "sources": sources,
            "first_number": partition.begins[plastic.target],
            "target_bits": target_bits,
            "turn_bits": turn_bits,
            "target_bytes": layout.arrays["targets"].itemsize,
            "targets": layout.arrays["targets"].address,
            "which_bytes": which.itemsize if which else 0,
            "which": which.address if which else 0,
            "longest": self._longest,
            "starts": layout.arrays["starts"].address,
            "bases": layout.arrays["bases"].address,
            "rows": self._rows.address,
        }

    def read(self, values: Memory) -> Array:
        """Return numbers in the order of a state: float32 (entries,)."""
        found = aligned((self.plastic.entries,), np.float32)
        for first, last, own in self._parts():
            there = self.device.memory(4 * (own.stop - own.start), self._what)
            self._order(READ, first, last, values=values.address, there=there.address)
            there.fill(found[own])
        return found

    def write(self, values: Memory, given: Array) -> None:
        """Write numbers that are in the order of a state."""
        for first, last, own in self._parts():
            there = held(self.device, np.ascontiguousarray(given[own], np.float32), self._what)
            self._order(WRITTEN, first, last, values=values.address, there=there.address)
            self.device.wait()

    def draw(self, values: Memory, law: Array, key: Array) -> None:
        """Draw a number for each synapse: number k of a state takes word k."""
        how = {"key0": key[0], "key1": key[1], "law": (int(law[0]), *law[1:5], int(law[5]))}
        self._order(DREW, 0, self.plastic.sizes[0], values=values.address, **how)

    def fill(self, values: Memory, number: Array) -> None:
        """Let all have the same value."""
        word = np.float32(number).view(np.uint32)
        one = filled(FILLED, to=values.address, count=self.plastic.entries, word=word)
        self._kernels.launch("fill_words", max(1, min(_MOST_BLOCKS, -(-self.plastic.entries // _THREADS))), one)

    def places(self, synapses: Array) -> Array:
        """Return where chosen synapses lie, which are given by their numbers in a state: int64."""
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
        """Yield some sources at a time, with the numbers of their synapses."""
        rows, first = self.layout.rows, 0
        while first < rows.size - 1:
            last = int(np.searchsorted(rows, rows[first] + _AT_ONCE, side="right")) - 1
            last = min(max(last, first + 1), rows.size - 1)
            yield first, last, slice(int(rows[first]), int(rows[last]))
            first = last

    def _order(self, what: int, first: int, last: int, **more: Any) -> None:
        if not self._longest or not last:
            return
        blocks = max(1, min(last - first, _MOST_BLOCKS, _ROOM // (8 * self._longest)))
        room = self.device.memory(8 * self._longest * blocks, self._what)
        one = filled(ORDERED, what=what, first=first, last=last, room=room.address, **self._shared, **more)
        self._kernels.launch("order_rows", blocks, one)
        self.device.wait()
