# SPDX-License-Identifier: Apache-2.0
"""The network engine: seconds, rate and memory of a network, rates of its populations, and how many neurons spike."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

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

    `record_in` is "spikes", "counts" for numbers of spikes alone, or "nothing": then as many steps, which are not
    timed, follow those that are, and are counted. `rates` are those of the populations, by name, and `active` is how
    many neurons spiked: means over the seeds.
    """
    limit_processors(threads)
    names = populations(model)
    recorded = [] if record_in == "nothing" else [f"{name}.{record_in}" for name in names]
    found = []
    for seed in range(repeats):
        simulation = ours(model, n, None, seed)  # as many threads as suit the processors that it may use
        simulation.run(_FIRST, record=recorded)
        simulation.reset()
        if discard:
            simulation.run(discard)
        begin = time.perf_counter()
        result = simulation.run(steps, record=recorded)
        seconds = time.perf_counter() - begin
        if not recorded:
            result = simulation.run(steps, record=[f"{name}.counts" for name in names])
        found.append((seconds, [_counts(result, name, record_in) for name in names]))
        del simulation  # before the next one needs its memory
    duration = steps * DT * 1e-3
    return {
        "seconds": [seconds for seconds, _ in found],
        "rate": statistics.fmean(float(np.concatenate(counts).mean()) for _, counts in found) / duration,
        "rates": {
            name: statistics.fmean(float(counts[k].mean()) for _, counts in found) / duration
            for k, name in enumerate(names)
        },
        "active": statistics.fmean(_active(counts) for _, counts in found),
        "resident": resident(),
    }


def _counts(result: Any, population: str, recorded_in: str) -> Any:
    return result[f"{population}.spikes"].counts if recorded_in == "spikes" else result[f"{population}.counts"]


def _active(counts: Sequence[Any]) -> int:
    return sum(int(np.count_nonzero(count)) for count in counts)
