# SPDX-License-Identifier: Apache-2.0
"""What a kernel records in one run: the memory that it fills, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..pages import aligned
from ..plan.plan import Plan
from ..run.recorded import Recorded, Sample, Wanted
from .arrays import values_of
from .device import Device, Memory, cleared, held
from .partition import Partition
from .plastic import Plastic
from .spikes import STEPS, Listing, SpikeRoom, Spikes
from .structs import COUNTED, FED, RATED, SAMPLE, SYNAPSE_SAMPLE, filled

__all__ = ["Recording", "flags_of"]

_FULL = "memory is full: there is no room for more spikes"
_TEMPORARY = 16 * STEPS  # bytes, for each population and once more
_NO_LIMIT = 2**31  # the room for spikes where none are recorded

Array = Any


class Recording:
    """One run of `steps` steps from step `first` on.

    With `lists_spikes`, spikes are listed on the device even if none are wanted: other processes are told of them.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        partition: Partition,
        spikes: Spikes,
        first: int,
        steps: int,
        wanted: Wanted,
        plastic: Plastic | None = None,
        *,
        lists_spikes: bool = False,
    ):
        self.lists_spikes = lists_spikes or bool(wanted.spikes)  # on the device
        self.device, self.plan, self.partition, self.spikes = device, plan, partition, spikes
        self.first, self.steps, self.wanted = first, steps, wanted
        self.listings = {name: Listing() for name in wanted.spikes}
        slots = partition.blocks * partition.per
        self.counts = cleared(device, 4 * slots if wanted.counts else 0, "numbers of spikes")
        self.rates = {name: cleared(device, 4 * steps, "spikes in each step") for name in wanted.rates}
        of_neurons = {label: sample for label, sample in wanted.samples.items() if not sample.of_synapses}
        self._samples = {label: self._sample(sample) for label, sample in of_neurons.items()}
        self.samples = held(device, np.array([table for table, *_ in self._samples.values()], SAMPLE), "samples")
        self._of_synapses = {
            label: SynapseSamples(device, plastic, sample, first, steps)
            for label, sample in wanted.samples.items()
            if plastic is not None and sample.of_synapses
        }
        tables = [one.table for one in self._of_synapses.values()]
        self.synapse_samples = held(device, np.array(tables, SYNAPSE_SAMPLE), "samples of synapses")
        if self.lists_spikes:
            ending = 3 + plastic.text.lag if plastic else 2  # steps until a launch ends
            spikes.make_room(max(ending * partition.per, 4096))
            spikes.begin()
        if wanted.spikes:
            self._spare: Array | None = np.empty(_TEMPORARY * (1 + len(wanted.spikes)), np.uint8)
        self.full, self._taken = "", 0  # why no more can be recorded; of how many steps spikes were taken
        counted = slots if wanted.counts else 0
        self._whole = {name: aligned((steps,), np.int32) for name in wanted.rates}  # now, since memory may become full
        self._words = {label: aligned((rows, width), np.uint32) for label, (*_, rows, width) in self._samples.items()}
        self._counted = aligned((counted,), np.int32)

    def capacity(self, room: SpikeRoom) -> int:
        """How many spikes of a block there is room for."""
        return room.capacity if self.lists_spikes else _NO_LIMIT

    def has_room(self, step: int, rooms: Iterable[SpikeRoom]) -> bool:
        """Say whether there is room for all spikes of launches that fill these rooms; if not, `full` says so."""
        most = sum(room.capacity for room in rooms) * self.partition.blocks
        try:
            for listing in self.listings.values():
                listing.reserve(most, self._taken / self.steps)
        except MemoryError:
            if step == self.first:
                raise
            self.full = _FULL
        return not self.full

    def take(self, step: int, steps: int, room: SpikeRoom) -> None:
        """Take the spikes of one launch, which ran some steps; if memory is full then, `full` says so."""
        if not self.listings:
            return
        used = {name: one.used for name, one in self.listings.items()}
        try:
            self.spikes.take(self.listings, step, steps, room)
        except MemoryError:  # of numbers that are needed for a moment: the spikes have room
            for name, listing in self.listings.items():
                listing.back_to(used[name])
            self.full, self._spare = _FULL, None
            self.spikes.take(self.listings, step, steps, room)
        self._taken += steps

    def recorded(self, steps: int, counting: Sequence[Recording] | None = None) -> Recorded:
        """Return what was recorded in the given number of steps, with the numbers of spikes of some recordings.

        These are of the same run on several GPUs, by default this one alone; of none, there are no numbers.
        """
        spikes = {name: listing.whole for name, listing in self.listings.items()}
        counts = self._counts((self,) if counting is None else counting)
        for name, memory in self.rates.items():
            memory.fill(self._whole[name])
        rates = {name: rate[:steps] for name, rate in self._whole.items()}
        samples = {
            label: self._of_synapses[label].read(self.first, steps) if one.of_synapses else self._sampled(label, steps)
            for label, one in self.wanted.samples.items()
        }
        return Recorded(self.first, steps, spikes, counts, rates, samples, self.full)

    def _counts(self, recordings: Sequence[Recording]) -> dict[str, Array]:
        """Return the numbers of spikes by population; each recording has those of its own blocks."""
        if not recordings or not self.wanted.counts:
            return {}
        for one in recordings:
            begin, end = (
                k * self.partition.per for k in (one.partition.first, one.partition.first + one.partition.here)
            )
            one.counts.fill(self._counted[begin:end], 4 * begin)
        return {name: self._counted[self._slots(name)] for name in self.wanted.counts}

    def _slots(self, name: str) -> Array:
        kept = self.partition.kept_slots
        if name not in kept:
            kept[name] = self.partition.slots(name, self.plan.population(name).size)
        return kept[name]

    def _sample(self, sample: Sample) -> tuple[Any, Memory, Memory, Array, int, int]:
        """Return table, results, columns by place, the column of each chosen neuron, numbers of rows and columns."""
        rows, population = sample.rows(self.first, self.first + self.steps), self.plan.population(sample.population)
        places, columns, width = self.partition.columns(sample.population, population.size, sample.neurons)
        out = cleared(self.device, 4 * rows * width, f"samples of {sample.population}.{sample.state}")
        of_places = held(self.device, places, "places of samples")
        table = filled(
            SAMPLE,
            population=[p.name for p in self.plan.populations].index(sample.population),
            word=list(population.state).index(sample.state),
            every=sample.every,
            width=width,
            before=sample.before(self.first),
            out=out.address,
            columns=of_places.address,
        )
        return table, out, of_places, columns, rows, width

    def _sampled(self, label: str, steps: int) -> Array:
        _, out, _, columns, _, width = self._samples[label]
        sample = self.wanted.samples[label]
        dtype = self.plan.population(sample.population).state[sample.state].dtype
        ran = sample.rows(self.first, self.first + steps)
        out.fill(words := self._words[label])
        in_order = np.array_equal(columns, np.arange(width))
        return values_of(words[:ran] if in_order else np.ascontiguousarray(words[:ran, columns]), dtype)


class SynapseSamples:
    """A state of chosen plastic synapses in one run: the memory that a kernel fills."""

    def __init__(self, device: Device, plastic: Plastic, sample: Sample, first: int, steps: int):
        self.sample, self._shape = sample, (sample.rows(first, first + steps), sample.neurons.size)
        address, *arrays = plastic.sampled(sample.population, sample.state, sample.neurons)
        what = f"samples of {sample.population}.{sample.state}"
        self._held = [held(device, array, what) for array in arrays]
        self._out = cleared(device, 4 * self._shape[0] * self._shape[1], what)
        starts, places, columns = (memory.address for memory in self._held)
        more = {"values": address, "starts": starts, "synapses": places, "columns": columns, "out": self._out.address}
        how = {"every": sample.every, "before": sample.before(first), "width": self._shape[1]}
        how["projection"], how["state"] = plastic.place_of(sample.population, sample.state)
        self.table = filled(SYNAPSE_SAMPLE, **how, **more)

    def read(self, first: int, steps: int) -> Array:
        """Return the samples of the given number of steps."""
        rows = self.sample.rows(first, first + steps)
        return self._out.download(np.float32, (rows, self._shape[1]))


def flags_of(wanted: Wanted, population: str, spikes: int, *, fed: bool) -> int:
    """Return what is recorded of a population, as bits, of which `spikes` say that spikes are; and if it is `fed`."""
    asked = {spikes: wanted.spikes, COUNTED: wanted.counts, RATED: wanted.rates}
    return sum(flag for flag, names in asked.items() if population in names) | (FED if fed else 0)
