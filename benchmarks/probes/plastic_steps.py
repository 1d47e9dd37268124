# SPDX-License-Identifier: Apache-2.0
"""Steps of a network with plastic synapses on a CPU, beside the same one in which nothing changes: processor time."""

import time
from collections.abc import Callable
from typing import Any

import jax

import brainevent as be
from benchmarks.probes.network import limit_processors
from benchmarks.probes.network_plastic import network

_DISCARD = 3_000  # steps before the clock starts


def measure(n: int, fan: int, steps: int, rounds: int, threads: int) -> dict[str, Any]:
    """Run both in turn, and the plastic one as a jitted function too; `rates` are in Hz.

    Of many short rounds, the shortest are those in which other programs disturb least.
    """
    limit_processors(threads)
    sims = {
        name: network(n, fan, plastic=name == "plastic").build(seed=1, backend="numba", threads=threads)
        for name in ("static", "plastic")
    }
    for sim in sims.values():
        sim.run(_DISCARD)
    plastic = sims["plastic"]
    state = plastic.state
    run = jax.jit(lambda state: be.simulate(plastic, state, {}, steps)[0])
    jax.block_until_ready(run(state))
    ways: dict[str, Callable[[], Any]] = {
        "static": lambda: sims["static"].run(steps),
        "plastic": lambda: plastic.run(steps),
        "simulate": lambda: jax.block_until_ready(run(state)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            seconds[name].append(time.process_time() - begin)
    counts = {name: sim.run(steps, record="cells.counts")["cells.counts"].sum() for name, sim in sims.items()}
    return {"seconds": seconds, "rates": {name: int(count) / (n * steps * 1e-4) for name, count in counts.items()}}
