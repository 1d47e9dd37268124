# SPDX-License-Identifier: Apache-2.0
"""The rows of the start of training: two processes for each way, the second with what the first kept."""

import os

import pytest

from benchmarks import training_start
from benchmarks.options import Options
from benchmarks.process import ProbeError
from benchmarks.row import Failed

WHY = "training_start: exit status 1: ValueError: no"
PHASES = {"trace": 1.0, "lower": 2.0, "compile": 3.0, "run": 9.0}


def rows(monkeypatch, measure, found):
    def run(name, arguments, python, platform, packages, environment):
        folder = environment["BRAINEVENT_CACHE_DIR"]
        kept = bool(os.listdir(folder))
        with open(os.path.join(folder, "kept"), "w"):
            found.append((arguments["way"], kept, arguments["clock"], platform, tuple(sorted(arguments["again"]))))
        scale = (0.1 if kept else 1.0) * (1 if arguments["way"] == "hand" else 1.25)
        one = {name: scale * seconds for name, seconds in PHASES.items()}
        return one | {f"{name} again": 0.5 * seconds for name, seconds in one.items()}

    monkeypatch.setattr(training_start, "run_probe", run)
    return {row.name: row for row in measure(Options(quick=True))}


@pytest.mark.parametrize(
    ("measure", "way", "clock", "platform"),
    [
        (training_start.measure_rows, "numba", "process", "cpu"),
        (training_start.measure_gpu_rows, "cuda", "wall", "gpu"),
    ],
)
def test_the_second_process_finds_what_the_first_kept(monkeypatch, measure, way, clock, platform):
    asked = []
    found = rows(monkeypatch, measure, asked)
    of_round = [("hand", False), ("hand", True), (way, False), (way, True)]
    assert [one[:2] for one in asked] == 2 * of_round
    assert {one[2:4] for one in asked} == {(clock, platform)}
    assert {one[4] for one in asked} == {("batch", "steps"), ("hidden",)}
    ours = f"backend {way}"
    cold, kept = found[f"{ours}; cold"], found[f"{ours}; kept"]
    assert (cold.value.median, cold.ratio.median, cold.met) == (7.5, 1.25, False)
    assert kept.value.median == pytest.approx(0.75)
    assert kept.bar is None
    beyond = found[f"{ours}, beyond a scan by hand; kept"]
    assert beyond.value.median == pytest.approx(0.15)
    assert beyond.met
    assert found["a scan by hand; cold"].bar is None
    others = [row.value.median for name, row in found.items() if "same process" in name]
    assert others == pytest.approx([3.0, 3.75] * 2)
    assert "trace 1.25, lower 2.50, compile 3.75, run 11.25" in cold.note


def test_a_process_that_fails_is_named(monkeypatch):
    def run(*_):
        raise ProbeError("training_start: exit status 1\nValueError: no")

    monkeypatch.setattr(training_start, "run_probe", run)
    assert list(training_start.measure_rows(Options(quick=True))) == [Failed("a scan by hand", WHY)]
