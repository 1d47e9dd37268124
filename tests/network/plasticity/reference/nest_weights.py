# SPDX-License-Identifier: Apache-2.0
"""Write `nest.json`: weights of NEST's plastic synapses at each spike of their source: `python nest_weights.py`.

It runs with an interpreter that has NEST (`nest-simulator` 3.10 from PyPI), and needs nothing else of the tests.
Parrots repeat given trains, and ignore what reaches them by plastic synapses.
"""

import json
from pathlib import Path

import nest
import numpy as np
from trains import DELAYS, DT, REWARDS, SOURCES, STEPS, TARGETS, WEIGHTS, trains

SHIFT = 1.0  # ms from a generator to its parrot

PAIRS = {"Wmax": 1.0, "lambda": 0.05, "alpha": 1.1, "tau_plus": 15.0}
CASES = {
    "additive": ("stdp_synapse", PAIRS | {"mu_plus": 0.0, "mu_minus": 0.0}),
    "multiplicative": ("stdp_synapse", PAIRS | {"mu_plus": 1.0, "mu_minus": 1.0}),
    "nonlinear": ("stdp_synapse", PAIRS | {"mu_plus": 0.3, "mu_minus": 0.6}),
    "additive, nearest": ("stdp_nn_symm_synapse", PAIRS | {"mu_plus": 0.0, "mu_minus": 0.0}),
    "multiplicative, nearest": ("stdp_nn_symm_synapse", PAIRS | {"mu_plus": 1.0, "mu_minus": 1.0}),
    "power law": ("stdp_pl_synapse_hom", {"lambda": 0.1, "alpha": 0.6, "mu": 0.4, "tau_plus": 15.0}),
    "triplet": (
        "stdp_triplet_synapse",
        {"Wmax": 1.0, "Aplus": 0.01, "Aminus": 0.02, "Aplus_triplet": 0.03, "Aminus_triplet": 0.01,
         "tau_plus": 16.8, "tau_plus_triplet": 101.0},
    ),
    "inhibitory": ("vogels_sprekeler_synapse", {"Wmax": 4.0, "eta": 0.02, "alpha": 0.4, "tau": 30.0}),
    "dopamine": (
        "stdp_dopamine_synapse",
        {"A_plus": 1.0, "A_minus": 1.5, "tau_plus": 15.0, "tau_c": 300.0, "tau_n": 100.0, "b": 0.002,
         "Wmin": 0.0, "Wmax": 4.0},
    ),
}  # fmt: skip
OF_ALL = {"tau_plus", "lambda", "alpha", "mu"}  # of the model, not of a synapse, where it is homogeneous


def parrots(steps):
    """Return parrots that spike in given steps."""
    made = nest.Create("parrot_neuron", len(steps), {"tau_minus": 30.0, "tau_minus_triplet": 125.0})
    for one, at in zip(made, steps, strict=True):
        times = np.round(np.asarray(at) * DT, 1)
        nest.Connect(nest.Create("spike_generator", params={"spike_times": times}), one, "one_to_one", {"delay": SHIFT})
    return made


def weights(model, params):
    """Return for each source and target the weights at all spikes of the source."""
    nest.ResetKernel()
    nest.verbosity = nest.VerbosityLevel.ERROR
    nest.resolution = DT
    sources, targets = trains()
    pre, post = parrots(sources), parrots(targets)
    recorder = nest.Create("weight_recorder")
    common = {"weight_recorder": recorder}
    if model == "stdp_dopamine_synapse":
        dopamine = parrots([REWARDS])
        common["volume_transmitter"] = nest.Create("volume_transmitter")
        nest.Connect(dopamine, common["volume_transmitter"], "all_to_all", {"delay": DT})
    if model.endswith("_hom"):
        common |= {name: params[name] for name in OF_ALL & set(params)}
        params = {name: value for name, value in params.items() if name not in OF_ALL}
    if model == "stdp_dopamine_synapse":
        common, params = common | params, {}
    nest.CopyModel(model, "plastic", common)
    for i in range(SOURCES):
        for j in range(TARGETS):
            synapse = {"synapse_model": "plastic", "weight": WEIGHTS[i, j], "delay": DELAYS[i, j] * DT}
            nest.Connect(pre[i], post[j], "one_to_one", synapse | params | {"receptor_type": 1})
    nest.Simulate(STEPS * DT + 2 * SHIFT)
    events = recorder.events
    first = pre[0].global_id, post[0].global_id
    found = [[None] * TARGETS for _ in range(SOURCES)]
    for i in range(SOURCES):
        for j in range(TARGETS):
            chosen = (events["senders"] == first[0] + i) & (events["targets"] == first[1] + j)
            assert chosen.sum() == sources[i].size
            found[i][j] = [float(f"{w:.9g}") for w in events["weights"][chosen]]
    return found


if __name__ == "__main__":
    table = {"simulator": f"NEST {nest.__version__}", "weights": {}}
    for name, (model, params) in CASES.items():
        table["weights"][name] = weights(model, params)
    Path(__file__).with_name("nest.json").write_text(json.dumps(table, separators=(",", ":")).replace("]],", "]],\n"))
