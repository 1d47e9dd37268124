# SPDX-License-Identifier: Apache-2.0
"""The network engine: seconds, rate and memory of CUBA and COBA as in `network`, and rates of PD14."""

import statistics
import time
from typing import Any

from benchmarks.probes.network import limit_processors, resident
from benchmarks.probes.network_described import DT, ours, populations

_FIRST = 100  # steps of another run before the clock starts


def measure(
    model: str,
    n: int,
    steps: int,
    repeats: int,
    threads: int | None = None,
    discard: int = 0,
    record_in: str = "spikes",
) -> dict[str, Any]:
    """Run the network with several seeds, and record every spike; `discard` steps run before the clock starts.

    `record_in` is "spikes", or "counts": numbers of spikes alone. `rates` are those of the populations, by name, means
    over the seeds.
    """
    limit_processors(threads)
    names = populations(model)
    record = [f"{name}.{record_in}" for name in names]
    seconds, rates, counts = [], [], 0.0
    for seed in range(repeats):
        simulation = ours(model, n, None, seed)  # as many threads as suit the processors that it may use
        simulation.run(_FIRST, record=record)
        simulation.reset()
        if discard:
            simulation.run(discard)
        begin = time.perf_counter()
        result = simulation.run(steps, record=record)
        seconds.append(time.perf_counter() - begin)
        found = [result[label].counts if record_in == "spikes" else result[label] for label in record]
        rates.append([float(count.mean()) / (steps * DT * 1e-3) for count in found])
        counts += sum(int(count.sum()) for count in found) / sum(count.size for count in found)
    means = [statistics.fmean(one) for one in zip(*rates, strict=True)]
    return {
        "seconds": seconds,
        "rate": counts / repeats / (steps * DT * 1e-3),
        "rates": dict(zip(names, means, strict=True)),
        "resident": resident(),
    }
