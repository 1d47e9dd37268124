# SPDX-License-Identifier: Apache-2.0
"""What a network costs besides its steps: its start and memory, a step of next to nothing, a second run, a loop."""

import resource
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.probes.network import limit_processors, resident


def measure(what: str, threads: int = 1, **arguments: Any) -> dict[str, Any]:
    """Measure one of `start`, `step`, `two` and `loop`."""
    limit_processors(max(2, threads) if what == "two" else threads)
    return {"start": _start, "step": _step, "two": _two, "loop": _loop}[what](threads, **arguments)


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


def _loop(threads: int, model: str, n: int, steps: int, repeats: int) -> dict[str, Any]:
    """The CPU seconds of some steps, in turns: in one run, in a run each, and in calls of a stepper."""
    from benchmarks.probes.network_described import ours

    simulation = ours(model, n, threads)
    simulation.run(2_000)  # from the start, until it fires as it does later
    drive = np.zeros(simulation.plan.population("exc").size, np.float32)
    record, plain = ["exc.spikes", "inh.spikes"], simulation.stepper()
    spikes, both = simulation.stepper(record), simulation.stepper(record, "exc.exc")
    row, given = {"exc.exc": drive[None]}, {"exc.exc": drive}
    ways: dict[str, Callable[[], Any]] = {
        "one run": lambda: simulation.run(steps),
        "a run each": lambda: [simulation.run(1) for _ in range(steps)],
        "a run each, input and spikes": lambda: [simulation.run(1, record, row) for _ in range(steps)],
        "a stepper": lambda: [plain() for _ in range(steps)],
        "a stepper, spikes": lambda: [spikes() for _ in range(steps)],
        "a stepper, input and spikes": lambda: [both(given) for _ in range(steps)],
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(_seconds(way, time.process_time))
    return found


def _finish(runs: list[threading.Thread]) -> None:
    for run in runs:
        run.start()
    for run in runs:
        run.join()


def _seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    call()
    return clock() - begin
