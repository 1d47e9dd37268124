# SPDX-License-Identifier: Apache-2.0
"""The benchmarks lose nothing that was measured, whatever else fails."""

import json
import sys

import pytest

import benchmarks.__main__ as program
from benchmarks import ways
from benchmarks.peer import PeerError, find_peer_packages
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Failed, make_row
from benchmarks.suite import Benchmark


def test_a_way_that_takes_its_process_down_is_left_out(monkeypatch):
    calls = []

    def pretend(probe, arguments, **where):
        calls.append(list(arguments["ways"]))
        if "bad" in arguments["ways"]:
            raise ProbeError("probe: exit status -11\nSegmentation fault", "bad")
        samples = {f"{way}_chain": [1e-6, 2e-6] for way in arguments["ways"] if way != "absent"}
        return {"samples": samples, "missing": {"absent": "not here"}, "failed": {}}

    monkeypatch.setattr(ways, "run_probe", pretend)
    measured = ways.measure_ways("probe", dict.fromkeys(("good", "bad", "absent"), 1), {}, processes=2)
    assert calls == [["good", "bad", "absent"], ["good", "absent"], ["good"]]
    assert measured.samples == {"good_chain": [1, 2, 1, 2]}
    labels = {"bad": "Bad", "absent": "Absent"}
    assert measured.notes(labels) == [
        Absent("Absent", "not here"),
        Failed("Bad", "probe: exit status -11: Segmentation fault"),
    ]


def test_a_way_that_fails_later_keeps_no_samples(monkeypatch):
    answers = [
        {"samples": {"a_chain": [1.0], "b_chain": [1.0]}, "missing": {}, "failed": {}},
        {"samples": {"a_chain": [1.0]}, "missing": {}, "failed": {"b": "ValueError: no"}},
    ]
    monkeypatch.setattr(ways, "run_probe", lambda *_, **__: answers.pop(0))
    measured = ways.measure_ways("probe", {"a": 1, "b": 1}, {}, processes=2)
    assert measured.samples == {"a_chain": [1e6, 1e6]}
    assert measured.failed == {"b": "ValueError: no"}


def test_a_failing_benchmark_costs_the_others_nothing(monkeypatch, tmp_path, capsys):
    row = make_row("fine", "a row", "us", [1.0, 2.0, 3.0])

    def fail(options):
        raise ProbeError("probe: exit status 1\nValueError: no")

    table = [
        Benchmark("fine", "one", "gpu", lambda options: [row]),
        Benchmark("failing", "two", "gpu", fail),
        Benchmark("partly", "three", "gpu", lambda options: [row, Failed("Bad", "it crashed"), Absent("Warp", "it")]),
    ]
    monkeypatch.setattr(program, "BENCHMARKS", table)
    path = tmp_path / "result.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--gpu", "--no-peers", "--output", str(path)])
    assert program.main() == 1
    result = json.loads(path.read_text())
    assert [row["name"] for row in result["rows"]] == ["a row", "a row"]
    assert result["failures"] == ["failing: probe: exit status 1: ValueError: no", "partly: Bad FAILED: it crashed"]
    assert "partly: Warp: no rows, for it" in result["absent"]
    assert "failed: partly: Bad FAILED: it crashed" in capsys.readouterr().out


def test_a_probe_says_what_it_does_and_how_it_ends(capfd):
    with pytest.raises(ProbeError, match=r"exit status 1\n(.*\n)*.*KeyError: 'nothing'") as raised:
        run_probe("gpu_start", {"way": "nothing"})
    assert raised.value.doing == "nothing"
    assert "gpu_start: nothing" in capfd.readouterr().err


def test_the_peer_of_gpus_lies_in_a_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("BRAINEVENT_PEER_PATH", raising=False)
    with pytest.raises(PeerError, match="BRAINEVENT_PEER_PATH names no folder"):
        find_peer_packages()
    monkeypatch.setenv("BRAINEVENT_PEER_PATH", str(tmp_path))
    with pytest.raises(PeerError, match="where no package brainevent is installed"):
        find_peer_packages()
    described = tmp_path / "brainevent-9.9.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: brainevent\nVersion: 9.9\n")
    assert find_peer_packages() == (tmp_path, "PyPI brainevent 9.9")
