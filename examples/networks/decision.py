# SPDX-License-Identifier: Apache-2.0
"""Two groups of neurons compete until one wins: a decision about noisy evidence (Wang 2002).

Potentials are in mV, conductances in nS, times in ms. `python -m examples.networks.decision` prints how often the group
with more evidence wins.
"""

from math import exp

import jax.numpy as jnp
import numpy as np

import brainevent as be

DT = 0.25
N_EXC, N_INH, SELECTIVE = 1600, 400, 0.15  # neurons at full size; the fraction of excitatory ones in each group
W_PLUS = 1.7  # strength of synapses within a group; between groups it is smaller, so that the mean is 1
EVIDENCE, SPREAD, HELD = 40.0, 4.0, 50.0  # Hz: mean and deviation; ms after which it is drawn anew
START, TRIAL = 500, 2000  # ms: before the evidence, and with it
THRESHOLD = 20.0  # Hz: a group that exceeds it first has won

SHARED = {"rest": -70.0, "threshold": -50.0, "reset": -55.0, "events": 2.4 * DT}
SHARED |= {"keep_ampa": exp(-DT / 2), "keep_nmda": exp(-DT / 100), "keep_gaba": exp(-DT / 5)}
EXC = SHARED | {"capacitance": 500.0, "leak": 25.0, "refractory": round(2 / DT), "opens": 1 - exp(-1)}
EXC |= {"g_ext": 2.1, "g_nmda": 0.21, "g_gaba": 1.3}
INH = SHARED | {"capacitance": 200.0, "leak": 20.0, "refractory": round(1 / DT)}
INH |= {"g_ext": 1.62, "g_nmda": 0.165, "g_gaba": 1.0}


def integrated(s, arriving, p, external):
    """Integrate potential and conductances for a step; return the new state, and whether the neuron spikes."""
    unblocked = 1 / (1 + jnp.exp(-0.062 * s.v) / 3.57)  # NMDA receptors, by magnesium
    excite = p.g_ext * s.ampa + p.g_nmda * unblocked * s.nmda
    current = -p.leak * (s.v - p.rest) - excite * s.v - p.g_gaba * s.gaba * (s.v + 70)
    v = jnp.where(s.pause > 0, p.reset, s.v + p.dt * current / p.capacitance)
    spike = v >= p.threshold
    return s.replace(
        v=jnp.where(spike, p.reset, v),
        pause=jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0)),
        ampa=s.ampa * p.keep_ampa + external,
        nmda=s.nmda * p.keep_nmda + arriving.nmda,
        gaba=s.gaba * p.keep_gaba + arriving.gaba,
    ), spike


def excitatory(s, arriving, p, random):
    """Open NMDA receptors by a spike: a fraction of those that are still closed, which is the value of the spike."""
    new, spike = integrated(s, arriving, p, random.poisson(p.events + p.dt * 1e-3 * arriving.evidence))
    gate = s.gate * p.keep_nmda
    opened = p.opens * (1 - gate)
    return new.replace(gate=jnp.where(spike, gate + opened, gate)), {"spike": spike, "value": opened}


def inhibitory(s, arriving, p, random):
    """Inhibit all neurons."""
    return integrated(s, arriving, p, random.poisson(p.events))


def network(scale=1.0):
    """Return 2000 neurons times a scale; with fewer neurons, each synapse is stronger."""
    w_minus = 1 - SELECTIVE * (W_PLUS - 1) / (1 - SELECTIVE)
    state = {"v": be.uniform(-60, -50), "pause": 0, "ampa": 2.4 * 2, "nmda": 0.0, "gaba": 0.0}
    size = round(SELECTIVE * N_EXC * scale)
    sizes = {"left": size, "right": size, "others": round(N_EXC * scale) - 2 * size}
    exc, inh = ({**kind, "g_nmda": kind["g_nmda"] / scale, "g_gaba": kind["g_gaba"] / scale} for kind in (EXC, INH))
    groups = {
        name: be.Population(name, count, excitatory, state | {"gate": 0.0}, exc, value_range=(0, 1))
        for name, count in sizes.items()
    }
    interneurons = be.Population("inh", round(N_INH * scale), inhibitory, state, inh)

    def strength(source, target):
        if target in ("inh", "others"):
            return 1.0
        return W_PLUS if source == target else w_minus

    populations = [*groups.values(), interneurons]
    projections = [
        be.Projection(source, target, be.connect.all_to_all(weight=weight), into=receptor, delay=0.5)
        for source in populations
        for target in populations
        for receptor, weight in [
            ("gaba", 1.0) if source is interneurons else ("nmda", strength(source.name, target.name))
        ]
    ]
    return be.Network(populations, projections, dt=DT)


def evidence(coherence, random):
    """Draw the evidence for both groups in Hz, as inputs of a run; with a coherence of 1 all of it is for the left."""
    held, rows = round(HELD / DT), round(TRIAL / HELD)
    given = {}
    for name, sign in (("left", 1), ("right", -1)):
        rates = random.normal(EVIDENCE * (1 + sign * coherence), SPREAD, rows).clip(0)
        given[f"{name}.evidence"] = np.concatenate([np.zeros(round(START / DT)), np.repeat(rates, held)])
    return given


def decided(simulation, coherence, trials=10, seed=0):
    """Run trials side by side; return the rates of both groups (trials, bins of 50 ms) in Hz.

    Then, for each trial, whether the left group won, and when: the first time that a group exceeded the threshold, or
    NaN if none did, and the one with the higher rate at the end has won.
    """
    random = np.random.default_rng([seed, 1000 + round(1000 * coherence)])
    given = [evidence(coherence, random) for _ in range(trials)]
    found = simulation.sweep(
        ms=START + TRIAL,
        record=["left.rate", "right.rate"],
        inputs={name: np.array([one[name] for one in given], np.float32) for name in given[0]},
        seeds=range(seed, seed + trials),
        redraw=False,
    )
    size = simulation.network.populations[0].size
    left, right = (
        np.array(found[f"{name}.rate"]).reshape(trials, -1, round(50 / DT)).sum(2) / size / 0.05
        for name in ("left", "right")
    )
    above = np.maximum(left, right)[:, START // 50 :] > THRESHOLD
    when = np.where(above.any(1), above.argmax(1), -1)
    won = (left > right)[:, START // 50 :][np.arange(trials), when]
    return left, right, won, np.where(when < 0, np.nan, 50.0 * (when + 1))


def main(trials=20):
    """Print how often the left group wins, and after which time, by coherence."""
    simulation = network(scale=0.25).build(seed=1)
    for coherence in (0.0, 0.032, 0.064, 0.128, 0.256, 0.512):
        _, _, won, times = decided(simulation, coherence, trials)
        print(f"  coherence {coherence:5.1%}   left wins {won.mean():4.0%}   after {np.nanmedian(times):4.0f} ms")


if __name__ == "__main__":
    main()
