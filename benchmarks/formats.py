# SPDX-License-Identifier: Apache-2.0
"""Equally sparse matrices in every format, times spikes from either side."""

from collections.abc import Sequence
from typing import Any

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Absent, Failed, Row, make_row

_MATRIX = {"n": 4_000, "fan_out": 80, "share": 0.01}
_WRITTEN = {"left": "spikes @ {}", "right": "{} @ spikes"}


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """On the CPU, in a loop of about a tenth of a second."""
    return _measure(options, "formats", "cpu", {"seconds": 0.1})


def measure_gpu_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """On a GPU, in a loop of known length."""
    return _measure(options, "gpu_formats", "gpu", {"turns": 256})


def _measure(options: Options, benchmark: str, platform: Any, how: dict[str, Any]) -> list[Row | Absent | Failed]:
    rounds = options.choose_rounds(full=9, quick=3)
    answer = run_probe("formats", {**_MATRIX, **how, "rounds": rounds}, platform=platform)
    samples = {name: [1e6 * sample for sample in found] for name, found in answer["samples"].items()}
    rows: list[Row | Absent | Failed] = []
    for name, found in samples.items():
        matrix, side = name.rsplit(maxsplit=1)
        rows.append(
            make_row(
                benchmark,
                _WRITTEN[side].format(matrix),
                "us",
                found,
                baseline=samples["CSR left"],
                ratio_to="spikes @ CSR",
                note=f"{answer['bytes'][matrix] / 1e6:.2f} MB",
            )
        )
    return rows
