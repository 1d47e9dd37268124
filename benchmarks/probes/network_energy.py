# SPDX-License-Identifier: Apache-2.0
"""The energy that a GPU takes for a network: its power, sampled and integrated while the network runs, and idle."""

import time
from typing import Any

from benchmarks.probes.network_described import DT, NETWORKS
from benchmarks.probes.power import Meter

_FIRST = 5_000  # steps before anything is measured
_CHUNK = 250_000  # steps of a run
_SETTLES = 2.0  # seconds until the power of an idle GPU is that of an idle one


def measure(model: str, n: int, repeats: int, seconds: float, idle_seconds: float) -> dict[str, Any]:
    """Run the network for some seconds of wall time, several times, each after some in which the GPU idles.

    `joules` and `seconds` are of the runs, `idle_watts` of the pauses before them. `events` are synaptic events: spikes
    of a population times the mean number of synapses of its neurons.
    """
    simulation = NETWORKS[model](n).build(seed=1, backend="cuda")
    sizes = {population.name: population.size for population in simulation.plan.populations}
    record = [f"{name}.counts" for name in sizes]
    simulation.run(_FIRST, record=record)
    found: dict[str, Any] = {name: [] for name in ("joules", "seconds", "idle_watts", "events", "samples")}
    spikes, steps = dict.fromkeys(sizes, 0), 0
    for _ in range(repeats):
        with Meter() as meter:
            time.sleep(_SETTLES)
            start = time.perf_counter()
            time.sleep(idle_seconds)
            begin = time.perf_counter()
            ran = dict.fromkeys(sizes, 0)
            while time.perf_counter() - begin < seconds:
                result = simulation.run(_CHUNK, record=record)
                steps += _CHUNK
                for name in sizes:
                    ran[name] += int(result[f"{name}.counts"].sum())
            end = time.perf_counter()
        found["idle_watts"].append(meter.joules(start, begin) / (begin - start))
        found["joules"].append(meter.joules(begin, end))
        found["seconds"].append(end - begin)
        found["samples"].append(sum(begin <= at <= end for at, _ in meter.samples))
        found["events"].append(sum(ran[p.source] * p.entries / sizes[p.source] for p in simulation.plan.projections))
        spikes = {name: spikes[name] + ran[name] for name in sizes}
    rates = {name: spikes[name] / sizes[name] / (steps * DT * 1e-3) for name in sizes}
    return found | {"rates": rates, "steps": steps, "field": meter.field}
