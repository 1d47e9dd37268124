# SPDX-License-Identifier: Apache-2.0
"""`Program`: one step of a network as a function that JAX can loop over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..plan.plastic import SPIKE, VALUE
from ..state import NetworkState
from .carried import Carried, brought
from .delivery import Delivery, as_ring, emptied, in_order
from .outputs import Outputs
from .quanta import Receptor
from .synapses import (
    PlasticParts,
    PlasticSynapses,
    events_of,
    past_in_order,
    past_rings,
    plastic_synapses,
    updated_past,
)
from .update import updated

__all__ = ["Carry", "Program"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Carry:
    """What one step passes to the next: step, states, pending input, and what is recorded."""

    step: Array
    neurons: Tree
    rings: Mapping[Receptor, Array]
    filled: Mapping[str, Array]
    plastic: PlasticParts


@dataclass(frozen=True, eq=False)
class Program:
    """A network with the parameters of its neurons, and its weights in quanta.

    Sums, and the weights that they consist of, have the `dtypes` of their receptors. `params` are those of plastic
    projections, too. If `whole`, plastic synapses deliver whole numbers of quanta; spikes then have no derivative.
    `carried` are the couplings, with their weights.
    """

    plan: Plan
    deliveries: Sequence[Delivery]
    params: Tree
    weights: Mapping[str, Array]
    keys: Mapping[str, Array]
    outputs: Outputs
    dtypes: Mapping[Receptor, str]
    surrogate: Callable[[Array], Array] | None = None
    whole: bool = True
    carried: Sequence[tuple[Carried, Array]] = ()

    @cached_property
    def _plastic(self) -> list[PlasticSynapses]:
        return plastic_synapses(self.plan, whole=self.whole)

    def start(self, state: NetworkState) -> Carry:
        """Return what the first step begins with."""
        neurons = {
            p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
            for p in self.plan.populations
        }
        rings = {(name, r): as_ring(state.arriving[name][r], dtype) for (name, r), dtype in self.dtypes.items()}
        synapses, traces = (jax.tree.map(jnp.asarray, tree) for tree in (state.synapses, state.traces))
        plastic = PlasticParts(synapses, traces, past_rings(self.plan, state.past))
        return Carry(jnp.asarray(state.step, np.uint32), neurons, rings, self.outputs.start(), plastic)

    def step(self, carry: Carry, given: tuple[Array, Mapping[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        """Run one step, given its turn, which is 0 for the first, and the inputs (neurons,) of receptors."""
        turn, inputs = given
        rings, neurons, spikes, sent, events = dict(carry.rings), {}, {}, {}, {}
        (plastic, arrived), carried = self._arrived(carry, turn), brought(self.carried, carry.neurons)
        for p in self.plan.populations:
            arriving = {}
            for receptor, quantum in p.quanta.items():
                place = p.name, receptor
                sums, rings[place] = emptied(rings[place], turn)
                amount = sums.astype(quantum.dtype) * quantum
                for more in arrived[place]:
                    amount += more.astype(quantum.dtype) * quantum if self.whole else more
                arriving[receptor] = amount + inputs.get(f"{p.name}.{receptor}", 0)
                if place in carried:
                    arriving[receptor] = arriving[receptor] + carried[place]
            own = carry.neurons[p.name], arriving, self.params[p.name], carry.step, self.keys[p.name]
            neurons[p.name], spikes[p.name], sent[p.name] = updated(p, *own, self.surrogate)
            others = events_of(p, self.plan.other_events[p.name], *own)
            events[p.name] = {SPIKE: spikes[p.name], VALUE: sent[p.name], **others}
        for delivery in self.deliveries:
            s = delivery.synapses
            place = s.target, s.receptor
            ring, weights = rings[place], self.weights[s.name]
            rings[place] = delivery.added(ring, sent[s.source], weights, turn, whole=self.whole)
        plastic = self._finished(plastic, carry.step, turn, rings, neurons, events)
        all_states = {**neurons, **plastic.synapses}
        filled = self.outputs.filled(carry.filled, carry.step, all_states, spikes)
        after = Carry(carry.step + np.uint32(1), neurons, rings, filled, plastic)
        return after, self.outputs.row(all_states, spikes)

    def _arrived(self, carry: Carry, turn: Array) -> tuple[PlasticParts, dict[Receptor, list[Array]]]:
        """Let spikes that reach plastic synapses at the axon act; return what arrives of them, by receptor."""
        parts = replace(carry.plastic, finite=carry.plastic.finite | True)  # it varies over axes as before
        arrived = {place: list[Array]() for place in self.plan.receptors()}
        for one in self._plastic:
            if one.plastic.at_axon:
                name, target = one.plastic.name, one.plastic.target
                post = carry.neurons[target]
                parts, amounts = one.arrived(parts, self.params[name], post, carry.step, turn)
                arrived[target, one.plastic.receptor].append(amounts)
        return parts, arrived

    def _finished(
        self,
        parts: PlasticParts,
        now: Array,
        turn: Array,
        rings: dict[Receptor, Array],
        neurons: Tree,
        events: Tree,
    ) -> PlasticParts:
        """Let all else act on plastic synapses after neurons are updated; add what they send to rings."""
        for one in self._plastic:
            plastic = one.plastic
            params, place = self.params[plastic.name], (plastic.target, plastic.receptor)
            if not plastic.at_axon:
                parts, sums = one.sent(parts, params, neurons, now, events[plastic.source])
                quantum = self.plan.population(plastic.target).quanta[plastic.receptor]
                sums = sums if self.whole else sums / quantum
                rows = (turn + plastic.distinct) % rings[place].shape[0]
                rings[place] = rings[place].at[rows].add(sums.astype(rings[place].dtype), unique_indices=True)
            parts = one.finished(parts, params, neurons[plastic.target], now, turn, events[plastic.target])
        return replace(parts, past=updated_past(parts.past, neurons, events, turn))

    def state(self, carry: Carry, turn: Array, like: NetworkState, dtypes: Mapping[Receptor, Any]) -> NetworkState:
        """Return the state before a turn, in the quanta of another: its sums in order of arrival and in some dtypes."""
        arriving = {
            p.name: {r: in_order(carry.rings[p.name, r], turn, dtypes[p.name, r]) for r in p.quanta}
            for p in self.plan.populations
        }
        past = past_in_order(self.plan, carry.plastic.past, turn)
        plastic = carry.plastic.synapses, carry.plastic.traces, past
        return NetworkState(carry.step, carry.neurons, arriving, like.quanta, *plastic)
