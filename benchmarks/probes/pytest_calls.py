# SPDX-License-Identifier: Apache-2.0
"""Measure single calls of known length within a pytest run: by pytest-benchmark, and as brainevent's benchmarks do."""

import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.probes.agreement import Samples, time_single
from benchmarks.probes.progress import tell
from benchmarks.probes.spin import Spin


def measure(language: str, rounds: int, durations: dict[str, float]) -> Samples:
    """Seconds per call, in the middle of those of a round, as `pytest DURATION` and `ours DURATION`."""
    tell(f"{rounds} rounds in pytest")
    with tempfile.TemporaryDirectory() as folder:
        settings, answer = Path(folder, "pytest.ini"), Path(folder, "answer.json")
        settings.write_text("[pytest]\n")  # no settings of ours: pytest-benchmark as it is
        options = ["-q", "-p", "no:cacheprovider", "--noconftest", "-c", str(settings), f"--benchmark-json={answer}"]
        status = pytest.main([*options, __file__], plugins=[_Rounds(language, rounds, durations)])
        assert status == pytest.ExitCode.OK, f"pytest: {status!r}"
        found = json.loads(answer.read_text())["benchmarks"]
    samples: Samples = {}
    for one in found:
        samples.setdefault(f"pytest {one['params']['name']}", []).append(one["stats"]["median"])
        samples.setdefault(f"ours {one['params']['name']}", []).append(one["extra_info"]["ours"])
    return samples


class _Rounds:
    """Hands a pytest run what it shall measure, how often."""

    def __init__(self, language: str, rounds: int, durations: dict[str, float]):
        self.spin = Spin.of(language)
        self.rounds, self.durations = rounds, durations

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("name", list(self.durations))
        metafunc.parametrize("index", range(self.rounds))

    @pytest.fixture
    def length(self, name: str) -> tuple[Spin, float]:
        return self.spin, self.durations[name]


def test_call(benchmark: Any, length: tuple[Spin, float], name: str, index: int) -> None:
    """One sample of each, in turns: ours goes first in every second round."""
    spin, about = length
    operands = spin.operands(about)
    if index % 2:
        benchmark.extra_info["ours"] = time_single(spin.call, operands, about)
    benchmark(lambda: jax.block_until_ready(spin.call(*operands)))
    if not index % 2:
        benchmark.extra_info["ours"] = time_single(spin.call, operands, about)
