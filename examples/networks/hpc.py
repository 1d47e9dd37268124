# SPDX-License-Identifier: Apache-2.0
"""A benchmark of plastic synapses: each neuron has 11 250 inputs (Morrison, Aertsen & Diesmann 2007).

Potentials are in mV, currents in pA, times in ms. `python -m examples.networks.hpc --scale 0.1 --inputs 0.1` runs a
small one.
"""

from math import e, exp

import jax.numpy as jnp
import numpy as np

import brainevent as be
from examples.networks.report import main

DT, DELAY = 0.1, 1.5
TAU_M, TAU_S, CAPACITANCE, THRESHOLD = 10.0, 0.32582722403722841, 250.0, 20.0
FASTER = 1 / TAU_S - 1 / TAU_M  # per ms: how much faster the current decays than the potential
FROM_EXC, FROM_INH = 9000, 2250  # synapses of a neuron, at any scale
G, ETA = -5.0, 1.685  # inhibition over excitation; external input over what it takes to reach the threshold
RATE = 7.6  # Hz, of random spikes that replace inputs; about that of the network


def response(t):
    """Return the potential t ms after the start of an alpha-shaped current whose peak is 1 pA."""
    both = (np.exp(-t / TAU_M) - np.exp(-t / TAU_S)) / FASTER
    return e / TAU_S / CAPACITANCE * (both - t * np.exp(-t / TAU_S)) / FASTER


WEIGHT = float(0.14 / response(np.linspace(0, 5, 50_001)).max())  # pA: a potential with a peak of 0.14 mV
KEEP_V, KEEP_I = exp(-DT / TAU_M), exp(-DT / TAU_S)
PARAMS = {"threshold": THRESHOLD, "refractory": round(0.5 / DT), "keep_v": KEEP_V, "keep_i": KEEP_I}
PARAMS |= {"i_to_v": (KEEP_V - KEEP_I) / FASTER / CAPACITANCE, "j_to_v": float(response(DT)) * TAU_S / e}
PARAMS |= {"jump": e / TAU_S * WEIGHT, "per_pA": e / TAU_S}
EXTERNAL = ETA * THRESHOLD * CAPACITANCE / TAU_M / (e * TAU_S * WEIGHT)  # spikes a ms


def integrated(s, p, arrived):
    """Integrate alpha-shaped currents for a step, exactly; j is how fast a current rises."""
    v = s.v * p.keep_v + s.i * p.i_to_v + s.j * p.j_to_v
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v >= p.threshold
    i, j = (s.i + p.dt * s.j) * p.keep_i, s.j * p.keep_i + arrived
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, 0.0, v), i=i, j=j, pause=pause), spike


def whole(s, arriving, p, random):
    """Receive external spikes at random."""
    return integrated(s, p, p.per_pA * arriving.syn + p.jump * random.poisson(p.excite))


def part(s, arriving, p, random):
    """Receive at random also the spikes of inputs that are left out."""
    spikes = random.poisson(p.excite) + p.g * random.poisson(p.inhibit)
    return integrated(s, p, p.per_pA * arriving.syn + p.jump * spikes)


def network(scale=1.0, inputs=1.0):
    """Return 11 250 neurons times a scale, with a fraction of the 11 250 inputs; random spikes replace the others."""
    counts = [round(number * inputs) for number in (FROM_EXC, FROM_INH)]
    lost_exc, lost_inh = (
        (number - count) * RATE * 1e-3 for number, count in zip((FROM_EXC, FROM_INH), counts, strict=True)
    )
    params = PARAMS | {"excite": (EXTERNAL + lost_exc) * DT}
    if inputs < 1:
        params |= {"inhibit": lost_inh * DT, "g": G}
    state = {"v": be.normal(5.7, 7.2), "i": 0.0, "j": 0.0, "pause": 0}
    exc, inh = (
        be.Population(name, round(size * scale), part if inputs < 1 else whole, state=state, params=params)
        for name, size in (("exc", 9000), ("inh", 2250))
    )
    stdp = be.plasticity.power_law_stdp(w_max=4 * WEIGHT, delay_at="dendrite")
    excite, inhibit = (
        be.connect.in_degree(count, weight=weight, self_connections=False)
        for count, weight in zip(counts, (WEIGHT, G * WEIGHT), strict=True)
    )
    return be.Network(
        [exc, inh],
        [
            be.Projection(exc, exc, excite, "syn", DELAY, "plastic", stdp),
            be.Projection(exc, inh, excite, "syn", DELAY),
            be.Projection(inh, exc, inhibit, "syn", DELAY),
            be.Projection(inh, inh, inhibit, "syn", DELAY),
        ],
        dt=DT,
    )


if __name__ == "__main__":
    main("the hpc benchmark", network, scale=1.0, inputs=1.0)
