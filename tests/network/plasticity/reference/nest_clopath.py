# SPDX-License-Identifier: Apache-2.0
"""Write `nest_clopath.npz`: voltages of NEST's neurons, and weights of its Clopath synapses: `python nest_clopath.py`.

It runs with an interpreter that has NEST (`nest-simulator` 3.10 from PyPI). Two neurons get currents, so that they
spike and stay below the threshold in turn; what reaches them by plastic synapses is too small to matter.
"""

from pathlib import Path
from typing import Any

import nest
import numpy as np

DT, STEPS, SHIFT, TARGETS = 0.1, 2000, 1.0, 2
DELAYS = np.array([[10, 16], [24, 10], [10, 30]])  # steps
LAG = 0.5  # ms by which synapses see filtered potentials later
PARAMS = {"A_LTD": 1.4e-4, "A_LTP": 8e-5, "theta_minus": -70.6, "theta_plus": -45.3}
PARAMS |= {"tau_u_bar_minus": 10.0, "tau_u_bar_plus": 7.0, "delay_u_bars": LAG}
WEIGHTS = np.linspace(0.3, 0.8, 6).reshape(3, 2)


def trains() -> list[np.ndarray]:
    """Return steps in which each source may spike."""
    random = np.random.default_rng(2027)
    return [np.sort(random.choice(np.arange(100, STEPS - 100), 30, replace=False)) for _ in range(3)]


def apart(sources: list[np.ndarray], v: np.ndarray) -> list[np.ndarray]:
    """Return the spikes that reach no target above theta_plus: there, whether the trace has the spike is a choice."""
    high = v > PARAMS["theta_plus"]
    return [
        np.array([t for t in steps if not any(high[t - DELAYS[i, j], j] for j in range(TARGETS))])
        for i, steps in enumerate(sources)
    ]


def simulated(sources: list[np.ndarray]) -> dict[str, Any]:
    """Return the voltages of all steps, and the weights at all spikes of the sources."""
    nest.ResetKernel()
    nest.verbosity = nest.VerbosityLevel.ERROR
    nest.resolution = DT
    pre = nest.Create("parrot_neuron", 3)
    for one, at in zip(pre, sources, strict=True):
        times = np.round(at * DT, 1)
        nest.Connect(nest.Create("spike_generator", params={"spike_times": times}), one, "one_to_one", {"delay": SHIFT})
    post = nest.Create("aeif_psc_delta_clopath", TARGETS, PARAMS)
    for k, one in enumerate(post):
        steps = {"amplitude_times": [10.0, 60.0, 90.0, 150.0]}
        steps["amplitude_values"] = [700.0 + 400 * k, -200.0, 400.0, 900.0 - 300 * k]
        current = nest.Create("step_current_generator", params=steps)
        nest.Connect(current, one, "one_to_one", {"delay": DT})
    meter = nest.Create("multimeter", params={"interval": DT, "record_from": ["V_m", "u_bar_minus", "u_bar_plus"]})
    nest.Connect(meter, post, "all_to_all", {"delay": DT})
    recorder = nest.Create("weight_recorder")
    nest.CopyModel("clopath_synapse", "plastic", {"weight_recorder": recorder, "tau_x": 15.0, "Wmax": 1.0})
    for i in range(3):
        for j in range(TARGETS):
            synapse = {"synapse_model": "plastic", "weight": WEIGHTS[i, j], "delay": DELAYS[i, j] * DT}
            nest.Connect(pre[i], post[j], "one_to_one", synapse)
    nest.Simulate(STEPS * DT + 2 * SHIFT)
    events, found = meter.events, {}
    # In NEST time t is that of step t / DT of a source plus SHIFT; what is recorded at t is the state after it.
    for name, short in {"V_m": "v", "u_bar_minus": "minus", "u_bar_plus": "plus"}.items():
        columns = []
        for one in post:
            of = events["senders"] == one.global_id
            at = np.rint((events["times"][of] - SHIFT) / DT).astype(int)
            column = np.zeros(STEPS, np.float32)
            inside = (at >= 0) & (at < STEPS)
            column[at[inside]] = events[name][of][inside]
            columns.append(column)
        found[short] = np.stack(columns, 1)
    events = recorder.events
    weights = np.full((3, TARGETS, max(map(len, sources))), np.nan)
    for i in range(3):
        for j in range(TARGETS):
            of = (events["senders"] == pre[i].global_id) & (events["targets"] == post[j].global_id)
            weights[i, j, : of.sum()] = events["weights"][of]
    return {"weights": weights, **found}


def main() -> None:
    """Run NEST until no spike coincides with a high voltage, and write what it did."""
    sources = trains()
    while True:
        found = simulated(sources)
        fewer = apart(sources, found["v"])
        if all(map(np.array_equal, fewer, sources)):
            break
        sources = fewer
    steps = np.full(found["weights"].shape[::2], -1)
    for row, at in zip(steps, sources, strict=True):
        row[: at.size] = at
    versions = {"simulator": f"NEST {nest.__version__}", "sources": steps}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **versions, **found)


if __name__ == "__main__":
    main()
