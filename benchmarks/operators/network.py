# SPDX-License-Identifier: Apache-2.0
"""What the networks share: who is connected to whom, a step, and a run.

Of n neurons the first four fifths are excitatory, and the others inhibitory. Each sends its spikes to 80 neurons, drawn
at random: a connection probability of 0.02 among 4000. With more neurons, each still has 80 synapses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

import brainevent

DT = 0.1  # ms, the length of a step
FAN_OUT = 80


def groups(n: int) -> dict[str, slice]:
    """Return the two kinds of neurons."""
    excitatory = n * 4 // 5
    return {"excitatory": slice(0, excitatory), "inhibitory": slice(excitatory, n)}


def connect(n: int, seed: int) -> brainevent.FixedNumPerPre:
    """Return a matrix (n, 2n) in which the targets of inhibitory neurons are n columns further on.

    So one product counts the spikes that reach each neuron, excitatory ones in its first n elements, inhibitory ones in
    the others. What a spike does is the neuron's affair.
    """
    targets = np.random.default_rng(seed).integers(0, n, (n, FAN_OUT), dtype=np.int32)
    targets[groups(n)["inhibitory"]] += n
    return brainevent.FixedNumPerPre((jnp.ones(1), jnp.asarray(targets)), shape=(n, 2 * n))


@dataclass(frozen=True)
class Network:
    """Neurons that are connected in this way.

    `start(key, n)` is the first state of n neurons. `update(*state, arrived)` takes the spikes that arrived, (2n,), and
    returns the next state and who spikes.
    """

    name: str
    start: Callable[..., tuple[jax.Array, ...]]
    update: Callable[..., tuple[jax.Array, ...]]
    weights: Mapping[str, float] = field(hash=False)  # of synapses, as keyword arguments of update

    def step(self, state, i, synapses):
        """Update the neurons, then count the spikes that reach each of them in the next step."""
        *neurons, arrived = state
        *neurons, spikes = self.update(*neurons, arrived, **self.weights)
        return (*neurons, brainevent.BinaryArray(spikes) @ synapses), spikes

    def prepare(self, n: int = 4000, seed: int = 0):
        """Return the first state, in which no spike is on its way, and the synapses."""
        return (*self.start(jax.random.key(seed), n), jnp.zeros(2 * n)), connect(n, seed)

    def simulate(self, n: int = 4000, steps: int = 10_000, seed: int = 0, unroll: int = 1) -> brainevent.Spikes:
        """Return all spikes of so many steps."""
        state, synapses = self.prepare(n, seed)
        return brainevent.record(self.step, state, steps, synapses, dt=DT, unroll=unroll)[1]
