# SPDX-License-Identifier: Apache-2.0
"""The start of training: what a process traces, lowers and compiles, with nothing kept and with all that is kept.

All caches are kept by an earlier process of the same program: the package's, JAX's own of compiled programs, and the
driver's. Only what is beyond a loop by hand, whose caches are kept as well, can be the package's doing.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_BY_HAND = "a scan by hand"
_WAYS = {
    "cpu": {"hand": _BY_HAND, "numba": "backend numba"},
    "gpu": {"hand": _BY_HAND, "cuda": "backend cuda"},
}
_SIZES = {"cpu": (256, 32, 250), "gpu": (256, 256, 250)}
_AGAIN = {"batch and steps": {"batch": 24, "steps": 200}, "hidden neurons": {"hidden": 192}}
_WHEN = ("cold", "kept")
_PHASES = ("trace", "lower", "compile")
Seconds = dict[str, float]
_COLD, _KEPT = Bar(5.0, on="value"), Bar(0.2, on="value")
# Of the package, of Numba, of JAX and of the driver.
_CACHES = ("BRAINEVENT_CACHE_DIR", "NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "CUDA_CACHE_PATH")
_KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """On a CPU, in seconds of the processor."""
    return _rows("training_start", options, "cpu")


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed]:
    """On a GPU, in seconds of the wall."""
    return _rows("gpu_training_start", options, "gpu")


def _rows(benchmark: str, options: Options, platform: Literal["cpu", "gpu"]) -> Iterator[Row | Failed]:
    ways = _WAYS[platform]
    found: dict[tuple[str, str], list[Seconds]] = {(way, when): [] for way in ways for when in _WHEN}
    for number in range(options.choose_rounds(full=5, quick=2)):
        again = list(_AGAIN.values())[number % len(_AGAIN)]
        for way, label in ways.items():
            try:
                for when, seconds in _of_way(platform, way, again).items():
                    found[way, when].append(seconds)
            except ProbeError as error:
                yield Failed(label, last_line(error))
                return
    for when in _WHEN:
        by_hand = [_total(one) for one in found["hand", when]]
        for way, label in ways.items():
            each = found[way, when]
            totals = [_total(one) for one in each]
            own = {"baseline": by_hand, "ratio_to": _BY_HAND} if way != "hand" else {}
            bar = _COLD if way != "hand" and when == "cold" else None
            yield make_row(benchmark, f"{label}; {when}", "s", totals, bar=bar, note=_said(each), **own)
            if way != "hand" and when == "kept":
                beyond = [one - other for one, other in zip(totals, by_hand, strict=True)]
                yield make_row(benchmark, f"{label}, beyond {_BY_HAND}; kept", "s", beyond, bar=_KEPT)
    for what, place in zip(_AGAIN, range(len(_AGAIN)), strict=True):
        for way, label in ways.items():
            totals = [_total(one, " again") for one in found[way, "cold"][place :: len(_AGAIN)]]
            if totals:
                yield make_row(benchmark, f"{label}; cold, then other {what} in the same process", "s", totals)


def _of_way(platform: Literal["cpu", "gpu"], way: str, again: dict[str, int]) -> dict[str, Seconds]:
    """Run a program in two processes, the second of which finds what the first kept."""
    hidden, batch, steps = _SIZES[platform]
    arguments = {"hidden": hidden, "batch": batch, "steps": steps, "way": way, "again": again}
    arguments["clock"] = "process" if platform == "cpu" else "wall"
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
        caches = {name: str(Path(folder, name.lower())) for name in _CACHES}
        for path in caches.values():
            Path(path).mkdir(mode=0o700)
        environment = {**caches, **_KEEP_ALL}
        return {when: run_probe("training_start", arguments, None, platform, None, environment) for when in _WHEN}


def _total(seconds: Seconds, suffix: str = "") -> float:
    return sum(seconds[phase + suffix] for phase in _PHASES)


def _said(each: list[Seconds]) -> str:
    """Return the phases in words: the medians, also of what comes before and after."""
    names = [name for name in ("import", "build", *_PHASES, "run") if name in each[0]]
    return ", ".join(f"{name} {sorted(one[name] for one in each)[len(each) // 2]:.2f}" for name in names)
