# SPDX-License-Identifier: Apache-2.0
"""What a network costs besides its steps: its start and memory, a step of next to nothing, and a second run."""

import resource
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.probes.network import limit_processors, resident


def measure(what: str, threads: int = 1, **arguments: Any) -> dict[str, Any]:
    """Measure one of `start`, `step` and `two`."""
    limit_processors(max(2, threads) if what == "two" else threads)
    return {"start": _start, "step": _step, "two": _two}[what](threads, **arguments)


def _start(threads: int, model: str, n: int) -> dict[str, Any]:
    """The seconds from the description to the end of the first step, and the most bytes it took: of a new process."""
    from benchmarks.probes.network_described import ours

    before = resident()
    begin = time.perf_counter()
    ours(model, n, threads).run(1)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before}


def _step(threads: int, steps: int, repeats: int) -> dict[str, Any]:
    """The seconds of some steps of a neuron for each thread, which do next to nothing."""
    from benchmarks.probes.network_described import ours

    simulation = ours("idle", threads, threads)
    simulation.run(steps)
    return {"seconds": [_seconds(lambda: simulation.run(steps)) for _ in range(repeats)]}


def _two(threads: int, model: str, n: int, steps: int, repeats: int) -> dict[str, Any]:
    """The seconds of one simulation, and of two at once, each in a thread of Python, in turns."""
    from benchmarks.probes.network_described import ours

    both = [ours(model, n, threads, seed) for seed in (0, 1)]
    for simulation in both:
        simulation.run(steps)
    one, two = [], []
    for _ in range(repeats):
        one.append(_seconds(lambda: both[0].run(steps)))
        runs = [threading.Thread(target=simulation.run, args=(steps,)) for simulation in both]
        two.append(_seconds(lambda runs=runs: _finish(runs)))  # type: ignore[misc]
    return {"one": one, "two": two}


def _finish(runs: list[threading.Thread]) -> None:
    for run in runs:
        run.start()
    for run in runs:
        run.join()


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
