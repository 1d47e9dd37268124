# SPDX-License-Identifier: Apache-2.0
"""CUBA: excitatory and inhibitory neurons whose synapses inject currents (Vogels & Abbott 2005).

Potentials and currents are in mV, times in ms. `python -m examples.networks.cuba` runs it.
"""

from math import exp

import jax.numpy as jnp

import brainevent as be
from examples.networks.report import main

DT = 0.1


def current_to_v(tau, tau_m=20):
    """Return how much a current of 1 mV changes the potential in one step, exactly."""
    return tau / (tau_m - tau) * (exp(-DT / tau_m) - exp(-DT / tau))


PARAMS = {"rest": -49.0, "threshold": -50.0, "reset": -60.0, "refractory": round(5 / DT)}
PARAMS |= {"keep_v": exp(-DT / 20), "keep_exc": exp(-DT / 5), "keep_inh": exp(-DT / 10)}
PARAMS |= {"exc_to_v": current_to_v(5), "inh_to_v": current_to_v(10)}
STATE = {"v": be.uniform(-60, -50), "exc": 0.0, "inh": 0.0, "pause": 0}


def neuron(s, arriving, p):
    """Add what arrives to the currents, and integrate them for a step."""
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    v = p.rest + (s.v - p.rest) * p.keep_v + exc * p.exc_to_v + inh * p.inh_to_v
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v > p.threshold
    v = jnp.where(spike, p.reset, v)
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=v, exc=exc * p.keep_exc, inh=inh * p.keep_inh, pause=pause), spike


def network(n=4000, w_exc=1.62, w_inh=-9.0):
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
    main("CUBA", network, n=4000)
