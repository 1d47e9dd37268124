# SPDX-License-Identifier: Apache-2.0
"""The network of examples/networks/vogels.py in NEST: seconds and rates. A conductance of 1 is 10 nS."""

import time
from typing import Any

from benchmarks.probes.network import limit_processors

_LEAK = 10.0  # nS
_CELL = {"E_L": -60.0, "V_reset": -60.0, "V_th": -50.0, "t_ref": 5.0, "g_L": _LEAK, "C_m": 20 * _LEAK}
_CELL |= {"E_ex": 0.0, "E_in": -80.0, "tau_syn_ex": 5.0, "tau_syn_in": 10.0, "I_e": 20 * _LEAK, "tau_minus": 20.0}
_BALANCE = {"synapse_model": "vogels_sprekeler_synapse", "eta": 0.005 * _LEAK, "alpha": 0.12, "tau": 20.0}
_BALANCE |= {"Wmax": -10 * _LEAK, "weight": -1e-9}  # its sign says that it inhibits


def measure(n: int, steps: int, repeats: int, threads: int) -> dict[str, Any]:
    """Build and run it with several seeds."""
    limit_processors(threads)
    import nest

    nest.verbosity = nest.VerbosityLevel.ERROR
    sizes = {"exc": n * 4 // 5, "inh": n - n * 4 // 5}
    seconds: list[float] = []
    processor: list[float] = []
    spikes = dict.fromkeys(sizes, 0)
    for seed in range(1, repeats + 1):
        nest.ResetKernel()
        nest.set(resolution=0.1, local_num_threads=threads, rng_seed=seed)
        parts = {name: nest.Create("iaf_cond_exp", size, _CELL) for name, size in sizes.items()}
        rule = {"rule": "pairwise_bernoulli", "p": 200 / n}
        recorders = {name: nest.Create("spike_recorder") for name in sizes}
        for name, cells in parts.items():
            cells.V_m = nest.random.uniform(-60, -50)
            nest.Connect(cells, recorders[name])
            nest.Connect(parts["exc"], cells, rule, {"weight": 0.03 * _LEAK, "delay": 0.1})
        nest.Connect(parts["inh"], parts["inh"], rule, {"weight": -0.3 * _LEAK, "delay": 0.1})
        nest.Connect(parts["inh"], parts["exc"], rule, _BALANCE | {"delay": 0.1})
        nest.Prepare()
        begin, used = time.perf_counter(), time.process_time()
        nest.Run(0.1 * steps)
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
        nest.Cleanup()
        spikes = {name: spikes[name] + recorders[name].n_events for name in sizes}
    duration = repeats * steps * 1e-4
    rates = {name: spikes[name] / (sizes[name] * duration) for name in sizes}
    return {"seconds": seconds, "processor": processor, "rates": rates}
