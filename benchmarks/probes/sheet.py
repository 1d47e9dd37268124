# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a sheet by distance: seconds, and seconds of processors."""

import math
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp


def measure(neurons: int, synapses: int, rounds: int, where: str = "cpu") -> dict[str, Any]:
    """Return how long each build takes: of a plan for two threads, or on a GPU; and how many synapses there are."""
    network = sheet(neurons, synapses)
    build = {"cpu": _drawn_on_cpu, "gpu": _drawn_on_gpu, "gpu, ready to run": _built_for_gpu}[where](network)
    seconds, processor, entries = [], [], 0
    for seed in range(rounds + 1):  # the first compiles
        start, start_processor = time.perf_counter(), time.process_time()
        entries = build(seed)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return {"seconds": seconds[1:], "processor": processor[1:], "synapses": entries}


def _drawn_on_cpu(network: Any) -> Callable[[int], int]:
    from brainevent.network.plan.build import build_plan

    return lambda seed: int(build_plan(network, seed=seed, parts=2).entries)


def _drawn_on_gpu(network: Any) -> Callable[[int], int]:
    """All synapses are drawn and measured; then a build knows which rows to put them in."""
    from brainevent.network.engines import measure_of
    from brainevent.network.plan.build import build_plan

    drawing = measure_of("cuda")
    return lambda seed: int(build_plan(network, seed=seed, measure=drawing).entries)


def _built_for_gpu(network: Any) -> Callable[[int], int]:
    """Synapses are drawn, measured, and drawn again into the rows that a run reads."""
    from brainevent.network.gpu.cuda_device import default_device

    built: list[Any] = []

    def build(seed: int) -> int:
        built.clear()  # given back before more is taken
        built.append(network.build(seed=seed, backend="cuda"))
        default_device().wait()
        return int(built[0].engine.plan.entries)

    return build


def sheet(neurons: int, synapses: int) -> Any:
    """Return a network on a torus whose connections fall with distance."""
    import brainevent

    variance = synapses / (neurons * math.pi)  # with a largest probability of 0.5

    def probability(pre: Any, post: Any) -> Any:
        dx, dy = jnp.abs(pre.x - post.x), jnp.abs(pre.y - post.y)
        dx, dy = jnp.minimum(dx, 1 - dx), jnp.minimum(dy, 1 - dy)
        squared = dx * dx + dy * dy
        return jnp.where(squared < 9 * variance, 0.5 * jnp.exp(-squared / (2 * variance)), 0)

    def cell(s: Any, arriving: Any, p: Any) -> Any:
        return s.replace(v=arriving.syn), s.v > 1

    at = {"x": brainevent.uniform(0, 1), "y": brainevent.uniform(0, 1)}
    cells = brainevent.Population("cells", neurons, cell, state={"v": 0.0}, at=at)
    connect = brainevent.connect.prob(probability, weight=0.1)
    return brainevent.Network([cells], [brainevent.Projection(cells, cells, connect, into="syn")])
