# SPDX-License-Identifier: Apache-2.0
"""The arrays of a running network, and the tables by which native code finds its part of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..._pages import aligned
from ..plan.plan import Plan, PopulationPlan, SynapsePlan, part_bounds
from ..rule.primitives import flush
from ..state import NetworkState
from .layout import DELIVERY, FINITE
from .native import delivery_address
from .updates import PopulationArrays, Updates
from .words import Table, address, lines

__all__ = ["Memory"]

_VECTOR = 16  # numbers of 32 bits in a line of cache

Array = Any


class Memory:
    """States, parameters, sums that are on their way and lists of spikes: allocated once.

    The sums of a receptor are a ring of slots (a power of two), one for each step: those of step t lie in slot
    t & mask. The lists of spikes of a population are kept for even and for odd steps, by part; `lists` has a line for
    each part, with address and count of both.
    """

    def __init__(self, plan: Plan):
        self.plan, self.step = plan, 0
        self.torn = False  # whether a run broke off within a step
        self._fresh = True  # whether no step ran since states were given: they may have denormals
        self.rows = {place: plan.rows(*place) for place in plan.receptors()}
        self.arrays = {p.name: _arrays(plan, p) for p in plan.populations}
        self.lists = {name: _lists(arrays) for name, arrays in self.arrays.items()}
        self.updates = {p.name: Updates(p, self.arrays[p.name]) for p in plan.populations}
        self._entries: list[tuple[Array, ...]] = []  # of synapses, as native code reads them
        self.deliveries = [(delivery_address(s), self._deliveries(s)) for s in plan.synapses if s.targets.size]
        self.finite = [self._float_states(part) if plan.check_finite else [] for part in range(plan.parts)]

    @property
    def neurons(self) -> dict[str, dict[str, Array]]:
        """The states themselves, by population."""
        return {name: dict(arrays.states) for name, arrays in self.arrays.items()}

    @property
    def state(self) -> NetworkState:
        """A copy of the state, in the layout that all engines share."""
        neurons = {name: {key: a.copy() for key, a in arrays.states.items()} for name, arrays in self.arrays.items()}
        arriving = {
            name: {
                receptor: ring[self._slots(name, receptor), : self.plan.population(name).size]
                for receptor, ring in arrays.rings.items()
            }
            for name, arrays in self.arrays.items()
        }
        return NetworkState(np.uint32(self.step), neurons, arriving)

    def load(self, state: NetworkState) -> None:
        """Copy a state into the arrays."""
        self.step, self.torn, self._fresh = int(state.step), False, True
        for name, arrays in self.arrays.items():
            for key, array in arrays.states.items():
                array[...] = state.neurons[name][key]
            for receptor, ring in arrays.rings.items():
                ring[...] = 0
                ring[self._slots(name, receptor), : self.plan.population(name).size] = state.arriving[name][receptor]

    def set(self, population: str, param: str, value: Array) -> None:
        """Copy a parameter into its array."""
        array = self.arrays[population].params[param]
        array[...] = _flushed(np.asarray(value, array.dtype))
        self.updates[population].follow_params()

    def flush(self) -> None:
        """Flush denormals of states that were given, as a rule does with its inputs: it returns none."""
        if self._fresh:
            for arrays in self.arrays.values():
                for array in arrays.states.values():
                    array[...] = _flushed(array)
        self._fresh = False

    def _slots(self, population: str, receptor: str) -> Array:
        ring = self.arrays[population].rings[receptor]
        return (self.step + np.arange(self.rows[population, receptor])) & (len(ring) - 1)

    def _deliveries(self, synapses: SynapsePlan) -> list[Table]:
        """Return the tables of a projection, one for each part."""
        ring = self.arrays[synapses.target].rings[synapses.receptor]
        entries = (
            np.ascontiguousarray(synapses.starts, np.int64),
            np.ascontiguousarray(synapses.targets),
            _wide(synapses.weights, np.int32),
            _wide(synapses.delays, np.uint16),
        )
        self._entries.append(entries)
        words = {
            "parts": self.plan.parts,
            "lists": address(self.lists[synapses.source]),
            "sources": self.plan.population(synapses.source).size,
            **dict(zip(("starts", "targets", "weights", "delays"), map(address, entries), strict=True)),
            "ring": address(ring),
            "row": ring.shape[1],
            "mask": len(ring) - 1,
        }
        return [Table(DELIVERY._fields, words | {"part": part}) for part in range(self.plan.parts)]

    def _float_states(self, part: int) -> list[Table]:
        tables = []
        for arrays in self.arrays.values():
            low, high = arrays.bounds[part : part + 2]
            floats = (array for array in arrays.states.values() if array.dtype == np.float32)
            tables += [Table(FINITE._fields, {"state": address(a) + 4 * low, "size": high - low}) for a in floats]
        return tables


def _arrays(plan: Plan, population: PopulationPlan) -> PopulationArrays:
    bounds = [int(bound) for bound in part_bounds(population.size, plan.parts)]
    slots = {key: 1 << (plan.rows(population.name, key) - 1).bit_length() for key in population.quanta}
    return PopulationArrays(
        {key: _copied(array) for key, array in population.state.items()},
        {key: _copied(_flushed(array)) for key, array in population.params.items()},
        {key: aligned((count, population.size + -population.size % _VECTOR), np.int32) for key, count in slots.items()},
        {key: np.array([quantum], np.float32) for key, quantum in population.quanta.items()},
        # Native code writes one element behind the last spike.
        [(np.empty(high - low + 1, np.int32), np.empty(high - low + 1, np.int32)) for low, high in pairwise(bounds)],
        bounds,
    )


def _lists(arrays: PopulationArrays) -> Array:
    table = lines(len(arrays.spikes))
    for line, (even, odd) in zip(table, arrays.spikes, strict=True):
        line[[0, 2]] = address(even), address(odd)
    return table


def _wide(values: Array, dtype: Any) -> Array:
    """Return the entries of synapses: one that is the same for all has the widest dtype, all others have their own."""
    return values.astype(dtype) if values.size == 1 else np.ascontiguousarray(values)


def _copied(array: Array) -> Array:
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _flushed(value: Array) -> Array:
    array = np.array(value)
    return np.array(flush(array)) if array.dtype == np.float32 else array
