# SPDX-License-Identifier: Apache-2.0
"""The updates of a population: native code, and a table with addresses for each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..plan.plan import PopulationPlan
from .native import update_address
from .plastic import Kept
from .tables import UPDATE, Table, address, lines
from .update_text import update_of
from .waiting import Ring, SpikeLists

__all__ = ["PopulationArrays", "Updates"]

Array = Any


@dataclass(frozen=True, eq=False)
class PopulationArrays:
    """The arrays of a population that native code reads and writes; none of them moves.

    `quanta` are (1,), by receptor, and `bounds` says where parts begin and end.
    """

    states: Mapping[str, Array]
    params: Mapping[str, Array]
    quanta: Mapping[str, Array]
    bounds: list[int]


class Updates:
    """The native update of a population for the parameters that it has now."""

    def __init__(
        self,
        population: PopulationPlan,
        arrays: PopulationArrays,
        spikes: SpikeLists,
        ring: Ring,
        kept: Kept | None = None,
    ):
        self.population, self.arrays, self.spikes, self.ring, self.kept = population, arrays, spikes, ring, kept
        self.fed: set[str] = set()  # the receptors that get inputs, by their names in the form
        self._prepare()

    def follow_params(self) -> None:
        """Let tables of Poisson numbers, and the code if need be, follow from the parameters."""
        params = self._params()
        if all(one.serves(params) for one in self.update.drawn):
            self._count_anew(params)
        else:
            self._prepare()

    def set_key(self, population: PopulationPlan) -> None:
        """Draw random numbers with the key of another population, which differs in nothing else."""
        self.population = population
        for table in self.tables:
            table["key0"], table["key1"] = population.key

    def follow_ring(self, ring: Ring) -> None:
        """Read sums from another ring."""
        self.ring = ring
        for part, table in enumerate(self.tables):
            table.update(self._sums(part))

    def give(self, inputs: Mapping[tuple[str, str], Array]) -> None:
        """Say where inputs lie: (steps, neurons) or (steps, 1); those must live until others are given."""
        population = self.population
        named = zip(population.quanta, population.rule.arriving, strict=True)
        fed = {name.text: inputs[population.name, key] for key, name in named if (population.name, key) in inputs}
        if fed.keys() != self.fed:
            self.fed = set(fed)
            self._prepare()
        for name, given in fed.items():
            for table in self.tables:
                # Bytes from the number of one neuron to that of the next one.
                item = given.itemsize if given.shape[1] == population.size else 0
                table[f"input:{name}"] = address(given) + item * table["low"]
                table[f"input_row:{name}"] = given.itemsize * given.shape[1]
                table[f"input_item:{name}"] = item

    def _prepare(self) -> None:
        params = self._params()
        self.update = update_of(self.population, params, self.fed, None if self.kept is None else self.kept.needed)
        self.address = update_address(self.update)
        parts = list(pairwise(self.arrays.bounds))
        self._scratch = [lines(self.update.scratch // 64 + 1) for _ in parts]
        self.tables = [self._table(part, *bounds) for part, bounds in enumerate(parts)]
        self._count_anew(params)

    def _params(self) -> dict[str, Array]:
        """Return the parameters by the names of the form."""
        names = (name.text for name in self.population.rule.params)
        return dict(zip(names, self.arrays.params.values(), strict=True))

    def _count_anew(self, params: Mapping[str, Array]) -> None:
        self._counted = [np.ascontiguousarray(one.table(params)) for one in self.update.drawn]
        for place, counted in enumerate(self._counted):
            for table in self.tables:
                table[f"counted:{place}"], table[f"entries:{place}"] = address(counted), counted.size

    def _table(self, part: int, low: int, high: int) -> Table:
        arrays, rule = self.arrays, self.population.rule
        line = address(self.spikes.lines[part])
        head = (high - low, low, line, address(self._scratch[part]), *self.population.key)
        words = dict.fromkeys(self.update.words, 0)
        words |= zip(UPDATE._fields, head, strict=True)
        for state, array in zip(rule.states, arrays.states.values(), strict=True):
            words[f"state:{state.text}"] = address(array) + low * array.itemsize
        words |= self._sums(part)
        for receptor, quantum in zip(rule.arriving, arrays.quanta.values(), strict=True):
            words[f"quantum:{receptor.text}"] = address(quantum)
        for param, array in zip(rule.params, arrays.params.values(), strict=True):
            words[f"param:{param.text}"] = address(array) + (low * array.itemsize if array.ndim else 0)
        if self.kept is not None:
            words |= self.kept.words(part)
        return Table(self.update.words, words)

    def _sums(self, part: int) -> dict[str, int]:
        """Return where the sums of a part lie."""
        words, found = self.ring.words(part), dict[str, int]()
        for receptor, name in zip(self.population.rule.arriving, self.population.quanta, strict=True):
            first = int(self.ring.places.first[self.population.name, name][part])
            own = {"ring": words["ring"] + 4 * first, "row": 4 * words["row"], "mask": words["mask"]}
            found |= {f"{word}:{receptor.text}": value for word, value in own.items()}
        return found
