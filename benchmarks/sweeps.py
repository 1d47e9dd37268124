# SPDX-License-Identifier: Apache-2.0
"""Many runs of one network side by side, beside one after another."""

from collections.abc import Iterator
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.probes.flywire import NEURONS
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

TITLE = "Sweeps"


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """64 networks of 1 000 neurons on two cores, as a sweep and under `jax.vmap`."""
    arguments = {"model": "cuba", "n": 1000, "elements": 64, "steps": 10_000, "threads": 2}
    rounds = options.choose_rounds(full=9, quick=3)
    yield from _rows("sweeps", "CUBA, 64 x 1 000 neurons, two cores", "cpu", {**arguments, "rounds": rounds}, 1.8)


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed]:
    """A GPU full of CUBA, and trials of a network that fills it alone."""
    rounds = options.choose_rounds(full=5, quick=2)
    for name, model, n, elements, limit in (
        ("CUBA, 132 x 4 000 neurons", "cuba", 4000, 132, 6.0),
        ("FlyWire-class connectome, 30 trials of 10 s", "flywire", NEURONS, 30, 1 / 0.8),
    ):
        arguments = {"model": model, "n": n, "elements": elements, "steps": 100_000, "rounds": rounds, "whole": False}
        yield from _rows("gpu_sweeps", name, "gpu", arguments, limit)


def _rows(
    benchmark: str, name: str, platform: Literal["cpu", "gpu"], arguments: dict[str, Any], limit: float
) -> Iterator[Row | Failed]:
    try:
        seconds = run_probe("sweeps", arguments, platform=platform)
    except ProbeError as error:
        yield Failed(f"{TITLE}: {name}", last_line(error))
        return
    alone = seconds.pop("alone")
    titles = {"sweep": "sim.sweep", "vmap": "be.simulate under jax.vmap"}
    for way, samples in seconds.items():
        yield make_row(
            benchmark,
            f"{TITLE}: {name}, {titles[way]}",
            "s",
            samples,
            baseline=alone,
            ratio_to="faster than one after another",
            inverse=True,
            bar=Bar(limit, at_least=True),
            note=f"{arguments['steps']} steps each",
        )
