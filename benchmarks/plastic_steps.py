# SPDX-License-Identifier: Apache-2.0
"""A step with 10 million plastic synapses on a CPU, over one of the same network in which nothing changes."""

from collections.abc import Iterator

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_STEPS = 1_000
_KEPT = 4  # one round of so many, the shortest: others are disturbed by what else the machine does


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Processor time of a step, static and plastic, and of one in a jitted function."""
    title = "10 000 neurons, 10 million synapses, one thread"
    rounds = options.choose_rounds(full=40, quick=8)
    arguments = {"n": 10_000, "fan": 1_000, "steps": _STEPS, "rounds": rounds, "threads": 1}
    try:
        answer = run_probe("plastic_steps", arguments, platform="cpu")
    except ProbeError as error:
        yield Failed(title, last_line(error))
        return
    kept = {name: sorted(seconds)[: -(-rounds // _KEPT)] for name, seconds in answer["seconds"].items()}
    static, plastic, simulated = ([1e6 * x / _STEPS for x in kept[way]] for way in ("static", "plastic", "simulate"))
    notes = {name: f"processor time; {rate:.2f} Hz" for name, rate in answer["rates"].items()}
    of_static = {"baseline": static, "ratio_to": "nothing changes"}
    yield make_row("plastic_steps", f"{title}: nothing changes", "us", static, note=notes["static"])
    stdp, bar = f"{title}: pair STDP of all", Bar(2.5)
    yield make_row("plastic_steps", stdp, "us", plastic, bar=bar, note=notes["plastic"], **of_static)
    yield make_row("plastic_steps", f"{stdp}, jitted simulate", "us", simulated, note=f"{_STEPS} steps", **of_static)
