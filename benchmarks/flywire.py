# SPDX-License-Identifier: Apache-2.0
"""A network of the size of the fly brain's connectome: real-time factors on a CPU and on a GPU."""

from collections.abc import Iterator
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.probes.flywire import NEURONS
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "flywire"
TITLE = "FlyWire-class connectome"
_DT = 1e-4  # seconds of the network's time, in a step
_STEPS = {"cpu": 10_000, "gpu": 100_000}
_BAR = 0.05  # of the real-time factor on a GPU, with all spikes on the host
# Spikes a second: given as some 17 000, of some 460 neurons. Over seeds they differ by 4 % (standard deviation).
RIGHT = 17_000
_TOLERANCE = 0.15


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """A second on the CPU, with one thread and with two."""
    for threads in (1, 2):
        name = f"the network engine, {threads} thread{'s'[: threads - 1]}"
        yield _factor(NAME, name, "cpu", options.choose_rounds(full=5, quick=2), {"threads": threads})


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed]:
    """Ten seconds on a GPU, until all spikes, or their numbers, are on the host, or without recording."""
    for record in ("spikes", "counts", "nothing"):
        name = f"the network engine, {record} recorded"
        bar = Bar(_BAR, on="value") if record == "spikes" else None
        yield _factor(f"gpu_{NAME}", name, "gpu", options.choose_rounds(full=5, quick=2), {"record_in": record}, bar)


def _factor(
    benchmark: str,
    name: str,
    platform: Literal["cpu", "gpu"],
    repeats: int,
    more: dict[str, Any],
    bar: Bar | None = None,
) -> Row | Failed:
    steps = _STEPS[platform]
    arguments = {"model": "flywire", "n": NEURONS, "steps": steps, "repeats": repeats, **more}
    try:
        answer = run_probe("network_engine", arguments, platform=platform)
    except ProbeError as error:
        return Failed(f"{TITLE}: {name}", last_line(error))
    spikes = answer["rate"] * NEURONS
    if abs(spikes / RIGHT - 1) > _TOLERANCE:
        return Failed(f"{TITLE}: {name}", f"{spikes:.0f} spikes a second instead of some {RIGHT}: another network")
    return make_row(
        benchmark,
        f"{TITLE}: {name}",
        "RTF",
        [seconds / (steps * _DT) for seconds in answer["seconds"]],
        bar=bar,
        note=f"{steps} steps; {spikes:.0f} spikes a second, of {answer['active']:.0f} neurons",
    )
