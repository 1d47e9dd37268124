# SPDX-License-Identifier: Apache-2.0
"""COBA: excitatory and inhibitory neurons whose synapses open conductances (Vogels & Abbott 2005).

Conductances are in units of the leak conductance, potentials in mV, times in ms. Run it by
`python -m examples.networks.coba`.
"""

from math import exp

import jax.numpy as jnp

import brainevent as be
from examples.networks.report import main

DT = 0.1
PARAMS = {"rest": -60.0, "drive": 20.0, "e_exc": 0.0, "e_inh": -80.0}
PARAMS |= {"threshold": -50.0, "reset": -60.0, "refractory": round(5 / DT)}
PARAMS |= {"rate": DT / 20, "keep_exc": exp(-DT / 5), "keep_inh": exp(-DT / 10)}
STATE = {"v": be.normal(-55, 5), "exc": be.normal(4, 1.5), "inh": be.normal(20, 12), "pause": 0}


def neuron(s, arriving, p):
    """Add arriving spikes to the conductances, and move the potential towards the value that they set."""
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    push = p.rest + p.drive - s.v + exc * (p.e_exc - s.v) + inh * (p.e_inh - s.v)
    a = p.rate * (1 + exc + inh)
    # (1 - exp(-a)) / a is 12 / (12 + 6 a + a^2) with an error below 1e-6 for a < 0.15, and this is faster.
    v = s.v + push * (12 * p.rate / (12 + a * (6 + a)))
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v > p.threshold
    v = jnp.where(spike, p.reset, v)
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=v, exc=exc * p.keep_exc, inh=inh * p.keep_inh, pause=pause), spike


def network(n=4000, w_exc=0.6, w_inh=6.7):
    """Return n neurons, four fifths of them excitatory, with 80 outgoing synapses each on average."""
    exc = be.Population("exc", n * 4 // 5, neuron, state=STATE, params=PARAMS)
    inh = be.Population("inh", n // 5, neuron, state=STATE, params=PARAMS)
    projections = [
        be.Projection(source, target, be.connect.prob(80 / n, weight=weight), into=source.name)
        for source, weight in ((exc, w_exc), (inh, w_inh))
        for target in (exc, inh)
    ]
    return be.Network([exc, inh], projections, dt=DT)


if __name__ == "__main__":
    main("COBA", network, n=4000)
