# SPDX-License-Identifier: Apache-2.0
"""Where the time of a step goes on a GPU: cycles of each block to the marks of a step."""

from typing import Any

from benchmarks.probes.network_described import NETWORKS

_FIRST = 1_000  # steps before the clocks count


def measure(model: str, n: int, steps: int) -> dict[str, Any]:
    """Run the network with clocks in its kernel; return the mean cycles to each mark, of each block."""
    from brainevent.network.gpu.clocks import MARKS

    simulation = NETWORKS[model](n).build(seed=1, backend="cuda", clocks=True)
    simulation.run(_FIRST)
    clocks = simulation.engine.clocks
    clocks.clear()
    simulation.run(steps)
    cycles = clocks.read()
    return {
        "cycles": {name: cycles[:, k].tolist() for k, name in enumerate(MARKS)},
        "where": simulation.engine.placement.partition("; cycles")[0].partition(": ")[2],
    }
