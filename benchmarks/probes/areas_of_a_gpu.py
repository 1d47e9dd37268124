# SPDX-License-Identifier: Apache-2.0
"""What one of four GPUs has of 32 areas, on one GPU: eight areas in two parts, which exchange spikes as two GPUs do.

So what takes the time of a step can be looked at without four GPUs. From a GPU:
`python -m benchmarks.probes areas_of_a_gpu '{"steps": 2000, "repeats": 3}' answer.json`.
"""

import hashlib
import statistics
import time
from typing import Any

import numpy as np

from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from examples.networks import areas

CHOSEN = range(12, 20)  # in the middle of the hierarchy: 1.03 million neurons, 6.04 billion synapses
PARTS = 2


def some(chosen: range) -> areas.Areas:
    """Return some of the areas, whose neurons have as many synapses from other areas as among all of them."""
    every, which = areas.made(), np.array(chosen)
    inputs = every.inputs[np.ix_(which, range(8), which, range(8))].copy()
    for k, area in enumerate(which):
        own = inputs[k, :, k].copy()
        inputs[k, :, k] = 0
        wanted = every.inputs[area].sum((1, 2)) - every.inputs[area, :, area].sum(1)
        inputs[k] *= (wanted / np.maximum(inputs[k].sum((1, 2)), 1e-12))[:, None, None]
        inputs[k, :, k] = own
    assert every.positions is not None
    return areas.Areas(
        [every.names[k] for k in which],
        every.sizes[which],
        inputs,
        every.external[which],
        every.delays[np.ix_(which, which)],
        every.positions[which],
    )


def measure(steps: int, repeats: int) -> dict[str, Any]:
    """Return the microseconds that a step adds to a run, and those of a step in runs of 4 times `steps`.

    `digest` is of the numbers of spikes in the first 400 steps; `building` are seconds of two builds, of which the
    second one has nothing to compile.
    """
    network, device, building = areas.network(1.0, areas=some(CHOSEN)), cuda_device(0), []
    blocks = device.multiprocessors // PARTS - 1  # and one that sends messages
    engine: Any = None
    for _ in range(2):
        engine = None  # its memory is free before the next one is built
        began = time.perf_counter()
        plan = build_plan(network, seed=1, measure=Drawing(device))
        engine = SeveralEngine(plan, devices=[device.beside() for _ in range(PARTS)], blocks=blocks)
        building.append(time.perf_counter() - began)
    names = tuple(population.name for population in network.populations)
    counts = engine.run(400, Wanted(counts=names), {}).counts
    whole = np.concatenate([counts[name] for name in names]).astype(np.int64)

    def seconds(number: int) -> float:
        began = time.perf_counter()
        engine.run(number, Wanted(), {})
        return time.perf_counter() - began

    seconds(steps)
    short, long = ([seconds(number) for _ in range(repeats)] for number in (steps, 4 * steps))
    more = (statistics.median(long) - statistics.median(short)) / (3 * steps)
    return {
        "neurons": whole.size,
        "synapses": sum(one.entries for one in plan.projections),
        "a_step_more": more * 1e6,
        "step": [one / steps / 4e-6 for one in long],
        "digest": hashlib.sha256(whole.tobytes()).hexdigest()[:12],
        "building": building,
    }
