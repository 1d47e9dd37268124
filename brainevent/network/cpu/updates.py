# SPDX-License-Identifier: Apache-2.0
"""The updates of a population: native code, and a table for each part that tells it where all lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..plan.plan import PopulationPlan
from .layout import UPDATE
from .native import update_address
from .update_text import update_of
from .words import Table, address, lines

__all__ = ["PopulationArrays", "Updates"]

Array = Any


@dataclass(frozen=True)
class PopulationArrays:
    """The arrays of a population that native code reads and writes; none of them moves.

    `rings` are (slots, neurons) and `quanta` (1,), by receptor; `spikes` has a list for even and one for odd steps of
    each part, and `bounds` says where parts begin and end.
    """

    states: Mapping[str, Array]
    params: Mapping[str, Array]
    rings: Mapping[str, Array]
    quanta: Mapping[str, Array]
    spikes: list[tuple[Array, Array]]
    bounds: list[int]


class Updates:
    """The native update of a population for the parameters that it has now."""

    def __init__(self, population: PopulationPlan, arrays: PopulationArrays):
        self.population, self.arrays = population, arrays
        self.fed: set[str] = set()  # the receptors that get inputs, by their names in the form
        self._prepare()

    def follow_params(self) -> None:
        """Let tables of Poisson numbers, and the code if need be, follow from the parameters."""
        params = self._params()
        if all(one.serves(params) for one in self.update.drawn):
            self._count_anew(params)
        else:
            self._prepare()

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
                item = 4 if given.shape[1] == population.size else 0  # bytes from one neuron's to the next one's
                table[f"input:{name}"] = address(given) + item * table["low"]
                table[f"input_row:{name}"] = 4 * given.shape[1]
                table[f"input_item:{name}"] = item

    def _prepare(self) -> None:
        params = self._params()
        self.update = update_of(self.population, params, self.fed)
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
        even, odd = arrays.spikes[part]
        head = (high - low, low, address(even), address(odd), address(self._scratch[part]), *self.population.key)
        words = dict.fromkeys(self.update.words, 0)
        words |= zip(UPDATE._fields, head, strict=True)
        for state, array in zip(rule.states, arrays.states.values(), strict=True):
            words[f"state:{state.text}"] = address(array) + low * array.itemsize
        for receptor, (name, ring) in zip(rule.arriving, arrays.rings.items(), strict=True):
            of_ring = {"ring": address(ring) + 4 * low, "row": 4 * ring.shape[1], "mask": len(ring) - 1}
            for word, value in {**of_ring, "quantum": address(arrays.quanta[name])}.items():
                words[f"{word}:{receptor.text}"] = value
        for param, array in zip(rule.params, arrays.params.values(), strict=True):
            words[f"param:{param.text}"] = address(array) + (low * array.itemsize if array.ndim else 0)
        return Table(self.update.words, words)
