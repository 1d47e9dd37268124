# SPDX-License-Identifier: Apache-2.0
"""Delivery of spikes to rings, which hold the pending input of each neuron, a row for each of the next steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...event.functions.csr import binary_csrmv
from ..plan.plan import Plan, SynapsePlan

__all__ = ["Delivery", "as_ring", "deliveries", "emptied", "in_order"]

Array = Any
_INDICES = 2**31  # columns that indices of int32 can name


@dataclass(frozen=True, eq=False)
class Delivery:
    """The synapses of one projection, in the order of the plan.

    `starts` are those of the sources' rows; `delays` are the different delays, ascending; `which` is each synapse's
    place among them. If they are `graded`, spikes are multiplied with their values.
    """

    synapses: SynapsePlan
    sources: int
    neurons: int
    starts: Array
    delays: Array
    which: Array
    graded: bool = False

    def added(self, ring: Array, spikes: Array, weights: Array, turn: Array, *, whole: bool = True) -> Array:
        """Add what spikes (sources,) of a turn send to a ring (rows, neurons), in whose dtype the weights are.

        Products of weights and values become whole numbers of quanta, which have no derivatives, unless not `whole`.
        """
        if self.graded and not whole:
            return self._scatter(ring, spikes, weights, turn)
        if self.graded:
            return self._rounded(ring, spikes, weights, turn)
        if ring.dtype != np.int32 and len(self.delays) * self.neurons < _INDICES:
            return self._product(ring, spikes, weights, turn)
        return self._scatter(ring, spikes, weights, turn)

    def _product(self, ring: Array, spikes: Array, weights: Array, turn: Array) -> Array:
        """Visit only the synapses of neurons that spiked."""
        shape = (self.sources, len(self.delays) * self.neurons)
        columns = self.which * self.neurons + self.synapses.targets.astype(np.int32)
        sums = binary_csrmv(weights, columns, self.starts, spikes, shape=shape, transpose=True)
        rows = (turn + self.delays) % ring.shape[0]
        return ring.at[rows].add(sums.reshape(len(self.delays), self.neurons), unique_indices=True)

    def _scatter(self, ring: Array, spikes: Array, weights: Array, turn: Array) -> Array:
        """Visit all synapses: products of integers, and matrices of 2^31 columns and more, are not offered."""
        return self._scattered(ring, weights * spikes[self._sources].astype(ring.dtype), turn)

    def _rounded(self, ring: Array, values: Array, weights: Array, turn: Array) -> Array:
        """Visit all synapses: each delivers its weight times the value of a spike, a whole number of quanta."""
        amounts = jnp.rint(weights.astype(values.dtype) * values[self._sources])
        return self._scattered(ring, amounts.astype(ring.dtype), turn)

    @property
    def _sources(self) -> Array:
        return np.repeat(np.arange(self.sources), np.diff(self.starts))

    def _scattered(self, ring: Array, amounts: Array, turn: Array) -> Array:
        rows = (turn + self.delays[self.which]) % ring.shape[0]
        return ring.at[rows, self.synapses.targets.astype(np.int32)].add(amounts)


def deliveries(plan: Plan) -> list[Delivery]:
    """Return how each projection that has synapses delivers spikes."""
    return [_delivery(plan, synapses) for synapses in plan.synapses if synapses.targets.size]


def _delivery(plan: Plan, synapses: SynapsePlan) -> Delivery:
    delays, which = np.unique(synapses.delays, return_inverse=True)
    return Delivery(
        synapses,
        plan.population(synapses.source).size,
        plan.population(synapses.target).size,
        synapses.starts[:: plan.parts].astype(np.int32),
        delays.astype(np.int32),
        np.broadcast_to(which, synapses.targets.shape).astype(np.int32),
        plan.population(synapses.source).rule.value,
    )


def emptied(ring: Array, turn: Array) -> tuple[Array, Array]:
    """Return what arrives in a turn, and the ring with that row emptied: it is the row of the largest delay now."""
    row = turn % ring.shape[0]
    return ring[row], ring.at[row].set(0)


def as_ring(sums: Array, dtype: str) -> Array:
    """Return sums (rows, neurons) of a state, in order of arrival, as the ring of turn 0, in a dtype."""
    return jnp.asarray(sums).astype(dtype)


def in_order(ring: Array, turn: Any, dtype: Any) -> Array:
    """Return the sums of a ring before a turn in order of arrival."""
    return jnp.roll(ring, -(turn % ring.shape[0]), axis=0).astype(dtype)
