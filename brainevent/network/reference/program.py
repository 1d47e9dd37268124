# SPDX-License-Identifier: Apache-2.0
"""`Program`: one step of a network as a function that JAX can loop over and differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..state import NetworkState
from .delivery import Delivery
from .neurons import updated
from .outputs import Outputs
from .ring import as_ring, emptied, in_order

__all__ = ["Carry", "Program"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Carry:
    """What one step passes to the next: step, states, pending input, and what is recorded."""

    step: Array
    neurons: Tree
    rings: Tree
    filled: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Program:
    """A network with its parameters: weights in quanta, in the dtype of the rings."""

    plan: Plan
    deliveries: Sequence[Delivery]
    params: Mapping[str, Any]
    keys: Mapping[str, Array]
    outputs: Outputs
    surrogate: Callable[[Array], Array] | None
    exact_floats: bool

    def start(self, state: NetworkState) -> Carry:
        """Return what the first step begins with."""
        neurons = {
            p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
            for p in self.plan.populations
        }
        rings = {
            p.name: {
                r: as_ring(state.arriving[p.name][r], self.plan.dtype if self.exact_floats else "int32")
                for r in p.quanta
            }
            for p in self.plan.populations
        }
        return Carry(jnp.asarray(state.step, np.uint32), neurons, rings, self.outputs.start())

    def step(self, carry: Carry, given: tuple[Array, Mapping[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        """Run one step, given its turn, which is 0 for the first, and the inputs (neurons,) of receptors."""
        turn, inputs = given
        rings = {name: dict(receptors) for name, receptors in carry.rings.items()}
        neurons, spikes = {}, {}
        for p in self.plan.populations:
            arriving = {}
            for receptor, quantum in p.quanta.items():
                sums, rings[p.name][receptor] = emptied(rings[p.name][receptor], turn)
                arriving[receptor] = sums.astype(quantum.dtype) * quantum + inputs.get(f"{p.name}.{receptor}", 0)
            neurons[p.name], spikes[p.name] = updated(
                p, carry.neurons[p.name], arriving, self.params[p.name], carry.step, self.keys[p.name], self.surrogate
            )
        for delivery in self.deliveries:
            s = delivery.synapses
            ring = rings[s.target][s.receptor]
            rings[s.target][s.receptor] = delivery.added(ring, spikes[s.source], self.params[s.name], turn)
        filled = self.outputs.filled(carry.filled, carry.step, neurons, spikes)
        return Carry(carry.step + np.uint32(1), neurons, rings, filled), self.outputs.row(neurons, spikes)

    def state(self, carry: Carry, turn: Array, like: NetworkState) -> NetworkState:
        """Return the state before a turn, its sums in order of arrival and in the dtypes of another state."""
        arriving = {
            name: {r: in_order(ring, turn, jnp.result_type(like.arriving[name][r])) for r, ring in receptors.items()}
            for name, receptors in carry.rings.items()
        }
        return NetworkState(carry.step, carry.neurons, arriving, like.quanta)
