# SPDX-License-Identifier: Apache-2.0
"""Write `nest_hpc.json`: how neurons of small hpc benchmarks spike in NEST, and their weights: `python nest_hpc.py`.

It runs with an interpreter that has NEST (`nest-simulator` 3.10 from PyPI), and needs nothing else of the tests.
Weights are relative to those at the start, after a last spike of all their sources.
"""

import json
from math import e
from pathlib import Path

import nest
import numpy as np

TAU_M, TAU_S, CAPACITANCE, THRESHOLD, RATE, DELAY = 10.0, 0.32582722403722841, 250.0, 20.0, 7.6, 1.5
SIZES = {0.05: 2.0, 0.1: 4.0}  # scale, and seconds
SEEDS = range(1, 7)
AFTER = 0.5  # seconds until spikes count
PARTS = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]


def unit():
    """Return the current whose potential has a peak of 0.14 mV."""
    t, b = np.linspace(0, 5, 50_001), 1 / TAU_S - 1 / TAU_M
    fall = np.exp(-t / TAU_S)
    return 0.14 / (e / TAU_S / CAPACITANCE * ((np.exp(-t / TAU_M) - fall) / b - t * fall) / b).max()


def built(scale, seed):
    """Build the network; return its populations and a recorder for each."""
    nest.ResetKernel()
    nest.set(resolution=0.1, rng_seed=seed, local_num_threads=1)
    cell = {"E_L": 0.0, "C_m": CAPACITANCE, "tau_m": TAU_M, "t_ref": 0.5, "V_th": THRESHOLD, "V_reset": 0.0}
    cell |= {"tau_syn_ex": TAU_S, "tau_syn_in": TAU_S, "tau_minus": 30.0}
    exc, inh = (nest.Create("iaf_psc_alpha", round(n * scale), cell) for n in (9000, 2250))
    weight, counts = unit(), {"exc": round(9000 * scale), "inh": round(2250 * scale)}
    external = 1.685 * THRESHOLD * CAPACITANCE / TAU_M / (e * TAU_S * weight) * 1000
    excite = nest.Create("poisson_generator", params={"rate": external + (9000 - counts["exc"]) * RATE})
    inhibit = nest.Create("poisson_generator", params={"rate": (2250 - counts["inh"]) * RATE})
    nest.SetDefaults("stdp_pl_synapse_hom", {"alpha": 0.0513, "mu": 0.4, "tau_plus": 15.0, "lambda": 0.1})
    recorders = [nest.Create("spike_recorder", params={"start": 1000 * AFTER}) for _ in range(2)]
    for cells, recorder in zip((exc, inh), recorders, strict=True):
        cells.V_m = nest.random.normal(5.7, 7.2)
        nest.Connect(cells, recorder)
        nest.Connect(excite, cells, syn_spec={"weight": weight, "delay": DELAY})
        nest.Connect(inhibit, cells, syn_spec={"weight": -5 * weight, "delay": DELAY})
        for name, sources, w in (("exc", exc, weight), ("inh", inh, -5 * weight)):
            plastic = sources is exc and cells is exc
            model = "stdp_pl_synapse_hom" if plastic else "static_synapse"
            rule = {"rule": "fixed_indegree", "indegree": counts[name], "allow_autapses": False}
            nest.Connect(sources, cells, rule, {"synapse_model": model, "weight": w, "delay": DELAY})
    return exc, inh, recorders


def variation(spikes):
    """Return the mean over neurons with three intervals of the coefficient of variation of these."""
    order = np.lexsort((spikes["times"], spikes["senders"]))
    times, neurons = spikes["times"][order], spikes["senders"][order]
    found = [np.diff(times[neurons == k]) for k in np.unique(neurons)]
    return float(np.mean([x.std() / x.mean() for x in found if x.size >= 3]))


def measured(scale, seconds, seed):
    """Return rates, variation, and the weights: their mean, deviation and quantiles."""
    exc, inh, recorders = built(scale, seed)
    nest.Simulate(1000.0 * seconds)
    spikes = recorders[0].events
    counts = [r.n_events for r in recorders]
    exc.V_m = 30.0  # NEST changes weights when their sources spike: now all do
    nest.Simulate(1.6)  # until these spikes are delivered
    rates = [n / len(cells) / (seconds - AFTER) for n, cells in zip(counts, (exc, inh), strict=True)]
    weights = np.array(nest.GetConnections(synapse_model="stdp_pl_synapse_hom").weight) / unit()
    found = {"exc": rates[0], "inh": rates[1], "cv": variation(spikes)}
    found |= {"mean": weights.mean(), "sd": weights.std(), "quantiles": np.quantile(weights, PARTS).round(5).tolist()}
    return {name: value if name == "quantiles" else round(float(value), 5) for name, value in found.items()}


if __name__ == "__main__":
    nest.verbosity = nest.VerbosityLevel.ERROR
    found = {}
    for scale, seconds in SIZES.items():
        seeds = [measured(scale, seconds, seed) for seed in SEEDS]
        found[str(scale)] = {"seconds": seconds, "after": AFTER, "parts": PARTS, "seeds": seeds}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
