# SPDX-License-Identifier: Apache-2.0
"""Four regimes of one network: excitatory and inhibitory neurons with delta synapses (Brunel 2000).

`python -m examples.networks.brunel --regime C` runs one of them at its full size: 12 500 neurons, 15.6 million
synapses.
"""

from math import exp

import jax.numpy as jnp

import brainevent as be
from examples.networks.report import main

DT = 0.1  # ms
J = 0.1  # mV, what an excitatory spike adds to a potential
IN_DEGREE = 1000  # excitatory synapses of a neuron; it has 250 inhibitory ones
THRESHOLD, TAU = 20.0, 20.0  # mV, ms
REGIMES = {  # strength of inhibition g, external rate eta: 1 is just enough to reach the threshold
    "A": {"g": 3.0, "eta": 2.0},
    "B": {"g": 6.0, "eta": 4.0},
    "C": {"g": 5.0, "eta": 2.0},
    "D": {"g": 4.5, "eta": 0.9},
}
PARAMS = {"threshold": THRESHOLD, "reset": 10.0, "refractory": round(2 / DT), "keep_v": exp(-DT / TAU), "jump": J}


def neuron(s, arriving, p, random):
    """Leak, and add the spikes that arrive from the network and, at random, from outside."""
    v = s.v * p.keep_v + arriving.syn + p.jump * random.poisson(p.events)
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v >= p.threshold
    v = jnp.where(spike, p.reset, v)
    return s.replace(v=v, pause=jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))), spike


def network(regime="C", n_exc=10_000):
    """Return the network of a regime; in a smaller one, neurons share more of their inputs."""
    g, eta = REGIMES[regime].values()
    params = PARAMS | {"events": eta * THRESHOLD / (J * TAU) * DT}  # external spikes of a neuron in a step
    state = {"v": be.uniform(0, THRESHOLD), "pause": 0}
    exc = be.Population("exc", n_exc, neuron, state=state, params=params)
    inh = be.Population("inh", n_exc // 4, neuron, state=state, params=params)
    projections = [
        be.Projection(source, target, be.connect.in_degree(count, weight=weight), into="syn", delay=1.5)
        for source, count, weight in ((exc, IN_DEGREE, J), (inh, IN_DEGREE // 4, -g * J))
        for target in (exc, inh)
    ]
    return be.Network([exc, inh], projections, dt=DT)


if __name__ == "__main__":
    main("Brunel", network, regime=list(REGIMES), n_exc=10_000)
