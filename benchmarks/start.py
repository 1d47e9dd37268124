# SPDX-License-Identifier: Apache-2.0
"""Start on the CPU: the first products and the first kernel of a process, compiled, or kept by an earlier one."""

import tempfile
from collections.abc import Sequence

from benchmarks.options import Options
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

NAME = "start"
LABELS = {
    "matrix_events": "first CSR @ BinaryArray",
    "events_matrix": "then the first BinaryArray @ CSR",
    "kernel": "then a Numba kernel of a user",
}
_PHASES = {"off": "nothing is kept", "cold": "kept for others", "kept": "kept by an earlier process"}
_BAR = Bar(0.1, on="value")


def measure_rows(options: Options) -> Sequence[Row]:
    """CPU seconds of processes that keep nothing, that fill the cache, and that find it filled, in turns."""
    seconds: dict[str, dict[str, list[float]]] = {phase: {name: [] for name in LABELS} for phase in _PHASES}
    for _ in range(options.choose_rounds(full=5, quick=2)):
        with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
            for phase, samples in seconds.items():
                environment = {"BRAINEVENT_CACHE_DIR": folder, "BRAINEVENT_NUMBA_CACHE": "0" if phase == "off" else "1"}
                for name, sample in run_probe(NAME, {}, environment=environment).items():
                    samples[name].append(sample)
    return [
        make_row(
            NAME,
            f"{label}; {phase}",
            "s",
            samples[name],
            baseline=seconds["off"][name],
            ratio_to="nothing kept",
            bar=_BAR if phase == "kept" else None,
            note=condition,
        )
        for (phase, condition), samples in zip(_PHASES.items(), seconds.values(), strict=True)
        for name, label in LABELS.items()
    ]
