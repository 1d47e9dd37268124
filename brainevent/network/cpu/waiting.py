# SPDX-License-Identifier: Apache-2.0
"""What waits to arrive: `Ring`, sums for later steps, and `SpikeLists`, the spikes of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..pages import aligned, untouched
from ..plan.bundles import SumPlaces
from .tables import LIST, address, lines

__all__ = ["Ring", "SpikeLists", "slots_of"]

Array = Any


def slots_of(steps: int) -> int:
    """Return how many lists of spikes there are for a number of steps, of which the last one is kept."""
    return 1 << (max(steps, 2) - 1).bit_length()


class Ring:
    """Slots of sums, a power of two, each for one step: the sums of step t lie in slot t & mask."""

    def __init__(self, places: SumPlaces, steps: int):
        self.places, self.slots = places, 1 << (max(steps, 1) - 1).bit_length()
        self.parts = [aligned((self.slots, int(size)), np.int32) for size in places.sizes]

    def words(self, part: int) -> dict[str, int]:
        """Return what native code needs to find the sums of a part."""
        ring = self.parts[part]
        return {"ring": address(ring), "row": ring.shape[1], "mask": self.slots - 1}

    def read(self, population: str, receptor: str, step: int, out: Array) -> None:
        """Add the sums of a receptor, from a step on, to an array (steps, neurons)."""
        for slots, own in self._own(population, receptor, step, len(out)):
            out[: slots.size, own[0]] += own[1][slots]

    def write(self, population: str, receptor: str, step: int, rows: Array) -> None:
        """Replace the sums of a receptor, from a step on, by those of an array (steps, neurons)."""
        for slots, own in self._own(population, receptor, step, len(rows)):
            own[1][slots] = rows[: slots.size, own[0]]

    def _own(self, population: str, receptor: str, step: int, rows: int) -> Any:
        slots = (step + np.arange(min(rows, self.slots))) & (self.slots - 1)
        bounds, first = self.places.bounds[population], self.places.first[population, receptor]
        for part, ring in enumerate(self.parts):
            low, high = int(bounds[part]), int(bounds[part + 1])
            yield slots, (slice(low, high), ring[:, int(first[part]) : int(first[part]) + high - low])


class SpikeLists:
    """The lists of one population: each part has one for each step & mask, with room for all its neurons.

    `lines` has a line for each part, which tells native code where its lists are. If spikes have values of a dtype,
    each list has one of these beside it. The last line is that of neurons that no part has, if there are `others`.
    """

    def __init__(self, bounds: Sequence[int], steps: int, valued: str | None = None, others: int | None = None):
        slots = slots_of(steps)
        # Native code writes one element behind the last spike.
        sizes = [high - low for low, high in pairwise(bounds)] + ([] if others is None else [others])
        self.spikes = [untouched((slots, size + 1), np.int32) for size in sizes]
        self.values = [] if valued is None else [untouched(spikes.shape, valued) for spikes in self.spikes]
        self.counts = [aligned((slots,), np.int64) for _ in self.spikes]
        self.lines = lines(len(self.spikes))
        for line, spikes, counts in zip(self.lines, self.spikes, self.counts, strict=True):
            line[LIST.spikes], line[LIST.stride] = address(spikes), spikes.strides[0]
            line[LIST.counts], line[LIST.mask] = address(counts), slots - 1
        for line, values in zip(self.lines, self.values, strict=False):
            line[LIST.values] = address(values)

    def clear(self) -> None:
        """Forget all spikes."""
        for counts in self.counts:
            counts[:] = 0
