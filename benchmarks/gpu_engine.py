# SPDX-License-Identifier: Apache-2.0
"""CUBA and COBA in the kernel for whole networks: real-time factors at several sizes, and where a step's time goes."""

from collections.abc import Iterator
from typing import Any

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_engine"
_DT = 1e-4  # seconds of the network's time, in a step
# How long a run is: so long that what it costs once does not hide what a step costs.
_STEPS = {4_000: 100_000, 40_000: 100_000, 400_000: 100_000, 4_000_000: 2_000}
_DISCARD = {4_000: 5_000, 40_000: 5_000, 400_000: 5_000, 4_000_000: 1_000}  # steps before the clock starts
# Of the real-time factor with all spikes on the host; COBA may take 1.3 times as long.
_BARS = {4_000: 0.012, 40_000: 0.018, 400_000: 0.045, 4_000_000: 0.16}
_COBA = 1.3
# Rates in Hz of network.cc from its first step on: 100 000 steps of 4 seeds, 20 000 of 2 for 400 000 neurons, 5 000 of
# one for 4 million.
RIGHT = {
    ("cuba", 4_000): 5.42,
    ("cuba", 40_000): 5.64,
    ("cuba", 400_000): 5.65,
    ("cuba", 4_000_000): 5.72,
    ("coba", 4_000): 20.66,
    ("coba", 40_000): 21.74,
    ("coba", 400_000): 21.63,
}
# How far means may be from them, as a part.
_TOLERANCE = {4_000: 0.15, 40_000: 0.06, 400_000: 0.06, 4_000_000: 0.06}
_RECORDED = ("spikes", "counts", "nothing")
_CLOCKED = [(model, n) for model in ("cuba", "coba") for n in (4_000, 40_000, 400_000)]
_CLOCKED += [("cuba", 4_000_000)]
_PD14 = ("pd14_poisson", 0)


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Real-time factors until all spikes, or their numbers, are on the host, or without; then cycles of a step."""
    repeats = options.choose_rounds(full=5, quick=2)
    for model, n in RIGHT:
        for record in _RECORDED:
            yield _factor(model, n, record, repeats)
    for model, n in (*_CLOCKED, _PD14):
        yield from _cycles(model, n)


def _title(model: str, n: int) -> str:
    return f"{model}, {n} neurons" if n else "PD14, Poisson drive"


def _factor(model: str, n: int, record: str, repeats: int) -> Row | Failed:
    title = f"{_title(model, n)}, {record} recorded"
    steps = _STEPS[n]
    arguments = {"model": model, "n": n, "steps": steps, "repeats": repeats, "record_in": record}
    arguments["discard"] = _DISCARD[n]
    try:
        answer = run_probe("network_engine", arguments, platform="gpu")
    except ProbeError as error:
        return Failed(title, last_line(error))
    rate, right = answer["rate"], RIGHT[model, n]
    if abs(rate / right - 1) > _TOLERANCE[n]:
        return Failed(title, f"it fires at {rate:.2f} Hz, not at {right:g} Hz: another network")
    limit = _BARS[n] * (_COBA if model == "coba" else 1)
    return make_row(
        NAME,
        title,
        "RTF",
        [seconds / (steps * _DT) for seconds in answer["seconds"]],
        bar=Bar(limit, on="value") if record == "spikes" else None,
        note=f"{steps} steps after {_DISCARD[n]}; {rate:.2f} Hz",
    )


def _cycles(model: str, n: int) -> Iterator[Row | Failed]:
    title = _title(model, n)
    try:
        answer: dict[str, Any] = run_probe("network_clocks", {"model": model, "n": n, "steps": 5_000}, platform="gpu")
    except ProbeError as error:
        yield Failed(f"{title}: clocks", last_line(error))
        return
    for mark, cycles in answer["cycles"].items():
        yield make_row(NAME, f"{title}: {mark}", "cycles", cycles, note=f"of {len(cycles)} blocks; {answer['where']}")
