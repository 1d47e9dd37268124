# SPDX-License-Identifier: Apache-2.0
"""What native code records in one run: the arrays that it fills, those that grow, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from ..run.recorded import Recorded, RecordedStep, Sample, Wanted
from .memory import Memory
from .tables import RECORD, SAMPLE, Table, address

__all__ = ["Recording"]

Array = Any
_LEAST_ROOM = 1024  # spikes
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_LISTING = 8  # words for each spike that listing those of several parts takes


class Recording:
    """The arrays of one run of `steps` steps, for each part its own where parts write at the same time."""

    def __init__(self, memory: Memory, steps: int, wanted: Wanted):
        self.memory, self.first, self.steps, self.wanted = memory, memory.step, steps, wanted
        self.counts = {name: np.zeros(memory.plan.population(name).size, np.int32) for name in wanted.counts}
        per_step = dict.fromkeys((*wanted.rates, *wanted.spikes))
        parts = memory.plan.parts
        self.rates = {name: np.zeros((parts, steps), np.int32) for name in per_step}
        self.spikes = {name: [np.empty(0, np.int32) for _ in range(parts)] for name in wanted.spikes}
        self._listing = 1 if parts == 1 else _LISTING
        self._spare: dict[tuple[str, int], Array] = {}  # memory that is kept free, and taken when spikes are listed
        self.records = [{name: self._record(name, part) for name in memory.arrays} for part in range(parts)]
        self._lists = {
            name: (arrays, [record[name].view("used") for record in self.records])
            for name, arrays in self.spikes.items()
        }
        self.out = {label: self._empty(sample) for label, sample in wanted.samples.items()}
        self._alive: list[Array] = []  # what tables of samples point to
        self.samples, self.of_synapses = (
            [
                [
                    self._sample(one, part, self.out[label])
                    for label, one in wanted.samples.items()
                    if one.of_synapses == of
                ]
                for part in range(parts)
            ]
            for of in (False, True)
        )

    def make_room(self, steps: int = 1) -> None:
        """Let there be room for the spikes of some more steps, and for twice those that are there."""
        for name, arrays in self.spikes.items():
            sizes = (high - low for low, high in pairwise(self.memory.arrays[name].bounds))
            for part, size in enumerate(sizes):
                record = self.records[part][name]
                used = record["used"]
                if arrays[part].size - used < steps * size:
                    larger = np.empty(2 * used + steps * size + _LEAST_ROOM, np.int32)
                    self._spare[name, part] = np.empty(larger.size * self._listing, np.int32)
                    larger[:used] = arrays[part][:used]
                    arrays[part] = larger
                    record["spikes"], record["room"] = address(larger), larger.size

    def recorded(self, steps: int, full: str = "") -> Recorded:
        """Return what was recorded in a number of steps: all of them, or those that ran until memory was `full`."""
        self._spare.clear()
        last = self.first + steps
        samples = {label: self.out[label][: s.rows(self.first, last)] for label, s in self.wanted.samples.items()}
        return Recorded(
            self.first,
            steps,
            {name: self._listed(name, steps) for name in self.wanted.spikes},
            dict(self.counts),
            {name: self.rates[name][:, :steps].sum(0, np.int32) for name in self.wanted.rates},
            samples,
            full,
        )

    def recorded_apart(self, first: int) -> Recorded:
        """Return what all steps of a run from `first` on recorded, in arrays that the next such run does not write."""
        self.first = first
        whole = self.recorded(self.steps)
        counts, samples = ({key: a.copy() for key, a in arrays.items()} for arrays in (whole.counts, whole.samples))
        return replace(whole, counts=counts, samples=samples)

    def of_one_step(self) -> RecordedStep:
        """Return what a run of one step recorded, in arrays that the next such run does not write."""
        return RecordedStep(
            {name: self._neurons(*lists) for name, lists in self._lists.items()},
            {name: counts.copy() for name, counts in self.counts.items()} if self.counts else _NOTHING,
            {name: int(self.rates[name].sum()) for name in self.wanted.rates} if self.wanted.rates else _NOTHING,
            {label: out[0].copy() for label, out in self.out.items()} if self.out else _NOTHING,
        )

    def _neurons(self, arrays: list[Array], used: list[Array]) -> Array:
        """Return the neurons of all spikes of one step."""
        if len(arrays) == 1:
            return arrays[0][: used[0].item()].copy()
        return np.concatenate([array[: one.item()] for array, one in zip(arrays, used, strict=True)])

    def _listed(self, name: str, ran: int) -> tuple[Array, Array]:
        """Return steps and neurons of all spikes: within a step, those of one part after those of the part before."""
        counts = self.rates[name][:, :ran].astype(np.int64)
        steps = np.repeat(np.arange(self.first, self.first + ran).astype(np.uint32), counts.sum(0))
        lists = [array[: record[name]["used"]] for array, record in zip(self.spikes[name], self.records, strict=True)]
        if len(lists) == 1:
            try:
                return steps, lists[0].copy()
            except MemoryError:
                return steps, lists[0]  # with the room behind it
        ends = counts.T.reshape(-1).cumsum().reshape(counts.T.shape).T  # in the result, of each part and step
        neurons = np.empty(steps.size, np.int32)
        for count, end, listed in zip(counts, ends, lists, strict=True):
            neurons[np.arange(listed.size) + np.repeat(end - count.cumsum(), count)] = listed
        return steps, neurons

    def _record(self, name: str, part: int) -> Table:
        low, high = self.memory.arrays[name].bounds[part : part + 2]
        words = dict.fromkeys(RECORD._fields, 0)
        words |= {"list": address(self.memory.lists[name].lines[part]), "low": low, "size": high - low}
        if name in self.counts:
            words["counts"] = address(self.counts[name])
        if name in self.rates:
            words["rates"] = address(self.rates[name][part])
        return Table(RECORD._fields, words)

    def _empty(self, sample: Sample) -> Array:
        rows = -(-self.steps // sample.every)  # at most, whichever step is the first
        return np.empty((rows, sample.neurons.size), sample.dtype(self.memory.plan))

    def _sample(self, sample: Sample, part: int, out: Array) -> Table:
        chosen = targets = sample.neurons
        if sample.of_synapses:
            arrays = self.memory.plastic[sample.population]
            chosen = chosen if isinstance(arrays.order, slice) else arrays.order[chosen]
            targets, state = arrays.targets[chosen], arrays.synapses[sample.state]
            bounds = self.memory.arrays[arrays.plastic.target].bounds
            arrays.keep_up(targets, self.memory.step)
        else:
            neurons_of = self.memory.arrays[sample.population]
            state, bounds = neurons_of.states[sample.state], neurons_of.bounds
        low, high = bounds[part : part + 2]
        places = np.flatnonzero((targets >= low) & (targets < high)).astype(np.int64)
        neurons = chosen[places].astype(np.int64)
        self._alive += [places, neurons]
        words = {
            "every": sample.every,
            "before": sample.before(self.first),
            "itemsize": out.itemsize,
            "chosen": places.size,
            "neurons": address(neurons),
            "places": address(places),
            "state": address(state),
            "out": address(out),
            "row": out.itemsize * out.shape[1],
        }
        return Table(SAMPLE._fields, words)
