# SPDX-License-Identifier: Apache-2.0
"""Tuned: one call of a kernel that `tune` has chosen, beside the same kernel as a default; on the CPU and on a GPU."""

from typing import Literal

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_BAR = Bar(1.02)
_WAYS = {"default": "the operator's default", "named": "named by backend=", "tuned": "chosen by tune"}
_PLACES = {"loop": "a jitted loop of {}", "jitted": "a jitted call from Python", "eager": "an eager call from Python"}


def measure_rows(options: Options) -> list[Row]:
    """One row per way and place; the ratio is to the default."""
    return _measure_rows(
        "tuned", options, "cpu", 3, {"loop": 100_000, "copies": 11, "jitted_calls": 2_000, "eager_calls": 300}
    )


def measure_gpu_rows(options: Options) -> list[Row]:
    """The same with a CUDA kernel."""
    return _measure_rows(
        "gpu_tuned", options, "gpu", 2, {"loop": 2_000, "copies": 1, "jitted_calls": 300, "eager_calls": 100}
    )


def _measure_rows(
    benchmark: str, options: Options, platform: Literal["cpu", "gpu"], processes: int, counts: dict[str, int]
) -> list[Row]:
    arguments = {"platform": platform, **counts, "rounds": options.choose_rounds(full=22, quick=11)}
    samples: dict[str, list[float]] = {f"{place}_{way}": [] for place in _PLACES for way in _WAYS}
    for _ in range(1 if options.quick else processes):
        for name, more in run_probe("tuned", arguments, platform=platform).items():
            samples[name] += [1e6 * seconds for seconds in more]
    return [
        make_row(
            benchmark,
            f"{label}; {said.format(counts['loop'])}",
            "us",
            samples[f"{place}_{way}"],
            baseline=samples[f"{place}_default"],
            ratio_to="default",
            # An eager call that names a backend checks the name: that is no dispatch.
            bar=_BAR if way == "tuned" or (way == "named" and place != "eager") else None,
            note="the same program" if way != "default" and place != "eager" else "",
        )
        for place, said in _PLACES.items()
        for way, label in _WAYS.items()
    ]
