# SPDX-License-Identifier: Apache-2.0
"""What a kernel records in one run: the memory that it fills, and what is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plan.plan import Plan
from ..run.recorded import Recorded, Sample, Wanted
from .device import Device, Memory, cleared, held
from .partition import Partition
from .spikes import Listing, SpikeRoom, Spikes
from .structs import SAMPLE, filled

__all__ = ["FLAGS", "Recording", "as_dtype"]

FLAGS = {"spikes": 1, "counts": 2, "rates": 4, "shown": 8, "fed": 16}  # of a population
_NO_LIMIT = 2**31  # the room for spikes where none are recorded

Array = Any


class Recording:
    """One run of `steps` steps from step `first` on."""

    def __init__(
        self, device: Device, plan: Plan, partition: Partition, spikes: Spikes, first: int, steps: int, wanted: Wanted
    ):
        self.device, self.plan, self.partition, self.spikes = device, plan, partition, spikes
        self.first, self.steps, self.wanted = first, steps, wanted
        self.listings = {name: Listing() for name in wanted.spikes}
        slots = partition.blocks * partition.per
        self.counts = cleared(device, 4 * slots if wanted.counts else 0, "numbers of spikes")
        self.rates = {name: cleared(device, 4 * steps, "spikes in each step") for name in wanted.rates}
        self._samples = {label: self._sample(sample) for label, sample in wanted.samples.items()}
        self.samples = held(device, np.array([table for table, *_ in self._samples.values()], SAMPLE), "samples")
        if wanted.spikes:
            spikes.make_room(max(2 * partition.per, 4096))  # those of two steps at least

    def flags(self, population: str) -> int:
        """Return what is recorded of a population, as bits."""
        asked = {"spikes": self.wanted.spikes, "counts": self.wanted.counts, "rates": self.wanted.rates}
        return sum(FLAGS[kind] for kind, names in asked.items() if population in names)

    def capacity(self, room: SpikeRoom) -> int:
        """How many spikes of a block there is room for."""
        return room.capacity if self.wanted.spikes else _NO_LIMIT

    def take(self, step: int, steps: int, room: SpikeRoom) -> None:
        """Take the spikes of one launch, which ran some steps."""
        if self.listings:
            share = (step + steps - self.first) / self.steps
            self.spikes.take(self.listings, step, steps, room, share)

    def recorded(self, steps: int) -> Recorded:
        """Return what was recorded in the given number of steps."""
        spikes = {name: listing.whole for name, listing in self.listings.items()}
        all_counts = self.counts.download(np.int32, self.counts.nbytes // 4)
        counts = {name: all_counts[self._slots(name)] for name in self.wanted.counts}
        rates = {name: memory.download(np.int32, self.steps)[:steps] for name, memory in self.rates.items()}
        samples = {label: self._sampled(label, steps) for label in self.wanted.samples}
        return Recorded(self.first, steps, spikes, counts, rates, samples)

    def _slots(self, name: str) -> Array:
        return self.partition.slots(name, self.plan.population(name).size)

    def _sample(self, sample: Sample) -> tuple[Any, Memory, Memory, Array, int]:
        """Return table, results, columns by place, the column of each chosen neuron, and the number of rows."""
        rows = sample.rows(self.first, self.first + self.steps)
        chosen, columns = np.unique(sample.neurons, return_inverse=True)
        places = np.full(self.partition.blocks * self.partition.per, -1, np.int32)
        places[self._slots(sample.population)[chosen]] = np.arange(chosen.size)
        out = cleared(self.device, 4 * rows * chosen.size, f"samples of {sample.population}.{sample.state}")
        of_places = held(self.device, places, "places of samples")
        population = self.plan.population(sample.population)
        table = filled(
            SAMPLE,
            population=[p.name for p in self.plan.populations].index(sample.population),
            word=list(population.state).index(sample.state),
            every=sample.every,
            width=chosen.size,
            before=sample.before(self.first),
            out=out.address,
            columns=of_places.address,
        )
        return table, out, of_places, columns.reshape(-1), rows

    def _sampled(self, label: str, steps: int) -> Array:
        _, out, _, columns, rows = self._samples[label]
        sample = self.wanted.samples[label]
        dtype = self.plan.population(sample.population).state[sample.state].dtype
        width = int(columns.max(initial=-1)) + 1
        ran = sample.rows(self.first, self.first + steps)
        words = out.download(np.uint32, (rows, width))[:ran, columns]
        return as_dtype(words, dtype)


def as_dtype(words: Array, dtype: Any) -> Array:
    """Return words of 32 bits as the values that they are."""
    return words != 0 if np.dtype(dtype).kind == "b" else np.ascontiguousarray(words).view(dtype)
