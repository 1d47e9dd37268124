# SPDX-License-Identifier: Apache-2.0
"""`Program`: one step of a network as a function that JAX can loop over and differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import RuleError
from ...scalar.margin import as_events, with_margin
from ...scalar.trace import flat_rule
from ..plan.plan import Plan, PopulationPlan
from ..state import NetworkState
from .delivery import Delivery, as_ring, emptied, in_order, shadow_arrives, shadow_sent
from .outputs import Outputs
from .quanta import Receptor

__all__ = ["Carry", "Program", "updated"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Carry:
    """What one step passes to the next: step, states, pending input, and what is recorded."""

    step: Array
    neurons: Tree
    rings: Mapping[Receptor, Array]
    shadows: Mapping[Receptor, Array]
    filled: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Program:
    """A network with the parameters of its neurons, and its weights in quanta.

    Sums, and the weights that they consist of, have the `dtypes` of their receptors.
    """

    plan: Plan
    deliveries: Sequence[Delivery]
    params: Tree
    weights: Mapping[str, Array]
    keys: Mapping[str, Array]
    outputs: Outputs
    surrogate: Callable[[Array], Array] | None
    dtypes: Mapping[Receptor, str]

    def start(self, state: NetworkState) -> Carry:
        """Return what the first step begins with."""
        neurons = {
            p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
            for p in self.plan.populations
        }
        rings = {(name, r): as_ring(state.arriving[name][r], dtype) for (name, r), dtype in self.dtypes.items()}
        shadows = {
            place: jnp.zeros(ring.shape, self.plan.dtype)
            for place, ring in rings.items()
            if ring.dtype == np.int32 and self.surrogate is not None
        }
        return Carry(jnp.asarray(state.step, np.uint32), neurons, rings, shadows, self.outputs.start())

    def step(self, carry: Carry, given: tuple[Array, Mapping[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        """Run one step, given its turn, which is 0 for the first, and the inputs (neurons,) of receptors."""
        turn, inputs = given
        rings, shadows = dict(carry.rings), dict(carry.shadows)
        neurons, spikes = {}, {}
        for p in self.plan.populations:
            arriving = {}
            for receptor, quantum in p.quanta.items():
                place = p.name, receptor
                sums, rings[place] = emptied(rings[place], turn)
                sums = sums.astype(quantum.dtype)
                if place in shadows:
                    shadow, shadows[place] = shadow_arrives(shadows[place], turn)
                    sums = sums + shadow
                arriving[receptor] = sums * quantum + inputs.get(f"{p.name}.{receptor}", 0)
            neurons[p.name], spikes[p.name] = updated(
                p, carry.neurons[p.name], arriving, self.params[p.name], carry.step, self.keys[p.name], self.surrogate
            )
        for delivery in self.deliveries:
            s = delivery.synapses
            place, weights, sent = (s.target, s.receptor), self.weights[s.name], spikes[s.source]
            rings[place] = delivery.added(rings[place], sent, weights, turn)
            if place in shadows:
                shadows[place] = shadow_sent(delivery, shadows[place], sent, weights.astype(self.plan.dtype), turn)
        filled = self.outputs.filled(carry.filled, carry.step, neurons, spikes)
        return Carry(carry.step + np.uint32(1), neurons, rings, shadows, filled), self.outputs.row(neurons, spikes)

    def state(self, carry: Carry, turn: Array, like: NetworkState, dtypes: Mapping[Receptor, Any]) -> NetworkState:
        """Return the state before a turn, in the quanta of another: its sums in order of arrival and in some dtypes."""
        arriving = {
            p.name: {r: in_order(carry.rings[p.name, r], turn, dtypes[p.name, r]) for r in p.quanta}
            for p in self.plan.populations
        }
        return NetworkState(carry.step, carry.neurons, arriving, like.quanta)


SurrogateLike = Callable[[Array], Array]


def updated(
    population: PopulationPlan,
    states: Mapping[str, Array],
    arriving: Mapping[str, Array],
    params: Mapping[str, Array],
    step: Array,
    key: Array,
    surrogate: SurrogateLike | None,
) -> tuple[dict[str, Array], Array]:
    """Return the states after a step, and the spikes as floats: 1 or 0."""
    arguments = [
        *(states[name] for name in population.state),
        *(arriving[name] for name in population.quanta),
        *(params[name] for name in population.params),
    ]
    if population.rule.random:
        arguments += [jnp.arange(population.size, dtype=np.uint32), step, key[0], key[1]]
    new, spikes, decided = _spiked(population, arguments, surrogate is not None)
    dtype = population.rule.dtype
    floats = spikes.astype(dtype) if surrogate is None or decided is None else as_events(surrogate, spikes, *decided)
    return dict(zip(population.state, new, strict=True)), floats


def _spiked(
    population: PopulationPlan, arguments: list[Array], with_margins: bool
) -> tuple[list[Array], Array, tuple[Array, Array] | None]:
    """Run the rule over all neurons: new states, spikes, and margin and gate if they are asked for and exist."""
    over_neurons = [0 if jnp.ndim(argument) else None for argument in arguments]
    rule = population.rule
    assert rule.function is not None
    flat = flat_rule(rule.function, rule)
    if with_margins:
        try:
            (*new, spikes), *decided = jax.vmap(with_margin(flat), over_neurons, axis_size=population.size)(*arguments)
            return new, spikes, (decided[0].astype(rule.dtype), decided[1])
        except RuleError:  # no comparison decides: spikes are drawn at random, and have no derivative
            pass
    *new, spikes = jax.vmap(flat, over_neurons, axis_size=population.size)(*arguments)
    return new, spikes, None
