# SPDX-License-Identifier: Apache-2.0
"""A square millimetre of cortex: 77 169 neurons in four layers, 299 million synapses (Potjans & Diesmann 2014).

Potentials are in mV, currents in pA, times in ms. `python -m examples.networks.microcircuit --scale 0.1` runs a tenth
of it.
"""

from math import exp, log1p, sqrt

import jax.numpy as jnp

import brainevent as be
from examples.networks.report import main

DT = 0.1
NAMES = ("23E", "23I", "4E", "4I", "5E", "5I", "6E", "6I")
SIZES = (20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948)
EXTERNAL = (1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100)  # external inputs of a neuron, of 8 Hz each
RATES = (0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829)  # Hz, as published
V_MEAN = (-68.28, -63.16, -63.33, -63.45, -63.11, -61.66, -66.72, -61.43)
V_SD = (5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48)
PROBABILITIES = (  # a row for each target, a column for each source
    (0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0, 0.0076, 0),
    (0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0, 0.0042, 0),
    (0.0077, 0.0059, 0.0497, 0.135, 0.0067, 0.0003, 0.0453, 0),
    (0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0, 0.1057, 0),
    (0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0),
    (0.0548, 0.0269, 0.0257, 0.0022, 0.06, 0.3158, 0.0086, 0),
    (0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252),
    (0.0364, 0.001, 0.0034, 0.0005, 0.0277, 0.008, 0.0658, 0.1443),
)
TAU_M, TAU_S, CAPACITANCE, WEIGHT = 10.0, 0.5, 250.0, 87.81

PARAMS = {"rest": -65.0, "threshold": -50.0, "refractory": round(2 / DT)}
PARAMS |= {"keep_v": exp(-DT / TAU_M), "keep_i": exp(-DT / TAU_S)}
PARAMS |= {"i_to_v": TAU_S * TAU_M / (TAU_M - TAU_S) / CAPACITANCE * (exp(-DT / TAU_M) - exp(-DT / TAU_S))}


def integrated(s, p, arrived):
    """Integrate the currents for a step, exactly; arriving spikes act from the next step on."""
    v = p.rest + (s.v - p.rest) * p.keep_v + s.i * p.i_to_v + p.drift
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v >= p.threshold
    v = jnp.where(spike, p.rest, v)
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=v, i=s.i * p.keep_i + arrived, pause=pause), spike


def poisson_driven(s, arriving, p, random):
    """Receive external spikes at random."""
    return integrated(s, p, arriving.syn + p.w_ext * random.poisson(p.events))


def steadily_driven(s, arriving, p):
    """Receive the mean of the external spikes, as part of the drift."""
    return integrated(s, p, arriving.syn)


def contacts(target, source):
    """Return the number of synapses of a projection at full scale; a pair of neurons may have several."""
    pairs = SIZES[target] * SIZES[source]
    return log1p(-PROBABILITIES[target][source]) / log1p(-1 / pairs)


def weight(target, source):
    """Return the mean weight of a projection in pA."""
    return WEIGHT * (-4 if source % 2 else 2 if (NAMES[target], NAMES[source]) == ("23E", "4E") else 1)


def population(k, scale, drive):
    """Return the k-th population at a scale, driven by "poisson" or "dc"."""
    external = EXTERNAL[k] * 8e-3 * WEIGHT * TAU_S  # pA, the mean current of external inputs
    recurrent = sum(
        contacts(k, j) / SIZES[k] * weight(k, j) * RATES[j] * 1e-3 * TAU_S for j in range(8) if PROBABILITIES[k][j]
    )
    # With fewer inputs, larger weights keep the variance, and a constant current keeps the mean.
    current = external if drive == "dc" else (1 - sqrt(scale)) * (recurrent + external)
    params = PARAMS | {"drift": current * TAU_M / CAPACITANCE * (1 - exp(-DT / TAU_M))}
    if drive == "poisson":
        params |= {"w_ext": WEIGHT / sqrt(scale), "events": scale * EXTERNAL[k] * 8e-3 * DT}
    rule = {"poisson": poisson_driven, "dc": steadily_driven}[drive]
    state = {"v": be.normal(V_MEAN[k], V_SD[k]), "i": 0.0, "pause": 0}
    return be.Population(NAMES[k], round(scale * SIZES[k]), rule, state=state, params=params)


def projection(populations, target, source, scale):
    """Return the projection from one population to another at a scale."""
    mean, delay = weight(target, source) / sqrt(scale), 0.75 if source % 2 else 1.5
    low, high = (None, 0) if mean < 0 else (0, None)  # no synapse changes its sign
    synapses = be.connect.total(
        round(scale**2 * contacts(target, source)), weight=be.normal(mean, 0.1 * abs(mean), low=low, high=high)
    )
    return be.Projection(
        populations[source], populations[target], synapses, into="syn", delay=be.normal(delay, delay / 2)
    )


def network(scale=1.0, drive="poisson"):
    """Return the microcircuit, or a fraction of its neurons, each with the same fraction of its inputs."""
    if drive == "dc" and scale != 1:
        raise ValueError(f"microcircuit: scale is {scale} with a constant drive, which would silence it; pass scale=1")
    populations = [population(k, scale, drive) for k in range(8)]
    pairs = [(target, source) for target in range(8) for source in range(8) if PROBABILITIES[target][source]]
    return be.Network(populations, [projection(populations, *pair, scale) for pair in pairs], dt=DT)


if __name__ == "__main__":
    main("PD14", network, scale=1.0, drive=["poisson", "dc"])
