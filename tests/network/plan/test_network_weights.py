# SPDX-License-Identifier: Apache-2.0
"""Weights of a network that is built are replaced: in every engine, with the checks of a build, kept by files."""

import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import CheckpointError, NetworkError
from brainevent.network.engines import make_engine
from brainevent.network.reference.quanta import exact_in_floats
from brainevent.network.run.simulation import Simulation

ENGINES = ("interpreted", "numba", "jax")
NAME, ONE = "a->b.syn", "b->a.syn"  # a weight for each synapse, and one for all


def small(parts=1):
    """Return a plan of which no two projections have one name."""
    plan = small_plans.plan(parts)
    return dataclasses.replace(plan, synapses=plan.synapses[:4])


def simulation(backend="interpreted", parts=1, plan=None):
    plan = plan or small(parts)
    return Simulation(plan, make_engine(plan, backend))


def run(sim, steps=40):
    result = sim.run(steps, ["a.spikes", "b.spikes", "b.v"], chunk=steps)
    return [
        *(x for name in "ab" for x in (result[f"{name}.spikes"].times, result[f"{name}.spikes"].neurons)),
        result["b.v"],
    ]


def same(found, expected, rtol=0.0):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)


def with_weights(plan, name, numbers):
    """Return a plan that was built with other weights, in quanta."""
    place = [s.name for s in plan.synapses].index(name)
    return plan.replaced({place: dataclasses.replace(plan.synapses[place], weights=np.atleast_1d(numbers))})


# ---- engines


@pytest.mark.parametrize(("backend", "parts"), [("interpreted", 1), ("numba", 1), ("numba", 3), ("jax", 1)])
def test_a_run_is_that_of_a_network_built_with_the_weights(backend, parts):
    sim = simulation(backend, parts)
    numbers = np.arange(300, dtype=np.int16) % 50 - 10
    sim.set(NAME, weights=numbers * 0.5)
    sim.set(ONE, weights=-3.0)
    plan = with_weights(with_weights(small(), NAME, numbers), ONE, np.int16(-12))
    expected = run(simulation(plan=plan))
    before = run(simulation(parts=parts))
    assert not np.array_equal(before[-1], expected[-1])
    same(run(sim), expected, rtol=1e-5 if backend == "jax" else 0)


@pytest.mark.parametrize(("largest", "exact"), [(2**24 - 1, True), (2**24, False)])
def test_sums_are_floats_where_these_are_exact(largest, exact):
    a = small_plans.population("a", 9)
    edge = small_plans.synapses(a, a, 1, 1, weight="int32")
    plan = with_weights(small_plans.Plan((a,), (edge,), 0.1, 1, 1, "x"), edge.name, np.int32(-largest))
    assert exact_in_floats(plan, ("a", "syn")) == exact


@pytest.mark.parametrize("backend", ENGINES)
def test_parameters_that_were_set_stay(backend):
    sim, other = simulation(backend), simulation(backend)
    for one, names in ((sim, ("a", NAME)), (other, (NAME, "a"))):
        for name in names:
            one.set(name, **({"threshold": 5.0} if name == "a" else {"weights": 1.5}))
    same(run(sim), run(other))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("largest", [9, 40_000, 2**25])
def test_one_weight_becomes_many_and_narrow_ones_wide(backend, largest):
    sim = simulation(backend)
    numbers = np.arange(200) % 17 - 8
    numbers[3] = largest
    sim.set(ONE, weights=numbers * 0.25)
    plan = with_weights(small(), ONE, numbers.astype(np.int32))
    same(run(sim), run(simulation(plan=plan)), rtol=1e-5 if backend == "jax" else 0)
    held = sim.params[ONE]
    assert held.shape == (200,)
    assert held.dtype == (np.float64 if largest == 2**25 else np.float32)
    np.testing.assert_array_equal(held, numbers * 0.25)
    sim.reset()
    assert sim.params[ONE].tolist() == [-2.25]
    same(run(sim), run(simulation()), rtol=1e-5 if backend == "jax" else 0)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("weight", [be.normal(1, 0.2, low=0.2), 2.0])
def test_synapses_have_one_order_for_any_number_of_threads(weight, threads):
    params = {"decay": 0.9, "drive": 1.1, "threshold": 8.0}
    a = be.Population("a", 60, small_plans.leaky, {"v": 0.0, "pause": 0}, params)
    some = be.connect.in_degree(20, weight=weight, replace=True)
    network = be.Network([a], [be.Projection(a, a, some, into="syn", name="p", delay=be.uniform(0.1, 0.6))])
    one, other = (network.build(threads=number, quantum=0.25) for number in (1, threads))
    weights = np.random.default_rng(0).integers(-3, 9, 1200) * 0.25
    for _ in range(2):
        found, again = one.connections("p"), other.connections("p")
        for key in ("sources", "targets", "delays", "weights"):
            np.testing.assert_array_equal(getattr(found, key), getattr(again, key))
        np.testing.assert_array_equal(one.params["p"], other.params["p"])
        one.set("p", weights=weights)
        other.set("p", weights=weights)
    runs = [sim.run(40, "a.v")["a.v"] for sim in (one, other)]
    np.testing.assert_array_equal(*runs)
    assert np.array_equal(one.connections("p").weights, weights)


def on_its_way(sim):
    """Return what is on its way to b, in the unit of weights."""
    (quantum,) = (quantum for name, _, quantum in sim.state.quanta if name == "b")
    return sim.state.arriving["b"]["syn"] * quantum


def test_spikes_on_their_way_keep_their_weights():
    sim, other = simulation(), simulation()
    sim.run(5)
    other.run(5)
    waiting = on_its_way(sim)
    assert waiting.any()
    sim.set(NAME, weights=0)
    np.testing.assert_array_equal(on_its_way(sim), waiting)
    assert sim.run(1, "b.v")["b.v"].tolist() == other.run(1, "b.v")["b.v"].tolist()


def leaky(s, arriving, p):
    v = s.v * 0.9 + arriving.exc - arriving.inh
    spike = v >= 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def drawn():
    """Return a network of which several projections leave one population, with many delays."""
    a = be.Population("a", 60, leaky, {"v": be.uniform(0.3, 1.5)})
    b = be.Population("b", 40, leaky, {"v": be.uniform(0.3, 1.5)})
    some = be.connect.prob(0.2, weight=be.normal(0.5, 0.1, low=0.1))
    joined = [be.Projection(a, b, some, into=into, delay=be.uniform(0.1, 1.2)) for into in ("exc", "inh")]
    back = [be.Projection(b, end, be.connect.in_degree(4, weight=0.25), into="exc", delay=0.7) for end in (a, b)]
    return be.Network([a, b], joined + back, dt=0.1)


def test_weights_are_set_in_the_middle_of_a_run():
    sims = [
        drawn().build(seed=2, backend=name, threads=k) for name, k in (("interpreted", 1), ("numba", 1), ("numba", 2))
    ]
    built = drawn().build(seed=2, backend="interpreted")
    results = []
    for sim in sims:
        parts = [sim.run(9, ["a.v", "b.v"])]
        found = sim.connections("a->b.exc")
        sim.set("a->b.exc", weights=(found.sources % 5 + found.targets % 3 + np.rint(10 * found.delays)) / 8)
        sim.set("b->a.exc", weights=1.5)
        parts.append(sim.run(9, ["a.v", "b.v"]))
        sim.set("a->b.inh", weights=0)
        parts.append(sim.run(12, ["a.v", "b.v"]))
        results.append([part[label] for part in parts for label in ("a.v", "b.v")])
    same(results[1], results[0])
    same(results[2], results[0])
    assert not np.array_equal(results[0][3], built.run(18, "b.v")["b.v"][9:])
    np.testing.assert_array_equal(sims[0].plan.synapses[0].weights, built.plan.synapses[0].weights)
    for sim in sims:
        sim.reset()
        np.testing.assert_array_equal(sim.run(9, ["a.v"])["a.v"], results[0][0])


def test_all_that_looks_at_weights_sees_the_new_ones():
    sim = simulation()
    sim.set(NAME, weights=1.5)
    assert set(sim.connections(NAME).weights) == {1.5}
    assert re.search(r"a->b.syn +300 +8.11 +1.5 \(int16\)", sim.report())
    assert sim.params[NAME].tolist() == [1.5]
    assert "1.5" in repr(sim.connections(NAME))


# ---- what is returned is taken back


def test_connections_are_copies():
    sim = simulation()
    found = sim.connections(NAME)
    for array in (found.sources, found.targets, found.weights, found.delays):
        array[:] = 0
    same(run(sim), run(simulation()))
    assert sim.connections(NAME).weights.max() == 19.5


@settings(max_examples=30)
@given(st.data())
def test_what_params_return_changes_nothing(data):
    quantum = data.draw(st.floats(2**-20, 2**20, width=32))
    largest = data.draw(st.sampled_from([20, 2**15 - 1, 2**22, 2**24, 2**27]))
    numbers = np.array(data.draw(st.lists(st.integers(-largest, largest), min_size=12, max_size=12)), np.int32)
    a = small_plans.population("a", 9, quantum=quantum)
    edges = small_plans.synapses(a, a, 12, 1, weight="int32")
    plan = with_weights(small_plans.Plan((a,), (edges,), 0.1, 1, 1, "x"), edges.name, numbers)
    sim = simulation(plan=plan)
    for given_ in (sim.params[edges.name], sim.connections(edges.name).weights):
        sim.set(edges.name, weights=given_)
        np.testing.assert_array_equal(sim.engine.plan.synapses[0].weights, numbers)
    before = {key: np.copy(value) for key, value in sim.params["a"].items()}
    sim.set("a", **sim.params["a"])
    for key, value in sim.params["a"].items():
        np.testing.assert_array_equal(value, before[key])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_a_description_are_taken_back(dtype):
    cells = be.Population(
        "cells", 40, lambda s, arriving, p: (s.replace(v=s.v * 0.9 + arriving.syn), s.v > 1), {"v": 2.0}
    )
    connect = be.connect.prob(0.3, weight=be.lognormal(0.2, 0.1))
    sim = be.Network([cells], [be.Projection(cells, cells, connect, into="syn")]).build(
        backend="interpreted", dtype=dtype
    )
    numbers = sim.plan.synapses[0].weights
    name = "cells->cells.syn"
    assert sim.params[name].dtype == dtype
    sim.set(name, weights=sim.params[name])
    np.testing.assert_array_equal(sim.engine.plan.synapses[0].weights, numbers)
    twice = 2 * sim.params[name]
    sim.set(name, weights=twice)
    np.testing.assert_allclose(sim.params[name], twice, rtol=2**-9)


# ---- files


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("name", [NAME, ONE])
def test_a_file_keeps_weights_for_any_number_of_parts(tmp_path, parts, name):
    sim, path = simulation(parts=2), tmp_path / "day1.npz"
    found = sim.connections(name)
    sim.set(name, weights=(found.sources * 3 + found.targets + np.rint(found.delays * 10)) % 7 * 0.5)
    sim.run(10)
    sim.save(path)
    again = simulation("numba", parts)
    again.set("b->b.syn", weights=7)  # of which the file knows nothing
    again.load(path)
    same(run(again), run(sim))
    assert again.params["b->b.syn"].tolist() == [2.5]
    one, other = again.connections(name), sim.connections(name)
    for key in ("sources", "targets", "delays", "weights"):
        order, others = (np.lexsort((c.weights, c.delays, c.targets, c.sources)) for c in (one, other))
        np.testing.assert_array_equal(getattr(one, key)[order], getattr(other, key)[others])
    again.reset()
    np.testing.assert_array_equal(again.params[name], simulation(parts=parts).params[name])


def test_weights_of_earlier_versions_are_whole_quanta(tmp_path):
    sim, path = simulation(), tmp_path / "day1.npz"
    sim.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    numbers = np.arange(300, dtype=np.int16) % 50 - 10
    np.savez(path, **arrays, **{f"weights/{NAME}": numbers, f"weights/{ONE}": np.int16([-12])})
    sim.load(path)
    np.testing.assert_array_equal(sim.params[NAME], numbers * 0.5)
    assert sim.params[ONE].tolist() == [-3.0]
    expected = with_weights(with_weights(small(), NAME, numbers), ONE, np.int16(-12))
    same(run(sim), run(simulation(plan=expected)))


@pytest.mark.parametrize("quantum", [0.0, -1.0, float("nan"), 1e-60, 1, "0.5", None])
def test_quanta_of_a_damaged_file_are_refused_with_a_reason(tmp_path, quantum):
    sim, path = simulation(), tmp_path / "day1.npz"
    sim.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"]))
    header["quanta"]["b"] = {"syn": quantum}
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    with pytest.raises(CheckpointError, match=r"the quantum of b\.syn in its header is .*: the file is damaged"):
        sim.load(path)


def test_force_keeps_the_weights_of_now(tmp_path):
    path = tmp_path / "day1.npz"
    simulation().save(path)
    sim = simulation(plan=dataclasses.replace(small(), fingerprint="other"))
    sim.set(NAME, weights=2)
    sim.load(path, force=True)
    assert set(sim.params[NAME]) == {2}


@pytest.mark.parametrize("weights", [np.zeros(7, np.int16), np.zeros(300, np.float32)])
def test_a_damaged_file_is_refused_with_a_reason(tmp_path, weights):
    sim, path = simulation(), tmp_path / "day1.npz"
    sim.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays, **{f"weights/{NAME}": weights})
    with pytest.raises(
        CheckpointError, match=r"weights/a->b\.syn does not have the shape of this network: the file is d"
    ):
        sim.load(path)


# ---- what does not fit


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (
            "a->b",
            {"weights": 1},
            "set: there is no population 'a->b', nor a projection; did you mean 'a->b.syn'?; popu",
        ),
        (
            NAME,
            {"weight": 1},
            "set: a->b.syn has no 'weight'; did you mean 'weights'?; only the weights of a projection can be",
        ),
        (NAME, {"delays": 1}, "set: a->b.syn has no 'delays'; only the weights of a projection can be set"),
        (NAME, {}, "set: weights of a->b.syn are missing; pass weights="),
        (NAME, {"weights": np.zeros(299)}, "have the shape (299,); pass a number, or an array (300,) in the order of"),
        (NAME, {"weights": np.nan}, "set: weights of a->b.syn: is NaN; pass numbers"),
        (NAME, {"weights": np.where(np.arange(300) == 7, np.inf, 0)}, "weights of a->b.syn: element [7] is infinite"),
        (NAME, {"weights": 1e39}, "set: weights of a->b.syn: is 1e+39; pass finite numbers that fit in float32"),
        (NAME, {"weights": "strong"}, "set: weights of a->b.syn: found 'strong'; pass real numbers"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_reason(name, values, words):
    sim = simulation()
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.set(name, **values)
    np.testing.assert_array_equal(sim.params[NAME], simulation().params[NAME])


def fixed():
    """Return a simulation whose quanta the user gave."""
    return simulation(plan=dataclasses.replace(small(), given=(("a", "syn"), ("b", "syn"))))


def test_sums_that_leave_32_bits_name_the_neuron():
    sim = fixed()
    weights = np.zeros(300)
    synapses = sim.plan.synapses[0]
    weights[5] = 2.0**29
    weights[synapses.targets == synapses.targets[5]] = 2.0**29
    words = f"weights into neuron {synapses.targets[5]} of b by syn may add up to "
    with pytest.raises(NetworkError, match=f"{words}.* times the quantum of weights there, 0.5, but sums have"):
        sim.set(NAME, weights=weights)
    sim.set(NAME, weights=weights / 64)
    assert sim.params[NAME].max() == 2**23


def test_what_is_on_its_way_counts_as_well():
    sim = fixed()
    sim.set(NAME, weights=2.0**21)
    sim.run(4)
    last = np.abs(sim.state.arriving["b"]["syn"][-1])  # until it arrives, synapses with shorter delays may add weights
    assert last.max() >= 2**22
    synapses, weights = sim.plan.synapses[0], np.zeros(300)
    neuron = int(last.argmax())
    places = np.flatnonzero((synapses.targets == neuron) & (synapses.delays < len(sim.state.arriving["b"]["syn"])))
    weights[places] = (2**31 - 2**21) // places.size // 256 * 128.0  # which fit, without what is pending
    with pytest.raises(NetworkError, match=f"pending input of neuron {neuron} of b by syn may add up to"):
        sim.set(NAME, weights=weights)
    sim.reset()
    sim.set(NAME, weights=weights)


def test_a_quantum_that_the_user_gave_stays():
    """With the rounding that the user accepted, as in a build."""
    sim = fixed()
    sim.set(NAME, weights=np.where(np.arange(300) == 4, 0.7, 1.0))
    assert sim.params[NAME][4] == 0.5
    assert re.search(r"b.syn +0.5 +0.2 +40 %", sim.report())
    with pytest.raises(NetworkError, match=r"set: quantum of b.syn, which build was given, is 0.5, which rounds all"):
        sim.set(NAME, weights=0.1)
    with pytest.raises(NetworkError, match=r"more than 2\*\*30 times as large"):
        sim.set(NAME, weights=2.0**31)
