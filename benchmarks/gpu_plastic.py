# SPDX-License-Identifier: Apache-2.0
"""A step of a network with 10 million plastic synapses, over one of the same network in which nothing changes."""

from collections.abc import Iterator

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_plastic"
_TITLE = "10 000 neurons, 10 million synapses"
_STEPS = 20_000
_RATE = 7.0, 0.2  # in Hz, and how far from it a network may be, as a part
_STATIC = "nothing changes"


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Microseconds of a step, static and plastic, and bytes of a plastic synapse."""
    rounds = options.choose_rounds(full=9, quick=3)
    try:
        answer = run_probe(
            "network_plastic", {"n": 10_000, "fan": 1_000, "steps": _STEPS, "rounds": rounds}, platform="gpu"
        )
    except ProbeError as error:
        yield Failed(_TITLE, last_line(error))
        return
    right, most = _RATE
    for name, rate in answer["rates"].items():
        if abs(rate / right - 1) > most:
            yield Failed(_TITLE, f"the {name} one fires at {rate:.2f} Hz, not at {right:g} Hz: another network")
            return
    if answer["changed"] < 0.5:
        yield Failed(_TITLE, f"{100 * answer['changed']:.0f} % of the weights changed: nothing was learnt")
        return
    static, plastic = ([1e6 * x / _STEPS for x in answer["seconds"][name]] for name in ("static", "plastic"))
    notes = {name: f"{_STEPS} steps, counts recorded; {rate:.2f} Hz" for name, rate in answer["rates"].items()}
    yield make_row(NAME, f"{_TITLE}: {_STATIC}", "us", static, note=notes["static"])
    yield make_row(
        NAME,
        f"{_TITLE}: pair STDP of all",
        "us",
        plastic,
        baseline=static,
        ratio_to=_STATIC,
        bar=Bar(1.6),
        note=notes["plastic"],
    )
    yield make_row(NAME, f"{_TITLE}: memory", "bytes", [answer["bytes"]], bar=Bar(12.0, on="value"), note="a synapse")
