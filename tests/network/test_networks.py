# SPDX-License-Identifier: Apache-2.0
"""Networks whose neurons are one operator fire as they should, on every path."""

import dataclasses
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from product_promises import ninety  # noqa: F401 - a fixture

import brainevent
from benchmarks import gpu_engine, microcircuit, networks
from benchmarks.operators import coba, cuba
from benchmarks.operators.network import DT, connect, groups
from benchmarks.options import Options
from benchmarks.probes.network import measure
from benchmarks.row import Absent, Failed, Row

COBA, CUBA = coba.COBA, cuba.CUBA
NETWORKS = pytest.mark.parametrize("network", [COBA, CUBA], ids=["coba", "cuba"])
# Rates that other simulators and a naive program find over seeds, in Hz.
RIGHT = {"coba": (20.1, 23.0), "cuba": (5.4, 5.9)}
SEEDS = range(5)


@functools.cache
def rates(network, steps=10_000):
    return [network.simulate(steps=steps, seed=seed).rates().mean() for seed in SEEDS]


# ---- rates


@pytest.mark.covering(strength=0)
@NETWORKS
def test_networks_fire_as_they_should(network):
    """A second of each seed; the mean of seeds is held to the band, and each seed to twice its width."""
    low, high = RIGHT[network.name]
    found = rates(network)
    assert low <= np.mean(found) <= high, found
    spare = (high - low) / 2
    assert low - spare <= min(found)
    assert max(found) <= high + spare


@pytest.mark.covering(strength=0)
@NETWORKS
def test_both_kinds_of_neurons_fire_and_irregularly(network):
    spikes = network.simulate(steps=5000).between(100, 500)
    for part in groups(4000).values():
        low, high = RIGHT[network.name]
        assert 0.7 * low < spikes.of(part).rates().mean() < 1.3 * high
    one_second = network.simulate(seed=1)
    intervals = one_second.intervals()
    assert intervals.min() >= 5  # the refractory period
    assert intervals.std() > 0.7 * intervals.mean()


def test_with_more_neurons_each_has_as_many_synapses():
    for n in (1000, 10_000):
        synapses = connect(n, 0)
        assert synapses.shape == (n, 2 * n)
        targets = np.asarray(synapses.indices)
        assert targets.shape == (n, 80)
        kinds = groups(n)
        assert targets[kinds["excitatory"]].max() < n <= targets[kinds["inhibitory"]].min()
        reached = np.bincount(targets.ravel(), minlength=2 * n).reshape(2, n)
        assert reached.mean(1).tolist() == [64, 16]
        assert reached.std(1) == pytest.approx([8, 4], rel=0.1)  # as chance would have it
    fire = COBA.simulate(n=20_000, steps=3000).rates().mean()
    assert 18 < fire < 24


def test_weights_a_thousand_times_too_small_are_seen():
    """As when weights in mS meet a drive in mV: neurons hardly coupled fire at about 50 Hz."""
    weak = dataclasses.replace(COBA, weights={name: weight / 1000 for name, weight in COBA.weights.items()})
    rate = weak.simulate(steps=5000).rates().mean()
    assert 45 < rate < 60
    assert rate > 1.5 * RIGHT["coba"][1]


def test_units_refuse_weights_that_do_not_fit_the_drive():
    u = pytest.importorskip("brainunit")
    spikes = brainevent.BinaryArray(jnp.array([True, False, True]))
    indices = jnp.array([[0, 1], [1, 2], [2, 0]], jnp.int32)

    def push(weight):
        synapses = brainevent.FixedNumPerPre((weight, indices), shape=(3, 3))
        v = jnp.full(3, -55.0) * u.mV
        return 20 * u.mV + (spikes @ synapses) * (0 * u.mV - v) - v

    right = push(jnp.array([0.6]))  # conductances in units of the leak's have no unit
    np.testing.assert_allclose(right.to_decimal(u.mV), [141, 108, 108], rtol=1e-6)
    with pytest.raises(u.UnitMismatchError):
        push(jnp.array([0.6]) * u.mS)


# ---- every path to the same spikes


@pytest.mark.thorough
def test_kernels_do_what_the_formula_says():
    keys = jax.random.split(jax.random.key(0), 3)
    state = COBA.start(keys[0], 33)
    state = (*state[:3], jax.random.randint(keys[1], 33, -2, 3).astype(float))
    arrived = jax.random.poisson(keys[2], 1.0, (66,)).astype(float)
    checked = brainevent.check(COBA.update, *state, arrived, **COBA.weights)
    assert checked.ok, checked


@NETWORKS
def test_one_run_of_a_batch_is_the_run_alone(network):
    """Of one network: each element of the batch has a state of its own, and weights."""
    _, synapses = network.prepare(400, 0)
    states = [network.prepare(400, seed)[0] for seed in range(3)]
    weights = [jax.tree.map(lambda w, factor=1 + 0.1 * k: factor * w, synapses) for k in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zip(states, weights, strict=True))

    def run(state, synapses):
        return brainevent.record(network.step, state, 300, synapses, dt=DT)[1]

    together = jax.vmap(run)(*batch)
    for k in range(3):
        np.testing.assert_array_equal(together[k].bits, run(states[k], weights[k]).bits)
    assert together[0].counts.sum() > 0


@NETWORKS
def test_the_reference_runs_the_same_network(network):
    state, synapses = network.prepare(400)
    counts = []
    for backend in ("numba", "reference"):
        with brainevent.use_backend("cpu", backend):
            counts.append(brainevent.record(network.step, state, 200, synapses, dt=DT)[1].counts.sum())
    assert counts[0] == pytest.approx(counts[1], rel=0.02)  # rounding moves a spike now and then
    assert counts[0] > 0


CPP = """
#include "brainevent/common.h"

// @BE advance arg arg arg arg arg arg ret ret ret ret ret
void advance(const BE::Tensor v0, const BE::Tensor exc0, const BE::Tensor inh0, const BE::Tensor pause0,
             const BE::Tensor arrived, const BE::Tensor weights, BE::Tensor v1, BE::Tensor exc1, BE::Tensor inh1,
             BE::Tensor pause1, BE::Tensor spikes) {
  const int n = v0.size(0);
  const float w_e = weights.data_ptr<float>()[0], w_i = weights.data_ptr<float>()[1];
  for (int k = 0; k < n; ++k) {
    const float from_e = arrived.data_ptr<float>()[k], from_i = arrived.data_ptr<float>()[n + k];
    float v = v0.data_ptr<float>()[k], exc = exc0.data_ptr<float>()[k], inh = inh0.data_ptr<float>()[k],
          pause = pause0.data_ptr<float>()[k];
    bool spike;
    FORMULA
    v1.data_ptr<float>()[k] = v, exc1.data_ptr<float>()[k] = exc, inh1.data_ptr<float>()[k] = inh;
    pause1.data_ptr<float>()[k] = pause, spikes.data_ptr<bool>()[k] = spike;
  }
}
"""


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None, reason="the formula in CUDA C++ is compiled as C++ here")
@pytest.mark.parametrize("module", [coba, cuba], ids=["coba", "cuba"])
def test_the_formula_in_cuda_is_the_formula(module):
    defines = [f"-D{name}={float(value)!r}f" for name, value in module.CONSTANTS.items()]
    compiled = brainevent.load_cpp_inline(
        f"formula_{module.__name__[-4:]}", CPP.replace("FORMULA", module.CUDA), extra_cflags=defines
    )
    network = getattr(module, module.__name__[-4:].upper())
    keys = jax.random.split(jax.random.key(1), 3)
    v, exc, inh, _ = network.start(keys[0], 500)
    state = (v + 4, exc, inh, jax.random.randint(keys[1], 500, -2, 3).astype(float))
    arrived = jax.random.poisson(keys[2], 1.0, (1000,)).astype(float)
    expected = network.update(*state, arrived, **network.weights, backend="reference")
    outs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in expected]
    found = compiled.advance(*state, arrived, jnp.array(list(network.weights.values())), outs=outs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert 0 < expected[4].sum() < 500


@NETWORKS
def test_a_step_is_compiled_for_gpus(network, ninety):  # noqa: F811 - a fixture
    state, synapses = network.prepare(400)
    program = jax.export.export(jax.jit(network.step), platforms=["cuda"], disabled_checks=brainevent.export_checks())(
        state, jnp.int32(0), synapses
    )
    assert program.mlir_module().count("custom_call @brainevent_portable") == 2  # all of a step


# ---- formulas


@given(st.floats(0, 8), st.floats(0, 20), st.floats(-80, -50))
def test_coba_is_exact_for_conductances_that_stay(exc, inh, v):
    total = 1 + exc + inh
    rest = (-60 + 20 + exc * 0 + inh * -80) / total
    expected = rest + (v - rest) * np.exp(-total * DT / 20)
    after = coba.neuron(*np.float32([v, exc, inh, 0, 0, 0, 0.6, 6.7]))[0]
    if expected < -50.001:
        assert after == pytest.approx(expected, abs=2e-5)


@given(st.floats(0, 20), st.floats(-30, 0), st.floats(-70, -51), st.integers(0, 3), st.integers(0, 3))
def test_cuba_is_exact(exc, inh, v, from_e, from_i):
    e, i = exc + 1.62 * from_e, inh - 9 * from_i
    matrix = np.array([[-1 / 20, 1 / 20, 1 / 20], [0, -1 / 5, 0], [0, 0, -1 / 10]])
    from scipy.linalg import expm

    expected = expm(matrix * DT) @ [v + 49, e, i]
    found = cuba.neuron(*np.float32([v, exc, inh, 0, from_e, from_i, 1.62, -9]))
    if expected[0] - 49 < -50.001:
        np.testing.assert_allclose([found[0] + 49, *found[1:3]], expected, atol=2e-5)


def test_a_spike_resets_a_neuron_and_makes_it_wait():
    for module in (coba, cuba):
        v, _, _, pause, spike = module.neuron(*np.float32([-49.9, 50, 0, 0, 0, 0, 1, 1]))
        assert (v, pause, spike) == (-60, 49, True)
        waiting = module.neuron(*np.float32([-60, 50, 0, 1, 0, 0, 1, 1]))
        assert (waiting[0], waiting[3], waiting[4]) == (-60, 0, False)
        assert waiting[1] == pytest.approx(50 * np.exp(-DT / 5))
        assert module.neuron(*np.float32([-60, 1, 0, 0, 0, 0, 1, 1]))[0] > -60


# ---- benchmarks


def pretend(rates_of):
    """Return a probe that says at which rate each way fires, in Hz of COBA, and takes 50 us a step, or 100."""

    def probe(name, arguments, **where):
        way = arguments.get("way", name)
        rate = rates_of[way] * (0.27 if arguments["model"] == "cuba" else 1)
        seconds = 1e-4 * arguments["steps"] * (0.5 if way == "network_engine" else 1)
        return {"seconds": [seconds] * 3, "rate": rate, "resident": 2**20}

    return probe


def test_a_network_that_fires_at_another_rate_has_no_row(monkeypatch):
    rates_of = {"network_engine": 21.0, "example": 21.0, "jnp": 22.0, "cpp": 50.0, "cpp_vector": 20.0}
    monkeypatch.setattr(networks, "run_probe", pretend(rates_of))
    found = list(networks.measure_rows(Options(quick=True)))
    rows = {one.name: one for one in found if isinstance(one, Row)}
    assert [str(one) for one in found if isinstance(one, Failed)] == [
        "cuba, 4000 neurons, 1 thread: C++: one loop FAILED: it fires at 13.50 Hz, not at 5.4 to 5.9: another network",
        "coba, 4000 neurons, 1 thread: C++: one loop FAILED: it fires at 50.00 Hz, not at 20.1 to 23: another network",
    ]
    assert [one.what for one in found if isinstance(one, Absent)] == ["Brian2 and the PyPI package"]
    row = rows["coba, 4000 neurons, 1 thread: C++: a loop without branches"]
    assert (row.value.median, row.ratio.median, row.met) == (pytest.approx(100), pytest.approx(0.5), True)
    assert rows["coba, 4000 neurons, 2 threads: the network engine"].value.median == pytest.approx(50)
    bars = {name: row.bar and row.bar.limit for name, row in rows.items() if name.startswith("coba, 4000 neurons, 2")}
    assert list(bars.values()) == [None, 0.6, None]


@pytest.mark.parametrize(
    ("rate", "runs", "right"), [(19.0, 1, True), (18.9, 4, False), (20.0, 4, True), (24.0, 4, True), (24.2, 4, False)]
)
def test_a_rate_is_judged_by_its_standard_error(rate, runs, right):
    assert networks.Rates(20.1, 23.0, 1.1).hold(rate, runs) == right


def test_a_microcircuit_that_fires_at_another_rate_has_no_row(monkeypatch):
    def probe(name, arguments, **where):
        drive = arguments.get("drive") or arguments["model"].removeprefix("pd14_")
        percent = arguments["n" if name == "network_engine" else "percent"]
        rates = dict(microcircuit.RIGHT[drive, percent].of)
        if arguments.get("threads") == 1:
            rates["L5E"] *= 1.5
        return {"seconds": [3.0 if name == "network_engine" else 15.0], "rates": rates, "resident": 2**30}

    monkeypatch.setattr(microcircuit, "run_probe", probe)
    found = list(microcircuit.measure_rows(Options(rounds=2)))
    assert [str(one) for one in found if isinstance(one, Failed)] == [
        f"{title}: the network engine, 1 thread FAILED: "
        f"it is another network: L5E fires at {fires} Hz instead of {right} Hz"
        for title, fires, right in (
            ("PD14, poisson drive", "11.29", "7.53"),
            ("PD14, dc drive", "11.54", "7.69"),
            ("PD14 at 10 %, poisson drive", "9.72", "6.478"),
        )
    ]
    rows = {one.name: one for one in found if isinstance(one, Row)}
    judged = {drive: rows[f"PD14, {drive} drive: the network engine, 2 threads"] for drive in ("poisson", "dc")}
    assert {drive: (row.value.median, row.met) for drive, row in judged.items()} == {
        "poisson": (pytest.approx(3), True),
        "dc": (pytest.approx(3), False),
    }
    assert judged["dc"].ratio.median == pytest.approx(0.2)


def test_a_network_on_a_gpu_has_rows_of_factors_and_cycles(monkeypatch):
    def probe(name, arguments, **where):
        assert where == {"platform": "gpu"}
        if name == "network_clocks":
            return {"cycles": {"spikes sent": [900.0, 1000.0], "delivered": [3000.0, 3100.0]}, "where": "2 blocks"}
        rate = gpu_engine.RIGHT[arguments["model"], arguments["n"]] * (2 if arguments["n"] == 40_000 else 1)
        return {"seconds": [0.01] * arguments["repeats"], "rate": rate}

    monkeypatch.setattr(gpu_engine, "run_probe", probe)
    found = list(gpu_engine.measure_rows(Options(quick=True)))
    rows = {one.name: one for one in found if isinstance(one, Row)}
    assert rows["cuba, 4000 neurons, spikes recorded"].value.median == pytest.approx(0.001)
    assert rows["cuba, 4000 neurons, spikes recorded"].met
    assert rows["coba, 400000 neurons, counts recorded"].bar is None
    assert rows["PD14, Poisson drive: delivered"].value.median == 3050
    assert [str(one) for one in found if isinstance(one, Failed)] == [
        f"{model}, 40000 neurons, {record} recorded FAILED: it fires at {rate} Hz, not at {right} Hz: another network"
        for model, rate, right in (("cuba", "11.28", "5.64"), ("coba", "43.48", "21.74"))
        for record in ("spikes", "counts", "nothing")
    ]


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("g++") is None, reason="it is written in C++")
@pytest.mark.parametrize("way", ["cpp", "cpp_vector"])
def test_the_network_by_hand_is_the_same_network(way):
    found = {model: measure(way, model, 4000, 3000, 3) for model in RIGHT}
    for model, (low, high) in RIGHT.items():
        assert 0.8 * low < found[model]["rate"] < 1.2 * high
        assert len(found[model]["seconds"]) == 3


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("model", RIGHT)
def test_the_network_in_jax_numpy_is_the_same_network(model):
    low, high = RIGHT[model]
    assert 0.8 * low < measure("jnp", model, 4000, 3000, 1)["rate"] < 1.2 * high
