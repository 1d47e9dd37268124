# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of networks that learn: what they measure, and which answers they refuse as those of another network."""

import pytest

from benchmarks import hpc, plastic_networks
from benchmarks.nest import NEST_PYTHON, find_nest
from benchmarks.options import Options
from benchmarks.probes import network_example
from benchmarks.process import ProbeError
from benchmarks.row import Absent, Failed, Row


@pytest.mark.parametrize("discard", [0, 200])
def test_a_network_that_learns_is_measured(discard):
    options = {"scale": 0.05, "inputs": 0.05}
    found = network_example.measure("hpc", options, steps=1000, repeats=1, discard=discard)
    assert found["plastic"] == 450 * 450
    assert found["changed"] > 0.2
    assert found["sizes"] == {"exc": 450, "inh": 112}
    assert 3 < found["rates"]["exc"] < 20
    assert len(found["seconds"]) == len(found["building"]) == 1
    assert found["seconds"][0] > 0
    assert found["bytes"] is None


def test_rewards_come_at_the_end_of_each_interval():
    given = network_example._rewards(["exc", "inh"], 10, every=4)
    assert list(given) == ["exc.reward", "inh.reward"]
    assert given["exc.reward"].ravel().tolist() == [0, 0, 0, 0.5, 0, 0, 0, 0.5, 0, 0]
    assert network_example._rewards(["exc"], 10, every=0) is None


ANSWER = {"seconds": [0.02, 0.03], "building": [1.0, 1.0], "rates": {"exc": 9.0, "inh": 9.0}}
ANSWER |= {"sizes": {"exc": 9000, "inh": 2250}, "plastic": 81_000_000, "changed": 1.0, "bytes": 11.5}


def asked(monkeypatch, module, answer):
    """Let `answer` stand for every probe; return what they are asked for."""
    calls = []

    def pretend(probe, arguments, **where):
        calls.append((probe, arguments, where))
        found = answer(probe) if callable(answer) else answer
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(module, "run_probe", pretend)
    return calls


def test_factors_have_bars_where_they_were_promised(monkeypatch):
    calls = asked(monkeypatch, hpc, ANSWER)
    rows = list(hpc.measure_gpu_rows(Options(scales=(1.0, 0.1))))
    assert [arguments["options"] for _, arguments, _ in calls] == [
        {"scale": 1.0, "inputs": 1.0},
        {"scale": 0.1, "inputs": 0.1},
    ]
    factor, building, memory, small, *_ = rows
    assert factor.samples == pytest.approx((0.08, 0.12))
    assert factor.met is False
    assert building.unit == "s"
    assert memory.met is True
    assert small.bar is None
    assert "81000000 plastic synapses" in factor.note


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rates": {"exc": 60.0, "inh": 50.0}}, "it fires at 60.00 Hz, not at 6 to 25"),
        ({"changed": 0.1}, "10 % of the weights changed: nothing was learnt"),
        (ProbeError("network_example: exit status 1\nMemoryError: no"), "exit status 1: MemoryError: no"),
    ],
)
def test_another_network_has_no_rows(monkeypatch, changed, words):
    asked(monkeypatch, hpc, changed if isinstance(changed, Exception) else ANSWER | changed)
    [failed] = hpc.measure_gpu_rows(Options(scales=(1.0,)))
    assert isinstance(failed, Failed)
    assert words in str(failed)


RATES = {"network_example": (30.0, 20.0), "vogels_brian": (31.0, 20.5), "vogels_nest": (45.0, 20.0)}
SECONDS = {"network_example": 1.0, "vogels_brian": 4.0, "vogels_nest": 5.0}


def test_programs_take_turns_and_must_run_the_same_network(monkeypatch):
    def answer(probe):
        return {
            "seconds": [SECONDS[probe]],
            "processor": [SECONDS[probe]],
            "rates": dict(zip(("exc", "inh"), RATES[probe], strict=True)),
        }

    calls = asked(monkeypatch, plastic_networks, answer)
    for name in ("find_brian", "find_nest"):
        monkeypatch.setattr(plastic_networks, name, lambda: "python")
    rows = list(plastic_networks.measure_vogels_rows(Options(rounds=2)))
    turns = [*RATES, *reversed(RATES)]
    assert [probe for probe, *_ in calls] == [*turns, *turns]
    assert [arguments["threads"] for _, arguments, _ in calls] == [1] * 6 + [2] * 6
    for ours, brian, nest in (rows[:3], rows[3:]):
        assert isinstance(ours, Row)
        assert brian.ratio.median == pytest.approx(4)
        assert brian.met is True
        assert isinstance(nest, Failed)
        assert "exc fires at 45.00 Hz instead of 30.00 Hz" in str(nest)


def test_programs_that_are_not_there_are_named(monkeypatch):
    asked(monkeypatch, plastic_networks, {"seconds": [1.0], "processor": [1.0], "rates": {"exc": 30.0, "inh": 20.0}})
    rows = list(plastic_networks.measure_vogels_rows(Options(rounds=1, peers=False)))
    assert [row.what for row in rows if isinstance(row, Absent)] == ["Brian2: C++ standalone", "NEST"]
    monkeypatch.delenv(NEST_PYTHON, raising=False)
    with pytest.raises(RuntimeError, match="BRAINEVENT_NEST_PYTHON names no Python"):
        find_nest()
    monkeypatch.setenv(NEST_PYTHON, "/nowhere/python")
    with pytest.raises(RuntimeError, match="is /nowhere/python, which is no file"):
        find_nest()


def test_an_hour_is_a_value_with_a_bar_on_a_gpu(monkeypatch):
    calls = asked(monkeypatch, plastic_networks, ANSWER | {"rates": {"exc": 1.3, "inh": 0.9}})
    [row] = plastic_networks.measure_gpu_reward_rows(Options())
    assert calls[0][1]["steps"] == 3_600_000
    assert row.met is True
    [tenth] = plastic_networks.measure_reward_rows(Options(quick=True))
    assert tenth.samples == pytest.approx((0.2, 0.3))
    assert "of which a tenth runs" in tenth.name
    asked(monkeypatch, plastic_networks, ANSWER | {"rates": {"exc": 0.0, "inh": 0.9}})
    [failed] = plastic_networks.measure_gpu_reward_rows(Options())
    assert "another network" in str(failed)
