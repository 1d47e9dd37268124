# SPDX-License-Identifier: Apache-2.0
"""Compile: from a kernel's source text to its first result, and one more shape of a known kernel."""

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import run_probe
from benchmarks.row import Row, make_row

_PHASES = {
    "first": "first kernel of a process",
    "new": "another new kernel",
    "shape": "a known kernel, a new shape",
}
_NOTES = {
    "first": "with the imports it needs",
    "new": "build, registration and XLA's compilation",
    "shape": "tracing and XLA's compilation",
}


def measure_rows(options: Options) -> list[Row]:
    """Phase by phase: C++, ours, the peer's; the ratio is to C++ in the same process."""
    contenders = {"cpp": "C++ with g++ -O3", "numba_kernel": "numba_kernel"}
    ours = _measure(options)
    peer = _measure(options, peer=True) if options.peer else {}
    rows = []
    for phase, label in _PHASES.items():
        for name, contender in contenders.items():
            rows.append(_row(f"{contender}: {label}", phase, name, ours))
        if peer:
            rows.append(_row(f"{PEER_NAME}: {label}", phase, "numba_kernel", peer))
    return rows


def _measure(options: Options, peer: bool = False) -> dict[str, list[float]]:
    """Join the samples of several processes, in milliseconds."""
    arguments = {
        "contenders": ["cpp", "numba_kernel"],
        "rounds": options.choose_rounds(full=3, quick=1),
        "shapes": 5 if options.quick else 10,
    }
    joined: dict[str, list[float]] = {}
    for _ in range(1 if options.quick else 3):
        answer = run_probe("compile_time", arguments, options.peer if peer else None)
        for name, samples in answer.items():
            joined.setdefault(name, []).extend(1e3 * sample for sample in samples)
    return joined


def _row(label: str, phase: str, name: str, milliseconds: dict[str, list[float]]) -> Row:
    samples, baseline = milliseconds[f"{phase}_{name}"], milliseconds[f"{phase}_cpp"]
    return make_row("compile", label, "ms", samples, baseline=baseline, ratio_to="C++", note=_NOTES[phase])
