# SPDX-License-Identifier: Apache-2.0
"""A network of examples/networks whose synapses change: seconds, rates, and the memory of a plastic synapse."""

import importlib
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.probes.network import limit_processors, resident


def measure(
    example: str,
    options: dict[str, Any],
    steps: int,
    repeats: int,
    discard: int = 0,
    threads: int | None = None,
    every: int = 0,
) -> dict[str, Any]:
    """Run it with several seeds after `discard` steps, and count spikes; `rates` are means over the seeds, in Hz.

    `processor` are seconds of CPU time, of all threads. Each `every` steps all neurons get the input of a reward, if it
    is not 0. `bytes` is what a plastic synapse takes on a GPU, None elsewhere, and `changed` the part of weights that
    changed, of the last seed.
    """
    limit_processors(threads)
    network = importlib.import_module(f"examples.networks.{example}").network(**options)
    names = [population.name for population in network.populations]
    seconds, processor, building, counted = [], [], [], []
    for seed in range(1, repeats + 1):
        simulation = None  # its memory is free before the next one is built
        begin = time.perf_counter()
        simulation = network.build(seed=seed)
        simulation.run(1)
        building.append(time.perf_counter() - begin)
        simulation.reset()
        if discard:
            simulation.run(discard)
        given = _rewards(names, steps, every)
        before = _weights(simulation)
        begin, used = time.perf_counter(), time.process_time()
        result = simulation.run(steps, record=[f"{name}.counts" for name in names], inputs=given)
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
        counted.append([float(result[f"{name}.counts"].mean()) for name in names])
    duration = steps * network.dt * 1e-3
    memory = getattr(simulation.engine, "plastic", None)
    return {
        "seconds": seconds,
        "processor": processor,
        "building": building,
        "rates": {name: statistics.fmean(c[k] for c in counted) / duration for k, name in enumerate(names)},
        "sizes": {population.name: population.size for population in network.populations},
        "plastic": sum(weights.size for weights in before),
        "changed": float(np.mean(np.concatenate(before) != np.concatenate(_weights(simulation)))),
        "bytes": memory.nbytes / memory.entries if memory else None,
        "resident": resident(),
    }


def _weights(simulation: Any) -> list[np.ndarray]:
    return [np.array(states["w"]) for states in simulation.state.synapses.values()]


def _rewards(names: list[str], steps: int, every: int) -> dict[str, np.ndarray] | None:
    if not every:
        return None
    given = np.zeros((steps, 1), np.float32)
    given[every - 1 :: every] = 0.5
    return {f"{name}.reward": given for name in names}
