# SPDX-License-Identifier: Apache-2.0
"""Build: from a source text to a loaded operator, compiled and from the cache."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.probes.rounds import interleave
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Row, make_row

_COLD_CPP, _COLD_CUDA, _WARM = Bar(1.0, on="value"), Bar(0.5), Bar(5, on="value")
_ARCHITECTURE = "9.0"


@dataclass(frozen=True)
class _Language:
    """What is compiled, and for which machine."""

    name: Literal["cpp", "cuda"]
    title: str
    loader: str
    yardstick: str
    bar: Bar
    platform: Literal["cpu", "gpu"]
    arguments: dict[str, Any]
    cold_rounds: int = 5
    warm_rounds: int = 9


@dataclass(frozen=True)
class _Way:
    """A contender of the probe, in our process or in the peer's."""

    contender: str
    python: Path | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def load(self, language: _Language, cache: str, cold: bool) -> list[float]:
        """The seconds of each load of a fresh process."""
        arguments = language.arguments | self.arguments
        arguments |= {"contender": self.contender, "language": language.name, "cache": cache, "cold": cold}
        return run_probe("build", arguments, self.python, language.platform)


_CPP = _Language("cpp", "C++", "load_cpp_inline", "XLA's C++ headers, g++ -O3", _COLD_CPP, "cpu", {"run": True})


def measure_rows(options: Options) -> Sequence[Row | Absent]:
    """C++; and CUDA C++ for one architecture where there is nvcc, which needs no GPU."""
    found = _measure(options, _CPP, {})
    toolkit = _find_toolkit()
    if toolkit is None:
        return [*found, Absent("CUDA C++", "there is no nvcc here")]
    cuda = _cuda("cpu", {"run": False, "capability": _ARCHITECTURE})
    return [*found, *_measure(options, cuda, {"cuda_home": toolkit})]


def measure_gpu_rows(options: Options) -> Sequence[Row | Absent]:
    """CUDA C++ for this machine's GPU, where the result is checked, too."""
    # Time on a GPU is dear.
    return _measure(options, replace(_cuda("gpu", {"run": True}), cold_rounds=3, warm_rounds=5), {})


def _cuda(platform: Literal["cpu", "gpu"], arguments: dict[str, Any]) -> _Language:
    return _Language("cuda", "CUDA", "load_cuda_inline", "XLA's C++ headers, nvcc -O3", _COLD_CUDA, platform, arguments)


def _find_toolkit() -> str | None:
    from brainevent.errors import KernelToolchainError
    from brainevent.toolchain.find import find_cuda_toolkit

    try:
        return find_cuda_toolkit().root
    except KernelToolchainError:
        return None


def _measure(options: Options, language: _Language, peer_arguments: dict[str, Any]) -> Sequence[Row | Absent]:
    ways = {"module": _Way("module"), "handler": _Way("handler")}
    if options.peer:
        ways["peer"] = _Way("module", options.peer, peer_arguments)
    absent = []
    for name in list(ways):
        try:
            _cold_load(ways[name], language)  # brings the compiler's files into memory
        except ProbeError as error:
            if name != "peer":
                raise
            last = str(error).splitlines()[-1]
            absent.append(Absent(f"{language.title}: {PEER_NAME}", f"its {language.loader} failed here: {last}"))
            del ways[name]
    return [*_cold_rows(options, language, ways), *_warm_rows(options, language, ways), *absent]


def _cold_load(way: _Way, language: _Language) -> float:
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as cache:
        return way.load(language, cache, cold=True)[0]


def _cold_rows(options: Options, language: _Language, ways: dict[str, _Way]) -> list[Row]:
    names = {"module": language.loader, "handler": language.yardstick, "peer": f"{PEER_NAME}: {language.loader}"}
    timers = {name: _timer(way, language) for name, way in ways.items()}
    samples = interleave(timers, options.choose_rounds(full=language.cold_rounds, quick=1))
    baseline = "peer" if language.name == "cuda" and "peer" in ways else "handler"
    return [
        make_row(
            _benchmark(language),
            f"{language.title}, cold: {names[name]}",
            "s",
            samples[name],
            baseline=samples[baseline],
            ratio_to="PyPI package" if baseline == "peer" else "XLA's C++ headers",
            bar=language.bar if name == "module" else None,
            note="a new process, an empty cache",
        )
        for name in ways
    ]


def _timer(way: _Way, language: _Language) -> Callable[[], float]:
    return lambda: _cold_load(way, language)


def _warm_rows(options: Options, language: _Language, ways: dict[str, _Way]) -> list[Row]:
    """Loads from a cache that an earlier process filled: a process's first one, and its second."""
    names = {"module": language.loader, "peer": f"{PEER_NAME}: {language.loader}"}
    samples: dict[str, list[list[float]]] = {name: [] for name in ways if name in names}
    with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
        caches = {name: str(Path(folder, name)) for name in samples}
        for _ in range(1 + options.choose_rounds(full=language.warm_rounds, quick=3)):
            for name, more in samples.items():
                more.append(ways[name].load(language, caches[name], cold=False))
    return [
        make_row(
            _benchmark(language),
            f"{language.title}, warm: {names[name]}",
            "ms",
            [1e3 * one[which] for one in more[1:]],  # the first of all was cold
            bar=_WARM if name == "module" else None,
            note=note,
        )
        for which, note in enumerate(("a new process", "again in the same process"))
        for name, more in samples.items()
    ]


def _benchmark(language: _Language) -> str:
    return "gpu_build" if language.platform == "gpu" else "build"
