# SPDX-License-Identifier: Apache-2.0
"""`Arrays`: states, parameters and sums of a network on a device, and their places in the layout of all engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...scalar.primitives import flushed
from ..plan.plan import Plan, PopulationPlan
from ..state import NetworkState
from .device import Device, held
from .partition import Partition
from .recording import as_dtype
from .structs import common_dtype, population_dtype
from .text import Kind

__all__ = ["Arrays", "Tables", "slots_of"]

Values = Any
Params = Mapping[str, Mapping[str, Values]]


def as_words(values: Values) -> Values:
    """Return values as words of 32 bits."""
    array = np.asarray(values)
    return array.astype(np.uint32) if array.dtype == bool else np.asarray(array, order="C").view(np.uint32)


def slots_of(plan: Plan) -> int:
    """Return for how many steps there are sums: one more than for pending input."""
    return 1 + max((plan.rows(*place) for place in plan.receptors()), default=1)


class Arrays:
    """The memory of neurons: a word for each state and place, and a ring of sums for each block."""

    def __init__(self, device: Device, plan: Plan, partition: Partition, kinds: Sequence[Kind]):
        self.device, self.plan, self.partition = device, plan, partition
        self.slots = slots_of(plan)
        self._shape = partition.blocks, partition.per
        self._all = partition.blocks * partition.per
        words = max(len(kind.population.rule.states) for kind in kinds)
        self.words = words
        self.states = device.memory(4 * words * self._all, "states of neurons")
        self.ring = device.memory(4 * self.slots * partition.cells * partition.blocks, "sums of pending input")

    def read(self, step: int) -> NetworkState:
        """Return the state before a step."""
        words = self.states.download(np.uint32, (self.words, *self._shape))
        sums = self.ring.download(np.int32, self.partition.ring_shape(self.slots))
        sums = self.partition.ring_by_block(sums)
        by_number = [self.partition.by_number(word) for word in words]
        neurons = {
            p.name: {
                key: as_dtype(by_number[k][self.partition.numbers(p.name, p.size)], array.dtype)
                for k, (key, array) in enumerate(p.state.items())
            }
            for p in self.plan.populations
        }
        arriving = {p.name: {r: np.zeros(self._rows(p, r), np.int32) for r in p.quanta} for p in self.plan.populations}
        for ahead, number, populations in self._receptors():
            found = self.partition.by_number(sums[:, (step + ahead) % self.slots, self._cells(number)])
            for p, receptor in populations:
                arriving[p.name][receptor][ahead] = found[self.partition.numbers(p.name, p.size)]
        return NetworkState(np.uint32(step), neurons, arriving, self.plan.quanta)

    def write(self, state: NetworkState) -> None:
        """Go on from a state."""
        blocks, step = self.partition.blocks, int(state.step)
        words = np.zeros((self.words, self._all), np.uint32)
        for k, word in enumerate(words):
            by_number = np.zeros(self._all, np.uint32)
            for p in self.plan.populations:
                for key in list(p.state)[k : k + 1]:
                    numbers = self.partition.numbers(p.name, p.size)
                    by_number[numbers] = as_words(flushed(state.neurons[p.name][key]))
            word[:] = self.partition.by_block(by_number)
        ring = np.zeros(self.partition.ring_shape(self.slots), np.int32)
        sums = self.partition.ring_by_block(ring)
        for ahead, number, populations in self._receptors():
            cells = sums[:, (step + ahead) % self.slots, self._cells(number)]
            by_number = np.zeros(cells.size, np.int32)
            for p, receptor in populations:
                by_number[self.partition.numbers(p.name, p.size)] = state.arriving[p.name][receptor][ahead]
            cells[:] = by_number.reshape(-1, blocks).T
        self.states.upload(words)
        self.ring.upload(ring)

    def _rows(self, population: PopulationPlan, receptor: str) -> tuple[int, int]:
        return self.plan.rows(population.name, receptor), population.size

    def _receptors(self) -> Iterator[tuple[int, int, list[tuple[PopulationPlan, str]]]]:
        """For each receptor by number and each step ahead: populations that may have pending input."""
        for number in range(len(self.partition.reach)):
            having = [(p, list(p.quanta)[number]) for p in self.plan.populations if len(p.quanta) > number]
            for ahead in range(max((self._rows(p, receptor)[0] for p, receptor in having), default=0)):
                yield ahead, number, [(p, r) for p, r in having if self._rows(p, r)[0] > ahead]

    def _cells(self, number: int) -> slice:
        """Return the cells of a receptor in each block."""
        ends = (*self.partition.reach, self.partition.cells)
        return slice(ends[number], ends[number + 1])


class Tables:
    """Parameters on a device, and the table of populations that says where they are."""

    def __init__(
        self, device: Device, plan: Plan, partition: Partition, kinds: Sequence[Kind], numbers: Mapping[str, int]
    ):
        self.device, self.plan, self.partition, self.numbers = device, plan, partition, numbers
        receptors, params = max(kind.receptors for kind in kinds), max(len(kind.scalars) for kind in kinds)
        self._dtype = population_dtype(receptors, params, max(len(kind.drawn) for kind in kinds))
        self._common_dtype = common_dtype(receptors, params)

    def fill(self, params: Params, own: Sequence[Kind]) -> None:
        """Copy all parameters, and the tables of Poisson numbers that follow from them."""
        scalars: list[Any] = [np.uint32(0)]
        arrays: list[Values] = []
        counted: list[Values] = []
        self._table = np.zeros(len(self.plan.populations), self._dtype)
        self._common = np.zeros(len(self.plan.populations), self._common_dtype)
        for row, common, population, kind in zip(self._table, self._common, self.plan.populations, own, strict=True):
            row["begin"], row["size"] = self.partition.begins[population.name], population.size
            row["kind"], (row["key0"], row["key1"]) = self.numbers[population.name], population.key
            row["quantum"][: len(population.quanta)] = list(population.quanta.values())
            values = params[population.name].values()
            for k, value in enumerate(values):
                words = as_words(flushed(value))
                if words.ndim:
                    row["param"][k] = len(arrays)
                    spread = np.zeros(self.partition.blocks * self.partition.per, np.uint32)
                    spread[self.partition.slots(population.name, population.size)] = words
                    arrays.append(spread)
                else:
                    row["param"][k] = len(scalars)
                    common["p"][k] = words[()]
                    scalars.append(words[()])
            named = {n.text: np.asarray(v) for n, v in zip(population.rule.params, values, strict=True)}
            for k, one in enumerate(kind.drawn):
                row["counted"][k] = 4 * sum(table.size for table in counted)
                counted.append(np.append(one.table(named), np.float32(np.inf)))
        self.scalars, self.arrays, self.counted = (
            held(self.device, np.concatenate([*parts, np.zeros(1, dtype)]).astype(dtype), what)
            for parts, dtype, what in (
                ([np.array(scalars)], np.uint32, "parameters"),
                (arrays, np.uint32, "parameters of each neuron"),
                (counted, np.float32, "tables of Poisson numbers"),
            )
        )
        self._table["counted"] += np.uint64(self.counted.address)

    @property
    def nbytes(self) -> int:
        """How much memory the table of populations takes."""
        return self._table.nbytes

    def described(
        self, flags: Mapping[str, int], rates: Mapping[str, int], inputs: Mapping[tuple[str, str], Any]
    ) -> tuple[Values, Values]:
        """Return the table of populations for one run, and what of it is constant during a launch.

        `inputs` are address and width by population and receptor.
        """
        table = self._table.copy()
        for row, population in zip(table, self.plan.populations, strict=True):
            name = population.name
            row["flags"], row["rates"] = flags[name], rates.get(name, 0)
            for k, receptor in enumerate(population.quanta):
                address, width = inputs.get((name, receptor), (0, 0))
                row["input"][k], row["input_row"][k] = address, width
                row["input_item"][k] = width == population.size
        common = self._common.copy()
        for name in ("begin", "size", "flags", "key0", "key1", "quantum"):
            common[name] = table[name]
        return table, common
