# SPDX-License-Identifier: Apache-2.0
"""What a network costs besides its steps: its start and memory, a step of next to nothing, two runs at once, a loop."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "network_costs"
_SYNAPSES_OF_PD14 = 298.88e6
_STEP_BARS = {1: 0.2, 2: 2.0}  # microseconds, by threads
_IDLE_STEPS = 200_000
_LOOPED_STEPS = 2_000
_LOOP_BAR = 15  # microseconds


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Each part by itself: one that fails costs no other its rows."""
    parts: dict[str, Callable[[Options], Iterator[Row]]] = {
        "start of COBA": _coba_starts,
        "start of PD14": _pd14_starts,
        "fixed cost of a step": _steps,
        "two runs at once": _two_at_once,
        "a loop in Python": _loops,
    }
    for what, measure in parts.items():
        try:
            yield from measure(options)
        except ProbeError as error:
            yield Failed(what, last_line(error))


def _coba_starts(options: Options) -> Iterator[Row]:
    """New processes: the first of a pair compiles and keeps the code, the second finds it."""
    seconds: dict[str, list[float]] = {"nothing kept": [], "code kept by an earlier process": []}
    for _ in range(options.choose_rounds(full=5, quick=2)):
        with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
            for samples in seconds.values():
                samples.append(_start("coba", 4_000, 1, Path(folder))["seconds"])
    for kept, samples in seconds.items():
        bar = Bar(1, on="value") if kept.startswith("code") else None
        yield make_row(NAME, f"COBA, from Network(...) to the first step: {kept}", "s", samples, bar=bar)


def _pd14_starts(options: Options) -> Iterator[Row]:
    """New processes with code kept: seconds, and the most memory."""
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
        _start("coba", 4_000, 2, Path(folder))  # keeps what does not depend on the rule
        found = [_start("pd14_poisson", 0, 2, Path(folder)) for _ in range(options.choose_rounds(full=3, quick=1))]
    name = "PD14, from Network(...) to the first step, 2 threads"
    yield make_row(NAME, name, "s", [one["seconds"] for one in found], bar=Bar(20, on="value"))
    sizes = [one["bytes"] / _SYNAPSES_OF_PD14 for one in found]
    note = "the largest resident memory, less that before"
    yield make_row(NAME, "PD14, memory at the peak", "bytes a synapse", sizes, bar=Bar(8, on="value"), note=note)


def _start(model: str, n: int, threads: int, folder: Path) -> dict[str, Any]:
    arguments = {"what": "start", "model": model, "n": n, "threads": threads}
    answer: dict[str, Any] = run_probe(NAME, arguments, environment={"BRAINEVENT_CACHE_DIR": str(folder)})
    return answer


def _steps(options: Options) -> Iterator[Row]:
    """A step of a neuron for each thread, which does next to nothing."""
    for threads, limit in _STEP_BARS.items():
        arguments = {"what": "step", "threads": threads, "steps": _IDLE_STEPS, "repeats": 5}
        processes = [run_probe(NAME, arguments) for _ in range(options.choose_rounds(full=3, quick=1))]
        samples = [1e6 * s / _IDLE_STEPS for one in processes for s in one["seconds"]]
        name = f"a step of next to nothing, {threads} thread{'s'[: threads - 1]}"
        yield make_row(NAME, name, "us", samples, bar=Bar(limit, on="value"))


def _two_at_once(options: Options) -> Iterator[Row]:
    """COBA of 40 000 neurons: two simulations at once, each in its own thread of Python, beside one."""
    repeats = options.choose_rounds(full=7, quick=3)
    for threads in (1, 2):
        arguments = {
            "what": "two",
            "model": "coba",
            "n": 40_000,
            "steps": 1_000,
            "threads": threads,
            "repeats": repeats,
        }
        found = run_probe(NAME, arguments)
        name = f"two runs at once on two processors, {threads} thread{'s'[: threads - 1]} each"
        yield make_row(NAME, name, "s", found["two"], baseline=found["one"], ratio_to="one run", bar=Bar(2.5))


def _loops(options: Options) -> Iterator[Row]:
    """CUBA of 4 000 neurons: single steps that Python asks for, beside one run, in CPU time."""
    rounds, repeats = options.choose_rounds(full=5, quick=1), 5
    arguments = {"what": "loop", "model": "cuba", "n": 4_000, "steps": _LOOPED_STEPS, "threads": 1, "repeats": repeats}
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for way, found in run_probe(NAME, arguments).items():
            seconds.setdefault(way, []).extend(1e6 * one / _LOOPED_STEPS for one in found)
    for way, samples in seconds.items():
        bar = Bar(_LOOP_BAR, on="value") if way == "a stepper, input and spikes" else None
        baseline = None if way == "one run" else seconds["one run"]
        name = f"CUBA, 4 000 neurons, a step: {way}"
        yield make_row(NAME, name, "us CPU", samples, baseline=baseline, ratio_to="one run", bar=bar)
