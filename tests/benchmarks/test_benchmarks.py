# SPDX-License-Identifier: Apache-2.0
"""The benchmarks lose nothing that was measured, whatever else fails."""

import json
import sys

import numpy as np
import pytest

import benchmarks.__main__ as program
from benchmarks import agreement, connectivity, events, networks, ways
from benchmarks.options import Options
from benchmarks.peer import PeerError, find_peer_packages
from benchmarks.probes import connectivity as random_matrix
from benchmarks.probes import event_product
from benchmarks.probes.agreement import take_turns
from benchmarks.probes.tuned import program_of
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Data, Failed, Row, make_row
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
        Benchmark("drawn", "four", "gpu", lambda options: [Data("a raster", [1, 2.5])]),
    ]
    monkeypatch.setattr(program, "BENCHMARKS", table)
    path = tmp_path / "result.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--gpu", "--no-peers", "--output", str(path)])
    assert program.main() == 1
    result = json.loads(path.read_text())
    assert [row["name"] for row in result["rows"]] == ["a row", "a row"]
    assert result["failures"] == ["failing: probe: exit status 1: ValueError: no", "partly: Bad FAILED: it crashed"]
    assert "partly: Warp: no rows, for it" in result["absent"]
    assert result["data"] == {"a raster": [1, 2.5]}
    assert "failed: partly: Bad FAILED: it crashed" in capsys.readouterr().out


@pytest.mark.parametrize(("named", "written"), [("some/run.json", "some/run.json"), (".", "{default}"), (None, None)])
def test_output_is_a_file_or_a_folder(monkeypatch, tmp_path, named, written):
    default = f"{program.dt.date.today().isoformat()}-{program.machine_slug(program.describe_machine(), gpu=True)}"
    default += "-quick-gpu.json"
    monkeypatch.setattr(program, "BENCHMARKS", [Benchmark("fine", "one", "gpu", lambda options: [])])
    monkeypatch.setattr(program, "HERE", tmp_path)
    output = ["--output", str(tmp_path / named)] if named else []
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--gpu", "--quick", "--no-peers", *output])
    assert program.main() == 0
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [(written or "results/{default}").format(default=default)]


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    ("bar", "met", "missed", "words"),
    [
        (Bar(1.2), 1.2, 1.3, "<= 1.2 x"),
        (Bar(5, at_least=True), 5, 4.9, ">= 5 x"),
        (Bar(0.05, around_one=True), 0.96, 0.94, "1 ± 0.05 x"),
        (Bar(0.05, around_one=True), 1.04, 1.06, "1 ± 0.05 x"),
        (Bar(0.05, around_one=True), 1.0, float("nan"), "1 ± 0.05 x"),
    ],
)
def test_a_bar_is_met_or_missed(bar, met, missed, words):
    assert str(bar) == words
    assert [make_row("a", "row", "us", [x], baseline=[1.0], bar=bar).met for x in (met, missed)] == [True, False]


def test_agreement_says_which_part_failed_and_what_is_absent(monkeypatch):
    def pretend(probe, arguments, platform):
        if probe == "traps":
            raise ProbeError("traps: exit status 1\nValueError: no")
        ways_ = {"single": ("timeit", "ours"), "chain": ("clock", "net", "loop")}[arguments["part"]]
        return {f"{way} {name}": [1e-6, 3e-6] for way in ways_ for name in arguments["durations"]}

    monkeypatch.setattr(agreement, "run_probe", pretend)
    monkeypatch.setattr(agreement.importlib.util, "find_spec", lambda name: None)
    found = agreement.measure_rows(Options())
    rows = [one for one in found if isinstance(one, Row)]
    assert [one for one in found if not isinstance(one, Row)] == [
        Absent("pytest-benchmark", "it is not installed here: pip install pytest-benchmark"),
        Failed("a kernel that does nothing", "traps: exit status 1: ValueError: no"),
    ]
    assert len(rows) == 4 * (2 + 3)
    assert [row.met for row in rows[:2]] == [None, True]
    assert rows[1].samples == (1, 3)


def test_turns_are_taken_forth_and_back():
    order = []
    takes = {name: lambda name=name: order.append(name) or {f"{name} time": len(order)} for name in "abc"}
    assert take_turns(takes, 2) == {"a time": [1, 6], "b time": [2, 5], "c time": [3, 4]}
    assert order == ["a", "b", "c", "c", "b", "a"]


def test_programs_are_compared_without_names_and_lines():
    text = (
        'HloModule jit_{operator}\n\nFileNames\n1 "{operator}.py"\n\nENTRY %main (a: f32[2]) -> f32[2] {{\n'
        '  %call = custom-call(%a), target="{target}", of="bench_operator_{operator}", metadata={{line={operator}}}\n}}'
    )
    texts = [text.format(operator=operator, target=target) for operator, target in ("1x", "2x", "2y")]
    first, second, other = map(program_of, texts)
    assert first == second
    assert first != other
    assert "HloModule" not in first
    assert "metadata" not in first


def test_rows_are_saved_as_they_come(capsys):
    def measure_rows(options):
        yield make_row("late", "row", "us", [1.0])
        yield Absent("peer", "it is not here")
        raise ProbeError("killed")

    saved = []
    found = program._run_all(
        [Benchmark("late", "title", "cpu", measure_rows)],
        Options(),
        lambda found: saved.append((len(found.rows), len(found.absent), len(found.failures))),
    )
    assert saved == [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)]
    assert (found.absent, found.failures) == (["late: peer: no rows, for it is not here"], ["late: killed"])
    assert "late: peer" in capsys.readouterr().out


@pytest.mark.thorough
def test_random_connections_are_timed_and_their_memory_is_seen(monkeypatch):
    monkeypatch.setattr(connectivity, "_QUICK", 9000)
    monkeypatch.setattr(connectivity, "_NEURONS", 300)
    monkeypatch.setattr(connectivity, "run_probe", lambda probe, arguments: random_matrix.measure(**arguments))
    rows = list(connectivity.measure_rows(Options(quick=True)))
    assert [row.unit for row in rows] == ["s", "x what is kept"] * 3
    assert all(row.met and row.value.median > 0 for row in rows[::2])
    assert all(row.value.median >= 0 for row in rows[1::2])
    assert random_matrix.measure("num_per_row", 300, 9000)["kept"] == 4 * (9000 + 301 + 1)


def test_products_of_a_size_alone(monkeypatch):
    asked = []

    def pretend(probe, arguments, **where):
        asked.append((probe, arguments))
        sizes = arguments.get("sizes", [])
        return {
            "bytes": 1e9,
            "launch": 0.0,
            "adds": dict.fromkeys(map(str, sizes), 1e9),
            "samples": {},
            "synapses": {},
        } | ({} if sizes else {"bytes": {}, "failed": {}})

    monkeypatch.setattr(events, "run_probe", pretend)
    found = list(events.measure_rows(Options(sizes=((77_000, 3_870), (9, 3)))))
    assert [one.what for one in found] == ["9 x 3", "PyPI brainevent 0.2.1"]
    assert "pass one of 4000x80, 4000x1000" in found[0].why
    assert asked[0] == ("event_limits", {"sizes": [77_000]})
    assert {(arguments["n"], arguments["fan_out"]) for _, arguments in asked[1:]} == {(77_000, 3_870)}


@pytest.mark.parametrize("part", [7, 100, 10**6])
def test_connections_are_drawn_in_parts_and_always_the_same(monkeypatch, part):
    monkeypatch.setattr(event_product, "_PART", part)
    columns = event_product.draw_columns(300, 40).reshape(300, 40)
    assert (np.diff(columns) >= 0).all()
    assert columns.min() >= 0
    assert columns.max() < 300
    assert np.unique(columns, axis=0).shape[0] == 300
    np.testing.assert_array_equal(event_product.draw_columns(300, 40), columns.ravel())
    weights = event_product.draw_weights(999)
    assert np.unique(weights).size > 900
    assert weights.min() >= 0.5
    assert weights.max() <= 1.5


def test_programs_for_processors_run_once_beside_a_gpu(monkeypatch, tmp_path):
    ran = []

    def pretend(probe, arguments, platform, **where):
        ran.append((probe, arguments.get("way"), platform))
        rate = networks.RIGHT[arguments["model"], arguments["n"]].low
        memory = {"resident": 2**20, **({"on_gpu": 2**21} if platform == "gpu" else {})}
        return {"seconds": [1.0, 2.0, 3.0], "rate": rate, **memory}

    monkeypatch.setattr(networks, "run_probe", pretend)
    monkeypatch.delenv("BRAINEVENT_BRIAN_PATH", raising=False)
    found = list(networks.measure_gpu_rows(Options(rounds=2)))
    assert "BRAINEVENT_BRIAN_PATH names no folder" in found[1].why
    described = tmp_path / "brian2-9.9.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: Brian2\nVersion: 9.9\n")
    monkeypatch.setenv("BRAINEVENT_BRIAN_PATH", str(tmp_path))
    list(networks.measure_gpu_rows(Options(rounds=1, peers=False)))
    assert "network_brian" not in {probe for probe, _, _ in ran}
    ran.clear()
    rows = [one for one in networks.measure_gpu_rows(Options(rounds=2)) if isinstance(one, Row)]
    count = {one: ran.count(one) for one in set(ran)}
    assert count == {
        ("network", "example", "gpu"): 12,
        ("network", "jnp", "gpu"): 12,
        ("network", "cpp", "cpu"): 6,
        ("network", "cpp_vector", "cpu"): 6,
        ("network_brian", None, "cpu"): 6,
    }
    assert all(row.met for row in rows if row.bar)
    assert {row.note.rpartition("; ")[2] for row in rows} == {"1 MiB", "1 MiB, 2 MiB on the GPU"}
    assert sum("Brian2 9.9 on the host" in row.name for row in rows) == 6
