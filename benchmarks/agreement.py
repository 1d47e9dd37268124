# SPDX-License-Identifier: Apache-2.0
"""Agreement: what our benchmark says of kernels of known length, beside other clocks; on the CPU and on a GPU."""

import importlib.util
from collections.abc import Sequence
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_DURATIONS = {"20 us": 20e-6, "200 us": 200e-6, "2 ms": 2e-3, "20 ms": 20e-3}
_AGREES = Bar(0.05, around_one=True)
# Calls from Python say less exactly what chained calls should take.
_TRUE = Bar(0.1, around_one=True)
_NOT_FAST = Bar(1.0, at_least=True)

Found = list[Row | Absent | Failed]
Samples = dict[str, list[float]]


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """Single calls of a Numba kernel, chained calls of a C++ kernel, and what plain loops get wrong."""
    agreement = _Agreement("agreement", "cpu", options)
    agreement.add_single("numba")
    agreement.add_pytest("numba")
    agreement.add_chain("cpp", "std::chrono within the kernel")
    agreement.add_traps("cpp")
    return agreement.found


def measure_gpu_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """The same of a CUDA kernel, whose launches are timed by events of the device."""
    agreement = _Agreement("gpu_agreement", "gpu", options)
    agreement.add_single("cuda")
    agreement.add_chain("cuda", "device events around launches")
    agreement.add_traps("cuda")
    return agreement.found


class _Agreement:
    """The rows of one platform; a part whose process fails costs the others nothing."""

    def __init__(self, benchmark: str, platform: Literal["cpu", "gpu"], options: Options):
        self.benchmark, self.platform, self.options = benchmark, platform, options
        self.found: Found = []

    def add_single(self, language: str) -> None:
        """Single calls, beside timeit."""
        samples = self._run("agreement", "single calls", part="single", language=language, durations=_DURATIONS)
        for name in _DURATIONS if samples else ():
            self._row(samples, f"{name}, single calls: timeit", f"timeit {name}")
            self._row(samples, f"{name}, single calls: ours", f"ours {name}", f"timeit {name}", "timeit", _AGREES)

    def add_pytest(self, language: str) -> None:
        """Single calls, beside pytest-benchmark."""
        if importlib.util.find_spec("pytest_benchmark") is None:
            self.found.append(Absent("pytest-benchmark", "it is not installed here: pip install pytest-benchmark"))
            return
        # It takes about a second for each sample.
        arguments = {"language": language, "durations": _DURATIONS, "full": 3, "quick": 1}
        samples = self._run("pytest_calls", "pytest-benchmark", **arguments)
        for name in _DURATIONS if samples else ():
            self._row(samples, f"{name}, single calls in pytest: pytest-benchmark", f"pytest {name}")
            theirs = (f"pytest {name}", "pytest-benchmark", _AGREES)
            self._row(samples, f"{name}, single calls in pytest: ours", f"ours {name}", *theirs)

    def add_chain(self, language: str, clock: str) -> None:
        """Chained calls, beside a clock of the kernel alone."""
        rounds = {"full": 5 if self.platform == "cpu" else 3, "quick": 2}  # XLA compiles two loops for each sample
        arguments = {"part": "chain", "language": language, "durations": _DURATIONS}
        samples = self._run("agreement", "chained calls", **arguments, **rounds)
        for name in _DURATIONS if samples else ():
            self._row(samples, f"{name}, chained calls: {clock}", f"clock {name}")
            theirs = (f"clock {name}", "clock", _AGREES)
            self._row(samples, f"{name}, chained calls: ours, less the loop", f"net {name}", *theirs)
            self._row(samples, f"{name}, chained calls: the loop, as we report it", f"loop {name}")

    def add_traps(self, language: str) -> None:
        """A kernel that does nothing, and a function that XLA hoists or drops."""
        samples = self._run("traps", "a kernel that does nothing", language=language)
        if not samples:
            return
        self._row(samples, "no work: the loop, as we report it", "loop nothing")
        self._row(samples, "no work: ours, with the loop", "reported nothing", "loop nothing", "loop", _NOT_FAST)
        self._row(samples, "no work: a plain loop, hoisted", "naive nothing", "loop nothing", "loop")
        single = ("single function", "calls in a row")
        self._row(samples, "30 sines: calls from Python, one after another", single[0])
        self._row(samples, "30 sines: ours, chained, less the loop", "net function", *single, _TRUE)
        self._row(samples, "30 sines: a plain loop, hoisted", "hoisted", *single)
        self._row(samples, "30 sines: a plain loop that keeps one element", "dropped", *single)

    def _run(self, probe: str, what: str, full: int = 5, quick: int = 3, **arguments: Any) -> Samples:
        """Samples in microseconds; none if the process failed."""
        arguments["rounds"] = self.options.choose_rounds(full, quick)
        try:
            answer = run_probe(probe, arguments, platform=self.platform)
        except ProbeError as error:
            self.found.append(Failed(what, last_line(error)))
            return {}
        return {name: [1e6 * seconds for seconds in samples] for name, samples in answer.items()}

    def _row(
        self, samples: Samples, name: str, key: str, base: str = "", ratio_to: str = "", bar: Bar | None = None
    ) -> None:
        baseline = samples[base] if base else None
        row = make_row(self.benchmark, name, "us", samples[key], baseline=baseline, ratio_to=ratio_to, bar=bar)
        self.found.append(row)
