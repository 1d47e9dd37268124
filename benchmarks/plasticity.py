# SPDX-License-Identifier: Apache-2.0
"""A step that multiplies by spikes and then changes the weights where neurons spiked, beside the product alone."""

from collections.abc import Sequence
from typing import Any

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row

_MATRIX = {"n": 10_000, "connections": 1000, "share": 0.01}
_BAR = Bar(3.0)
_STATIC = "static product"


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """On the CPU, with 10 million weights."""
    return _measure(options, "plasticity", "cpu", 100)


def measure_gpu_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """On a GPU, with 10 million weights."""
    return _measure(options, "gpu_plasticity", "gpu", 1000)


def _measure(options: Options, benchmark: str, platform: Any, steps: int) -> list[Row | Absent | Failed]:
    rounds = options.choose_rounds(full=9, quick=3)
    answer = run_probe("plasticity", {**_MATRIX, "steps": steps, "rounds": rounds}, platform=platform)
    samples = {name: [1e6 * sample for sample in found] for name, found in answer.items()}
    rows: list[Row | Absent | Failed] = [make_row(benchmark, _STATIC, "us", samples[_STATIC])]
    for name, found in samples.items():
        if name != _STATIC:
            theirs: dict[str, Any] = {"baseline": samples[_STATIC], "ratio_to": _STATIC, "bar": _BAR}
            rows.append(make_row(benchmark, f"product, then {name}", "us", found, **theirs))
    return rows
