# SPDX-License-Identifier: Apache-2.0
"""Latency: one call from Python over 64 floats, eager and jitted, until its result is there."""

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import run_probe
from benchmarks.row import Row, make_row

_OURS = {
    "jax": "jnp.add",
    "cpp": "C++ handler",
    "numba_kernel": "numba_kernel",
    "operator": "XLACustomKernel",
}
_PEER = {
    "cpp": "C++ handler, in the peer's process",
    "numba_kernel": f"{PEER_NAME}: numba_kernel",
    "operator": f"{PEER_NAME}: XLACustomKernel",
}


def measure_rows(options: Options) -> list[Row]:
    """Eager rows, then jitted ones; the ratio is to C++."""
    ours = _measure(options, _OURS)
    peer = _measure(options, _PEER, peer=True) if options.peer else {}
    return [
        row
        for way in ("eager", "jitted")
        for row in _rows(_OURS, ours, way) + (_rows(_PEER, peer, way) if peer else [])
    ]


def _measure(options: Options, names: dict[str, str], peer: bool = False) -> dict[str, list[float]]:
    arguments = {
        "contenders": list(names),
        "eager_calls": 300,
        "jitted_calls": 2_000,
        "rounds": options.choose_rounds(full=21, quick=5),
    }
    measured = run_probe("latency", arguments, options.peer if peer else None)
    return {name: [1e6 * sample for sample in samples] for name, samples in measured.items()}


def _rows(names: dict[str, str], microseconds: dict[str, list[float]], way: str) -> list[Row]:
    baseline = microseconds[f"{way}_cpp"]
    return [
        make_row("latency", f"{label}, {way}", "us", microseconds[f"{way}_{name}"], baseline=baseline, ratio_to="C++")
        for name, label in names.items()
    ]
