# SPDX-License-Identifier: Apache-2.0
"""The arrays of a running network, and the tables by which native code finds its part of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..plan import Plan, PopulationPlan, SynapsePlan, part_bounds
from ..rule.primitives import flush
from ..state import NetworkState
from .layout import DELIVERY, FINITE, UPDATE
from .native import delivery_address, update_address
from .update_text import Update, update_of
from .words import Table, address, lines

__all__ = ["Memory"]

Array = Any


class Memory:
    """States, parameters, sums that are on their way and lists of spikes: allocated once.

    The sums of a receptor are a ring of slots (a power of two), one for each step: those of step t lie in slot
    t & mask. The lists of spikes of a population are kept for even and for odd steps, by part.
    """

    def __init__(self, plan: Plan):
        self.plan, self.step = plan, 0
        self.torn = False  # whether a run broke off within a step
        self.fresh = True  # whether no step ran since states were given: they may have denormals
        self.neurons = {p.name: {key: np.array(a) for key, a in p.state.items()} for p in plan.populations}
        self.params = {p.name: {key: _flushed(a) for key, a in p.params.items()} for p in plan.populations}
        self.quanta = {p.name: {key: np.array(q, np.float32) for key, q in p.quanta.items()} for p in plan.populations}
        self.rows = {place: plan.rows(*place) for place in plan.receptors()}
        self.rings = {
            (name, receptor): np.zeros((1 << (rows - 1).bit_length(), plan.population(name).size), np.int32)
            for (name, receptor), rows in self.rows.items()
        }
        self.bounds = {p.name: [int(bound) for bound in part_bounds(p.size, plan.parts)] for p in plan.populations}
        self.spikes = {name: _SpikeLists(bounds) for name, bounds in self.bounds.items()}
        updates = {p.name: update_of(p) for p in plan.populations}
        most = max(update.scratch for update in updates.values())
        self.scratch = [lines(most // 64 + 1) for _ in range(plan.parts)]
        self.updates = [
            (
                update_address(p, updates[p.name]),
                [self._update_table(p, updates[p.name], part) for part in range(plan.parts)],
            )
            for p in plan.populations
        ]
        self.deliveries = [
            (delivery_address(s), [self._delivery_table(s, part) for part in range(plan.parts)])
            for s in plan.synapses
            if s.targets.size
        ]
        self.finite = [self._finite_tables(part) if plan.check_finite else [] for part in range(plan.parts)]

    @property
    def state(self) -> NetworkState:
        """A copy of the state, in the layout that all engines share."""
        neurons = {name: {key: array.copy() for key, array in states.items()} for name, states in self.neurons.items()}
        arriving: dict[str, dict[str, Array]] = {name: {} for name in neurons}
        for (name, receptor), ring in self.rings.items():
            arriving[name][receptor] = ring[self._slots(name, receptor)]
        return NetworkState(np.uint32(self.step), neurons, arriving)

    def load(self, state: NetworkState) -> None:
        """Copy a state into the arrays."""
        self.step, self.torn, self.fresh = int(state.step), False, True
        for name, states in self.neurons.items():
            for key, array in states.items():
                array[...] = state.neurons[name][key]
        for (name, receptor), ring in self.rings.items():
            ring[...] = 0
            ring[self._slots(name, receptor)] = state.arriving[name][receptor]

    def set(self, population: str, param: str, value: Array) -> None:
        """Copy a parameter into its array."""
        array = self.params[population][param]
        array[...] = _flushed(np.asarray(value, array.dtype))

    def flush(self) -> None:
        """Flush denormals of states, as a rule does with its inputs; it returns none."""
        if self.fresh:
            for array in (array for states in self.neurons.values() for array in states.values()):
                array[...] = _flushed(array)
        self.fresh = False

    def give(self, inputs: Mapping[tuple[str, str], Array]) -> None:
        """Tell the updates where inputs lie: (steps, neurons) or (steps, 1); those must live until others are given."""
        for population, (_, tables) in zip(self.plan.populations, self.updates, strict=True):
            for receptor, name in zip(population.quanta, population.rule.arriving, strict=True):
                given = inputs.get((population.name, receptor))
                for table in tables:
                    table[f"input:{name.text}"] = 0 if given is None else address(given)
                    table[f"input_row:{name.text}"] = 0 if given is None else 4 * given.shape[1]
                    table[f"input_item:{name.text}"] = 0 if given is None or given.shape[1] == 1 else 4

    def _slots(self, population: str, receptor: str) -> Array:
        ring = self.rings[population, receptor]
        return (self.step + np.arange(self.rows[population, receptor])) & (len(ring) - 1)

    def _update_table(self, population: PopulationPlan, update: Update, part: int) -> Table:
        name, rule = population.name, population.rule
        low, high = self.bounds[name][part : part + 2]
        even, odd = self.spikes[name].lists[part]
        head = (high - low, low, address(even), address(odd), address(self.scratch[part]), *population.key)
        words = dict(zip(UPDATE._fields, head, strict=True))
        for state, array in zip(rule.states, self.neurons[name].values(), strict=True):
            words[f"state:{state.text}"] = address(array) + low * array.itemsize
        for receptor, quantum in zip(rule.arriving, self.quanta[name].items(), strict=True):
            ring = self.rings[name, quantum[0]]
            of_ring = {"ring": address(ring) + 4 * low, "row": 4 * population.size, "mask": len(ring) - 1}
            given = dict.fromkeys(("input", "input_row", "input_item"), 0)
            for word, value in {**of_ring, **given, "quantum": address(quantum[1])}.items():
                words[f"{word}:{receptor.text}"] = value
        for param, array in zip(rule.params, self.params[name].values(), strict=True):
            words[f"param:{param.text}"] = address(array) + (low * array.itemsize if array.ndim else 0)
        return Table(update.words, words)

    def _finite_tables(self, part: int) -> list[Table]:
        tables = []
        for name, states in self.neurons.items():
            low, high = self.bounds[name][part : part + 2]
            for array in states.values():
                if array.dtype == np.float32:
                    tables.append(Table(FINITE._fields, {"state": address(array) + 4 * low, "size": high - low}))
        return tables

    def _delivery_table(self, synapses: SynapsePlan, part: int) -> Table:
        ring = self.rings[synapses.target, synapses.receptor]
        words = {
            "parts": self.plan.parts,
            "part": part,
            "lists": address(self.spikes[synapses.source].table),
            "sources": self.plan.population(synapses.source).size,
            **{key: address(getattr(synapses, key)) for key in ("starts", "targets", "weights", "delays")},
            "ring": address(ring),
            "row": ring.shape[1],
            "mask": len(ring) - 1,
        }
        return Table(DELIVERY._fields, words)


class _SpikeLists:
    """The spikes of a population in one step."""

    def __init__(self, bounds: list[int]):
        # Native code writes one element behind the last spike.
        self.lists = [[np.empty(high - low + 1, np.int32) for _ in range(2)] for low, high in pairwise(bounds)]
        self.table = lines(len(self.lists))  # of each part: address and count for even steps, and for odd ones
        for line, (even, odd) in zip(self.table, self.lists, strict=True):
            line[[0, 2]] = address(even), address(odd)


def _flushed(value: Array) -> Array:
    array = np.array(value)
    return np.array(flush(array)) if array.dtype == np.float32 else array
