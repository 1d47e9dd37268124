# SPDX-License-Identifier: Apache-2.0
"""Events times a matrix that is drawn each time, beside the PyPI package in the same run."""

from collections.abc import Iterator
from typing import Any

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row

_MATRIX = {"n": 100_000, "prob": 0.01, "share": 0.01}


def measure_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """On the CPU: 1000 rows of 1000 elements, and all 100 million."""
    peer = {} if options.peer is None else {"python": options.peer}
    return _measure(options, "drawn", "cpu", peer, Bar(1.5, at_least=True), all_rows=True)


def measure_gpu_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """On a GPU: the same."""
    peer = {} if options.peer_packages is None else {"packages": options.peer_packages}
    return _measure(options, "gpu_drawn", "gpu", peer, Bar(1.0, at_least=True), all_rows=True)


def _measure(
    options: Options, benchmark: str, platform: Any, peer: dict[str, Any], bar: Bar, *, all_rows: bool
) -> Iterator[Row | Absent | Failed]:
    arguments = {**_MATRIX, "rounds": options.choose_rounds(full=15, quick=5), "all_rows": all_rows}
    turns: list[tuple[dict[str, list[float]], dict[str, list[float]]]] = []
    for _ in range(2):  # in turns: a machine is not as fast all the time
        ours = run_probe("drawn", arguments, platform=platform)
        turns.append((ours, run_probe("drawn", arguments, platform=platform, **peer) if peer else {}))
    if not peer:
        yield Absent(PEER_NAME, "it is not here, or --no-peers was given")
    for name in turns[0][0]:
        ours, theirs = ([1e6 * sample for turn in turns for sample in turn[side].get(name, ())] for side in (0, 1))
        if not theirs:
            yield make_row(benchmark, name, "us", ours)
            continue
        yield make_row(benchmark, f"PyPI package: {name}", "us", theirs)
        how: dict[str, Any] = {"baseline": theirs, "ratio_to": "faster than PyPI", "inverse": True, "bar": bar}
        yield make_row(benchmark, f"ours: {name}", "us", ours, **how)
