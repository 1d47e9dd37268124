# SPDX-License-Identifier: Apache-2.0
"""The networks of the benchmarks are those that are stated, and their rows say what was measured of them."""

import math

import numpy as np
import pytest
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import energy, flywire, gpu_engine, gpu_microcircuit, microcircuit
from benchmarks.options import Options
from benchmarks.probes import flywire as connectome
from benchmarks.probes import network_engine, network_on_device
from benchmarks.probes.microcircuit import LAYERS
from benchmarks.probes.network_described import NETWORKS, SIZES
from benchmarks.process import ProbeError
from benchmarks.row import Failed, Row

N = 6_000
BUILT = "PD14, poisson drive: building it from its description"

# ---- the connectome


@pytest.fixture(scope="module")
def drawn():
    return connectome.draw(N)


@given(st.integers(2_000, 10**6))
def test_edges_hold_as_many_contacts_as_is_stated(neurons):
    counts = connectome.edges_by_contacts(neurons)
    part = neurons / connectome.NEURONS
    assert counts.min() >= 0
    assert counts.sum() == round(connectome.EDGES * part)
    assert counts @ np.arange(1, counts.size + 1) == round(connectome.CONTACTS * part)
    for least, edges in connectome.TAILS.items():
        assert counts[least - 1 :].sum() == pytest.approx(edges * part, abs=1)


def test_the_connectome_is_that_of_the_numbers(drawn):
    part = N / connectome.NEURONS
    assert drawn.contacts.sum() == round(connectome.CONTACTS * part)
    for least, edges in connectome.TAILS.items():
        assert (drawn.contacts >= least).sum() == pytest.approx(edges * part, rel=0.005)
    assert (drawn.signs == 1).mean() == pytest.approx(0.7, abs=0.02)
    assert set(drawn.signs) == {-1, 1}


def test_edges_are_distinct_and_no_neuron_connects_to_itself(drawn):
    edges = np.unique(drawn.sources * np.int64(N) + drawn.targets)
    assert edges.size == drawn.sources.size == round(connectome.EDGES * N / connectome.NEURONS)
    assert (drawn.targets.min(), drawn.targets.max()) == (0, N - 1)
    assert (drawn.sources != drawn.targets).all()
    distances = np.abs((drawn.targets - drawn.sources + N // 2) % N - N // 2)
    assert 0.5 < (distances < 300).mean() < 0.6


def test_some_neurons_have_very_many_edges(drawn):
    degrees = np.bincount(drawn.sources, minlength=N)
    assert np.log(degrees[degrees > 0]).std() == pytest.approx(1, abs=0.05)
    assert degrees.max() > 15 * degrees.mean()


def test_driven_neurons_are_excitatory_neighbours_with_many_edges(drawn):
    degrees = np.bincount(drawn.sources, minlength=N)
    assert np.unique(drawn.driven).size == connectome.DRIVEN
    assert np.ptp(drawn.driven) < 400
    assert (drawn.signs[drawn.driven] == 1).all()
    near = np.setdiff1d(np.arange(4_000, 4_400), drawn.driven)
    assert degrees[near][drawn.signs[near] == 1].max() <= degrees[drawn.driven].min()


def test_a_seed_says_what_is_drawn(drawn):
    again, other = connectome.draw(N), connectome.draw(N, seed=1)
    assert all((getattr(again, name) == getattr(drawn, name)).all() for name in vars(drawn))
    assert (other.targets != drawn.targets).any()


def test_too_few_neurons_for_the_largest_degree():
    with pytest.raises(ValueError, match=r"a neuron would have \d+ edges to 199 others; draw more neurons"):
        connectome.draw(200)


def test_the_network_has_the_edges_that_were_drawn(drawn):
    network = connectome.build_flywire(N)
    members = {"driven": drawn.driven, "others": np.setdiff1d(np.arange(N), drawn.driven)}
    found = []
    for projection in network.projections:
        matrix = projection.connect
        sources, targets = members[projection.source.name][matrix.row], members[projection.target.name][matrix.col]
        found.append(np.stack([sources, targets, np.rint(np.asarray(matrix.data) / 0.275)]))
    found = np.concatenate(found, 1)
    expected = np.stack([drawn.sources, drawn.targets, drawn.contacts * drawn.signs[drawn.sources]])
    np.testing.assert_array_equal(*(edges[:, np.lexsort(edges[1::-1])] for edges in (found, expected)))


@pytest.mark.thorough
def test_the_drive_of_the_connectome_reaches_other_neurons():
    """150 events a second are as many spikes, and weights are exact."""
    simulation = connectome.build_flywire(N).build(seed=0, threads=1, backend="numba")
    result = simulation.run(5_000, record=["driven.counts", "others.counts"])
    assert result["driven.counts"].mean() == pytest.approx(75 * 1.1, rel=0.15)
    assert 50 < (result["others.counts"] > 0).sum() < N / 2
    assert simulation.plan.population("others").quanta["syn"] == np.float32(0.275)
    assert max(projection.rounding for projection in simulation.plan.projections) == 0


# ---- PD14 scaled down


def inputs(network, place):
    """Return mean and variance of what arrives at a population in a second (pA), if all fire as published."""
    rates = dict(zip(LAYERS, (0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829), strict=True))
    target = network.populations[place]
    events = 1e4 * target.params["mean_ext"]
    mean, variance = events * target.params["w_ext"], events * target.params["w_ext"] ** 2
    for one in network.projections:
        if one.target is target:
            events, weight = rates[one.source.name] * one.connect.number / target.size, one.connect.weight.law.a
            mean, variance = mean + events * weight, variance + events * weight**2
    constant = target.params.get("push", 0) / (1 - math.exp(-0.01)) * 250 / 10
    return mean + constant / (1e-3 * 0.5), variance


@settings(max_examples=12, deadline=None)
@given(st.integers(10, 99), st.integers(0, 7))
def test_fewer_neurons_get_the_same_input(percent, place):
    full, scaled = NETWORKS["pd14_poisson"](0), NETWORKS["pd14_poisson"](percent)
    assert [p.size for p in scaled.populations] == [round(size * percent / 100) for size in SIZES]
    assert inputs(scaled, place) == pytest.approx(inputs(full, place), rel=0.05)


@pytest.mark.thorough
def test_pd14_at_10_percent_fires_as_in_another_program():
    found = network_engine.measure("pd14_poisson", 10, steps=20_000, repeats=1, discard=5_000, record_in="counts")
    assert microcircuit.at_wrong_rates("poisson", 20_000, {"ours": [found]}, 10) == {}
    assert "ours" in microcircuit.at_wrong_rates("poisson", 20_000, {"ours": [found]}, 100)


# ---- what is measured


def test_runs_that_record_nothing_are_counted_afterwards():
    run = {"model": "cuba", "n": 400, "steps": 400, "repeats": 2}
    nothing = network_engine.measure(**run, record_in="nothing")
    later = network_engine.measure(**run, record_in="counts", discard=400)
    assert len(nothing["seconds"]) == 2
    assert nothing["rates"] == later["rates"]
    assert nothing["rate"] == later["rate"] > 1
    first = network_engine.measure(**run)
    assert first["rates"] != later["rates"]
    assert first == network_engine.measure(**run, record_in="counts") | {k: first[k] for k in ("seconds", "resident")}
    assert 0 < first["active"] <= 400


@pytest.mark.thorough
def test_a_device_is_watched_while_a_network_is_built(monkeypatch):
    device = PretendDevice()
    monkeypatch.setattr("brainevent.network.gpu.cuda_device.cuda_device", lambda number: device)
    found = network_on_device.measure("cuba", 300)
    assert len(found["building"]) == 2
    assert found["compiling"] > 0
    assert found["synapses"] == pytest.approx(300 * 80, rel=0.05)
    assert 2 * found["synapses"] < found["held"] <= found["most"] < 100 * found["synapses"]


# ---- rows


def of_pd14(arguments, factor=1.0):
    rates = microcircuit.RIGHT[arguments["model"].removeprefix("pd14_"), arguments["n"]].of
    return {"seconds": [0.4, 0.2], "resident": 2**30, "rates": {k: factor * rate for k, rate in rates.items()}}


def test_rows_of_pd14_on_a_gpu(monkeypatch):
    calls = []

    def probe(name, arguments, platform, environment=None, **_):
        calls.append((name, platform))
        if name == "network_engine":
            return of_pd14(arguments, 1.5 if arguments["n"] == 50 else 1)
        cold = calls.count(calls[-1]) % 2
        answer = {"compiling": 2.0 if cold else 0.05, "building": [3.0, 0.1 + cold], "synapses": 100}
        assert sorted(environment) == ["BRAINEVENT_CACHE_DIR", "CUDA_CACHE_PATH"]
        return answer | {"held": 650, "most": 900}

    monkeypatch.setattr(microcircuit, "run_probe", probe)
    monkeypatch.setattr(gpu_microcircuit, "run_probe", probe)
    found = list(gpu_microcircuit.measure_rows(Options(rounds=2)))
    rows = {row.name: row for row in found if isinstance(row, Row)}
    assert {platform for _, platform in calls} == {"gpu"}
    assert {row.benchmark for row in rows.values()} == {"gpu_microcircuit"}
    assert [str(one)[:70] for one in found if isinstance(one, Failed)] == [
        f"PD14 at 50 %, poisson drive: the network engine, {record} recorded FAILED: it is"[:70]
        for record in ("spikes", "nothing")
    ]
    assert {name: (row.samples, row.met) for name, row in rows.items() if "recorded" not in name} == {
        "PD14, poisson drive: compiling, nothing kept": ((2, 2), True),
        "PD14, poisson drive: compiling, code kept by an earlier process": ((0.05, 0.05), True),
        f"{BUILT}, compiled before": ((1.1, 1.1, 0.1, 0.1), False),
        f"{BUILT}, for the first time, compiling included": ((3,) * 4, None),
        "PD14, poisson drive: memory on the GPU": ((6.5,) * 4, True),
    }  # fmt: skip
    assert "9.00 while it is built" in rows["PD14, poisson drive: memory on the GPU"].note
    factor = rows["PD14, poisson drive: the network engine, spikes recorded"]
    assert (factor.samples, factor.bar.limit) == (pytest.approx((0.04, 0.02)), 0.04)
    assert rows["PD14 at 10 %, poisson drive: the network engine, nothing recorded"].bar is None


def test_a_start_that_fails_costs_no_other_rows(monkeypatch):
    def fail(*_, **__):
        raise ProbeError("network_on_device: exit status 1\nNetworkError: no room")

    monkeypatch.setattr(microcircuit, "run_probe", lambda name, arguments, **_: of_pd14(arguments))
    monkeypatch.setattr(gpu_microcircuit, "run_probe", fail)
    *rows, last = gpu_microcircuit.measure_rows(Options())
    assert len(rows) == 9
    assert str(last) == "PD14, poisson drive: start FAILED: network_on_device: exit status 1: NetworkError: no room"


@pytest.mark.parametrize("off", [1, 1.2])
def test_rows_of_sizes_on_a_gpu(monkeypatch, off):
    ran = []

    def probe(name, arguments, platform):
        assert platform == "gpu"
        model, n = arguments["model"], arguments["n"]
        if name == "network_clocks":
            return {"cycles": {"sent": [3.0, 5.0]}, "where": "2 blocks"}
        ran.append((model, n, arguments["steps"], arguments["record_in"]))
        return {"seconds": [arguments["steps"] * 1e-6] * 3, "rate": off * gpu_engine.RIGHT[model, n]}

    monkeypatch.setattr(gpu_engine, "run_probe", probe)
    found = list(gpu_engine.measure_rows(Options()))
    measured = [one for one in found if "recorded" in (one.name if isinstance(one, Row) else one.what)]
    assert {type(one) for one in measured} == {Row if off == 1 else Failed}
    steps = {4_000: 100_000, 40_000: 100_000, 400_000: 100_000, 4_000_000: 2_000}
    assert sorted(ran) == sorted(
        (model, n, count, record)
        for model in ("cuba", "coba")
        for n, count in steps.items()
        for record in ("spikes", "counts", "nothing")
        if (model, n) != ("coba", 4_000_000)
    )
    if off == 1:
        assert {row.name: row.bar.limit for row in measured if row.bar} == pytest.approx(
            {f"{model}, {n} neurons, spikes recorded": limit * (1.3 if model == "coba" else 1)
             for model in ("cuba", "coba")
             for n, limit in zip(steps, (0.012, 0.018, 0.045, 0.16), strict=True)
             if (model, n) != ("coba", 4_000_000)}
        )  # fmt: skip
        assert measured[0].samples == pytest.approx((0.01,) * 3)


@pytest.mark.parametrize(("spikes", "right"), [(17_000, True), (16_000, True), (13_000, False), (21_000, False)])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_rows_of_the_connectome(monkeypatch, platform, spikes, right):
    def probe(name, arguments, platform):
        assert (name, arguments["model"], arguments["n"]) == ("network_engine", "flywire", 138_639)
        return {"seconds": [1e-5 * arguments["steps"]] * 2, "rate": spikes / 138_639, "active": 461.3}

    monkeypatch.setattr(flywire, "run_probe", probe)
    found = list((flywire.measure_rows if platform == "cpu" else flywire.measure_gpu_rows)(Options()))
    ways = (
        ["1 thread", "2 threads"] if platform == "cpu" else [f"{w} recorded" for w in ("spikes", "counts", "nothing")]
    )
    names = [f"FlyWire-class connectome: the network engine, {way}" for way in ways]
    if right:
        assert [row.name for row in found] == names
        assert found[0].samples == pytest.approx((0.1, 0.1))
        assert found[0].met == (None if platform == "cpu" else False)
        assert f"{spikes} spikes a second, of 461 neurons" in found[0].note
    else:
        why = f"{spikes} spikes a second instead of some 17000: another network"
        assert [str(one) for one in found] == [f"{name} FAILED: {why}" for name in names]


# ---- rates that are right


@given(st.sampled_from(list(microcircuit.RIGHT.values())), st.integers(1, 10**8))
def test_the_tolerance_of_rates_shrinks_with_length_to_a_floor(right, steps):
    assert right.tolerance(steps) >= right.least >= 0.05
    assert right.tolerance(10_000) == right.short > right.least
    assert right.tolerance(40 * steps) <= right.tolerance(steps)
    if steps <= 10_000:
        assert right.tolerance(steps) == pytest.approx(right.short * math.sqrt(10_000 / steps))


@pytest.mark.parametrize(("rate", "right"), [(1.13, True), (1.17, True), (1.05, False), (1.2, False)])
def test_a_long_run_is_right_with_another_last_digit(rate, right):
    answer = {"rates": microcircuit.RIGHT["poisson", 100].of | {"L6E": rate}}
    failed = microcircuit.at_wrong_rates("poisson", 20_000_000, {"ours": [answer]})
    why = f"it is another network: L6E fires at {rate:.2f} Hz instead of 1.12 Hz"
    assert failed == ({} if right else {"ours": why})


def test_energy_of_long_runs_is_reported(monkeypatch):
    rates = microcircuit.RIGHT["poisson", 100].of | {"L6E": 1.13}
    answer = {"joules": [9.0], "seconds": [1.0], "idle_watts": [1.0], "events": [1e9], "samples": [9]}
    monkeypatch.setattr(energy, "run_probe", lambda *_, **__: answer | {"field": "p", "steps": 10**7, "rates": rates})
    assert all(isinstance(one, Row) for one in energy.measure_rows(Options()))
