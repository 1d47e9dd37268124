# SPDX-License-Identifier: Apache-2.0
"""`Program`: one step of a network as a function that JAX can loop over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan
from ..state import NetworkState
from .delivery import Delivery, as_ring, emptied, in_order
from .outputs import Outputs
from .quanta import Receptor
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
    dtypes: Mapping[Receptor, str]

    def start(self, state: NetworkState) -> Carry:
        """Return what the first step begins with."""
        neurons = {
            p.name: {key: jnp.asarray(state.neurons[p.name][key], p.state[key].dtype) for key in p.state}
            for p in self.plan.populations
        }
        rings = {(name, r): as_ring(state.arriving[name][r], dtype) for (name, r), dtype in self.dtypes.items()}
        return Carry(jnp.asarray(state.step, np.uint32), neurons, rings, self.outputs.start())

    def step(self, carry: Carry, given: tuple[Array, Mapping[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        """Run one step, given its turn, which is 0 for the first, and the inputs (neurons,) of receptors."""
        turn, inputs = given
        rings, neurons, spikes, sent = dict(carry.rings), {}, {}, {}
        for p in self.plan.populations:
            arriving = {}
            for receptor, quantum in p.quanta.items():
                place = p.name, receptor
                sums, rings[place] = emptied(rings[place], turn)
                arriving[receptor] = sums.astype(quantum.dtype) * quantum + inputs.get(f"{p.name}.{receptor}", 0)
            neurons[p.name], spikes[p.name], sent[p.name] = updated(
                p, carry.neurons[p.name], arriving, self.params[p.name], carry.step, self.keys[p.name], None
            )
        for delivery in self.deliveries:
            s = delivery.synapses
            place = s.target, s.receptor
            rings[place] = delivery.added(rings[place], sent[s.source], self.weights[s.name], turn)
        filled = self.outputs.filled(carry.filled, carry.step, neurons, spikes)
        return Carry(carry.step + np.uint32(1), neurons, rings, filled), self.outputs.row(neurons, spikes)

    def state(self, carry: Carry, turn: Array, like: NetworkState, dtypes: Mapping[Receptor, Any]) -> NetworkState:
        """Return the state before a turn, in the quanta of another: its sums in order of arrival and in some dtypes."""
        arriving = {
            p.name: {r: in_order(carry.rings[p.name, r], turn, dtypes[p.name, r]) for r in p.quanta}
            for p in self.plan.populations
        }
        return NetworkState(carry.step, carry.neurons, arriving, like.quanta)
