# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a sheet by distance: seconds, and seconds of processors."""

import math
import time
from typing import Any

import jax.numpy as jnp


def measure(neurons: int, synapses: int, rounds: int) -> dict[str, Any]:
    """Return how long each build takes, of a plan for two threads, and how many synapses there are."""
    import brainevent
    from brainevent.network.plan.build import build_plan

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
    network = brainevent.Network([cells], [brainevent.Projection(cells, cells, connect, into="syn")])
    seconds, processor, entries = [], [], 0
    for seed in range(rounds + 1):  # the first compiles
        start, start_processor = time.perf_counter(), time.process_time()
        entries = build_plan(network, seed=seed, parts=2).entries
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return {"seconds": seconds[1:], "processor": processor[1:], "synapses": entries}
