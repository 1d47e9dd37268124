# SPDX-License-Identifier: Apache-2.0
"""A simulation records what its engine does, however a run is cut; what does not fit is said in words."""

import copy
import dataclasses
import functools
import operator
import pickle
import re
import sys
import time
import types

import jax
import numpy as np
import pytest
import small_plans
from hypothesis import given
from hypothesis import strategies as st
from recorded import ALL, ON_CPU, PLAN, equal, simulation, values

import brainevent as be
from brainevent.bench.progress import counted
from brainevent.errors import NetworkError, NotFiniteError
from brainevent.network.engines import ENGINES, engine_name, make_engine
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import Plan, PopulationPlan
from brainevent.network.run.finite import check_finite
from brainevent.network.run.pace import Pace
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.requests import every
from brainevent.network.run.simulation import Simulation
from brainevent.scalar.trace import trace


@pytest.fixture(scope="module")
def whole():
    """Return 90 steps in one chunk, and the state after them."""
    sim = simulation()
    return sim.run(90, ALL, chunk=90), sim.state


# ---- recording


def test_what_is_recorded_is_what_the_engine_did(whole):
    result, state = whole
    engine = Interpreted(PLAN)
    sample, everything = Sample("b", "v", 7, np.array([3, 0, 3])), Sample("a", "pause", 1, np.arange(37))
    expected = engine.run(90, Wanted(("a", "b"), ("a",), ("b",), {"v": sample, "pause": everything}), {})
    for name in "ab":
        steps, neurons = expected.spikes[name]
        assert steps.size > 30
        np.testing.assert_allclose(result[f"{name}.spikes"].times, steps * 0.1)
        np.testing.assert_array_equal(result[f"{name}.spikes"].neurons, neurons)
    np.testing.assert_array_equal(result["a.counts"], expected.counts["a"])
    np.testing.assert_array_equal(result["b.rate"], expected.rates["b"])
    np.testing.assert_array_equal(result["b.v"], expected.samples["v"])
    np.testing.assert_array_equal(result["a.pause"], expected.samples["pause"])
    assert (result["a.pause"].shape, result["b.v"].shape, result["b.rate"].shape) == ((90, 37), (13, 3), (90,))
    assert (result.steps, result.first, result.dt, result.interrupted) == (90, 0, 0.1, False)
    jax.tree.map(np.testing.assert_array_equal, state, engine.state)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 100))
def test_no_result_depends_on_how_a_run_is_cut(whole, runs, chunk):
    sim, results = simulation(), []
    for steps in [*runs, 90]:
        left = 90 - sim.steps
        results += [sim.run(min(steps, left), ALL, chunk=chunk)] if left else []
    joined = functools.reduce(operator.add, results)
    equal(values(joined), values(whole[0]))
    jax.tree.map(np.testing.assert_array_equal, sim.state, whole[1])


def test_times_are_those_of_the_steps(whole):
    result = whole[0]
    np.testing.assert_allclose(result.times("b.v"), np.arange(0, 90, 7) * 0.1)
    np.testing.assert_allclose(result.times("b.rate"), np.arange(90) * 0.1)
    np.testing.assert_array_equal(result.times("a.spikes"), result["a.spikes"].times)
    sim = simulation()
    sim.run(10)
    later = sim.run(9, [every(7, "b.v"), every(20, "a.v")])
    np.testing.assert_allclose(later.times("b.v"), [1.4])
    assert (later.times("a.v").size, later["a.v"].shape) == (0, (0, 37))
    with pytest.raises(NetworkError, match=r"result.times: a.counts has one value for the whole run; pass a label"):
        result.times("a.counts")


def test_a_result_is_a_mapping_that_describes_itself(whole):
    result = whole[0]
    assert list(result) == ["a.spikes", "b.spikes", "a.counts", "b.rate", "a.pause", "b.v"]
    assert ("b.v" in result, "b.u" in result, result.get("b.u"), len(result)) == (True, False, None, 6)
    first, *lines = repr(result).splitlines()
    assert first == "Result(90 steps of 0.1 ms from step 0)"
    assert lines[-1].split(maxsplit=1) == ["b.v", "float32 (13, 3)"]
    with pytest.raises(
        KeyError, match=re.escape("result: 'b.vv' was not recorded; did you mean 'b.v'?; recorded: a.s")
    ):
        result["b.vv"]
    assert repr(simulation().run(3)) == "Result(3 steps of 0.1 ms from step 0)"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((5, "a.rate"), (5, "a.counts"), "result + result: 'a.rate', 'a.counts' was recorded in one run only"),
        (
            (5, every(2, "a.v")),
            (5, every(3, "a.v")),
            "'a.v' was recorded in one run only, or differently; pass the same",
        ),
        ((5, every(1, "a.v", [1])), (5, every(1, "a.v", [2])), "'a.v' was recorded in one run only"),
    ],
)
def test_results_of_other_requests_do_not_add(first, second, words):
    sim = simulation()
    one, other = sim.run(*first), sim.run(*second)
    with pytest.raises(NetworkError, match=re.escape(words)):
        one + other
    with pytest.raises(NetworkError, match=re.escape("one is 5 steps of 0.1 ms from step 5, the other 5 steps of 0.1")):
        other + one


@pytest.mark.parametrize(
    ("neurons", "expected"),
    [
        (None, range(21)),
        (slice(3, 9, 2), [3, 5, 7]),
        (4, [4]),
        ([-1, 2], [20, 2]),
        (np.arange(21) > 18, [19, 20]),
        ([], []),
    ],
)
def test_neurons_are_chosen_as_in_an_array(whole, neurons, expected):
    result = simulation().run(5, every(1, "b.v", neurons, label="chosen"))
    everything = simulation().run(5, "b.v")["b.v"]
    np.testing.assert_array_equal(result["chosen"], everything[:, list(expected)])


def namesakes(s, arriving, p):
    spikes = s.spikes + 1
    return s.replace(spikes=spikes, rate=s.rate * 2, counts=s.counts + 10), spikes % 3 == 0


@pytest.mark.parametrize("backend", ON_CPU)
def test_states_with_the_names_of_records_are_recorded_by_every(backend):
    """A string asks for the spikes of the population, `every` for its state, and both may be asked for."""
    population = be.Population("c", 4, namesakes, {"spikes": 0, "rate": 1.0, "counts": 0})
    sim = be.Network([population]).build(backend=backend)
    both = sim.run(6, ["c.counts", "c.rate", every(1, "c.rate", label="own"), every(1, "c.spikes")])
    assert both["c.counts"].tolist() == [2, 2, 2, 2]
    assert both["c.rate"].tolist() == [0, 0, 4, 0, 0, 4]
    assert both["own"][:, 0].tolist() == [2, 4, 8, 16, 32, 64]
    assert both["c.spikes"][:, 3].tolist() == [1, 2, 3, 4, 5, 6]
    later = sim.run(4, ["c.spikes", every(2, "c.counts")])
    assert (len(later["c.spikes"].times), later["c.counts"][:, 0].tolist()) == (4, [70, 90])
    with pytest.raises(NetworkError, match=r"'c.rate' is requested twice; pass every\(..., label=...\)"):
        sim.run(1, ["c.rate", every(1, "c.rate")])
    with pytest.raises(NetworkError, match=r"'c.rat' is not there; did you mean 'rate'.; c has spikes, counts, rate$"):
        sim.run(1, every(1, "c.rat"))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("c.spikes", "record: 'c.spikes': there is no population 'c'; populations: a, b"),
        ("a.spkies", "record: 'a.spkies' is not there; did you mean 'spikes'?; a has spikes, counts, rate, v, pause"),
        ("a.psuae", "'a.psuae' is not there; did you mean 'pause'?"),
        (
            "a.syn",
            "record: 'a.syn' is a receptor, and only states are recorded; store it in a state of the rule; a has",
        ),
        ("a.decay", "record: 'a.decay' is a parameter, and only states are recorded"),
        ("a.V", "record: 'a.V' is not there; did you mean 'v'?; a has"),
        ("a", "record: 'a' is a population; add what to record, for example 'a.spikes'"),
        ("spikes", "record: 'spikes' names no population; pass one, for example 'a.spikes'"),
        (["a.v", "a.v"], "record: 'a.v' is requested twice; pass every(..., label=...) to one of them"),
        (["a.v", every(5, "a.v")], "record: 'a.v' is requested twice"),
        ([3], "record: found 3; pass strings such as 'exc.spikes', or every(5, 'exc.v')"),
        (every(5, "a.spikes"), "record: spikes cannot be sampled by every(...); pass 'a.spikes' itself"),
        (every(0, "a.v"), "every: steps is 0; pass an integer of at least 1"),
        (
            every(1.5, "a.v"),
            "every: steps is 1.5; pass an integer of at least 1, or a time with a unit, such as 500 * br",
        ),
        ("a.v[0]", "record: 'a.v[0]' names neurons; pass every(1, 'a.v', neurons=[0, 1])"),
        (
            every(2, "a.rate[0:5]"),
            "names neurons; record 'a.spikes', and take those of some neurons from the result: result['a.spikes'].of([",
        ),
        (every(True, "a.v"), "every: steps is True; pass an integer"),
        (every(1, "a.v", [[0, 1], [2, 3]]), "every: neurons of 'a.v' have the shape (2, 2); pass a slice, integers"),
        (every(1, "a.v", [37]), "every: neurons of 'a.v': index 37 is out of bounds for axis 0 with size 37; a has 37"),
        (every(1, "a.v", label=3), "every: label is 3; pass a string that is not empty, or None"),
        (every(1, "a.v", label=""), "every: label is ''; pass"),
        (every(1, "a.v", [[1], [2, 3]]), "every: neurons of 'a.v': parts of this list have different shapes"),
        (every(1, "a.v", [0.5]), "a has 37 neurons: pass a slice, integers, or a mask"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_a_reason(record, words):
    sim = simulation()
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.run(5, record)
    assert sim.steps == 0


# ---- running


@pytest.mark.parametrize(
    ("steps", "options", "words"),
    [
        (0, {}, "run: steps is 0; pass an integer from 1 to 4294967295"),
        (-1, {}, "run: steps is -1; pass an integer from 1 to"),
        (2**40, {}, "run: steps is 1099511627776; pass an integer from 1 to 4294967295"),
        (2**32 - 1, {}, "run: steps is 4294967295, after 2; a simulation has at most 4294967295 steps"),
        (50.0, {}, "run: steps is 50.0; pass an integer from 1 to 4294967295, or a time with a unit, such as 500 * br"),
        (True, {}, "run: steps is True; pass an integer"),
        (3, {"callback": 3}, "run: callback is 3; pass a function of the simulation and a result"),
        (3, {"record": None}, "record: found None; pass strings such as 'exc.spikes'"),
        (3, {"inputs": [1.0]}, "inputs: found list; pass {'population.receptor': array}"),
        ("9", {}, "run: steps is '9'; pass an integer"),
        (3, {"chunk": 0}, "run: chunk is 0; pass an integer from 1 to"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(steps, options, words):
    sim = simulation()
    sim.run(2)
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.run(steps, **options)
    assert sim.steps == 2


def test_inputs_are_cut_with_the_run():
    drive = np.random.default_rng(0).normal(0, 3, (50, 37))
    for given_as, array in (("a.syn", drive), ("b.syn", drive[:, 0]), ("b.syn", drive[:, :1])):
        one, other = simulation(), simulation()
        result = one.run(50, ALL, inputs={given_as: array}, chunk=50)
        equal(values(other.run(50, ALL, inputs={given_as: array}, chunk=7)), values(result))
        assert not np.array_equal(result["a.counts"], simulation().run(50, ALL)["a.counts"])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"a.sin": np.zeros((5, 1))}, "inputs: a has no receptor 'sin'; did you mean 'syn'?; receptors: syn"),
        ({"aa.syn": np.zeros((5, 1))}, "inputs: 'aa.syn': there is no population 'aa'; did you mean 'a'?"),
        ({"a.syn": np.zeros((4, 37))}, "inputs: 'a.syn' has shape (4, 37); pass (5, 37), a row for each step, or (5,)"),
        ({"syn": np.zeros(5)}, "inputs: 'syn' names no receptor; pass for example 'a.syn'"),
        ({"a.syn": 3.0}, "inputs: 'a.syn' has shape (); pass (5, 37)"),
        ({"a.syn": [0, 1, np.nan, 0, 0]}, "inputs: 'a.syn': element [2] is NaN; pass numbers"),
        ({"a.syn": [0, 1, 0, np.inf, 0]}, "inputs: 'a.syn': element [3, 0] is infinite; pass finite numbers"),
        ({"a.syn": [0, 1, 0, 1e300, 0]}, "inputs: 'a.syn': 1e+300 does not fit in float32; pass numbers that do"),
        ({"a.syn": ["x"] * 5}, "inputs: 'a.syn': found list of <U1; pass real numbers, which become float32"),
        ({"a.syn": np.zeros(5, complex)}, "inputs: 'a.syn': found ndarray of complex128; pass real numbers"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_a_reason(inputs, words):
    sim = simulation()
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.run(5, inputs=inputs)
    assert sim.steps == 0


def test_the_callback_sees_each_chunk_and_may_change_the_network():
    seen = []

    def quiet_after_twenty(sim, result):
        seen.append((result.first, result.steps, sim.steps, int(result["a.counts"].sum())))
        if sim.steps == 20:
            sim.set("a", threshold=1e9)

    result = simulation().run(50, "a.counts", chunk=20, callback=quiet_after_twenty)
    assert [entry[:3] for entry in seen] == [(0, 20, 20), (20, 20, 40), (40, 10, 50)]
    counts = [entry[3] for entry in seen]
    assert counts[0] > 5
    assert counts[1:] == [0, 0]
    assert result["a.counts"].sum() == sum(counts)


def test_a_callback_must_not_move_the_simulation():
    with pytest.raises(
        NetworkError, match=r"the callback moved the simulation from step 4 to 0; run, load and reset it"
    ):
        simulation().run(9, chunk=4, callback=lambda sim, result: sim.reset())


def test_a_callback_may_end_the_run(whole):
    def stop(sim, result):
        if sim.steps == 40:
            raise KeyboardInterrupt

    sim = simulation()
    result = sim.run(90, ALL, chunk=20, callback=stop)
    assert (result.interrupted, result.steps, sim.steps) == (True, 40, 40)
    assert repr(result).startswith("Result(40 steps of 0.1 ms from step 0, interrupted)")
    equal(values(result + sim.run(50, ALL)), values(whole[0]))


def test_what_is_not_finite_is_named_and_is_the_state():
    sim = simulation(small_plans.plan(check_finite=True))
    sim.set("b", v=np.where(np.arange(21) == 4, -np.inf, 0))
    for step in (0, 1):
        with pytest.raises(NotFiniteError, match=rf"population b: state v of neuron 4 is -inf after step {step}"):
            sim.run(10)
        assert (sim.steps, sim.state.neurons["b"]["v"][4]) == (step + 1, -np.inf)
    sim.set("b", v=0.0)
    assert sim.run(10).steps == 10


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        ([0.001], [128]),  # grows at most eightfold
        ([10.0], [1]),  # shrinks at once
        ([0.1], [64]),
        ([3.0, 0.001, 0.008, 0.6], [2, 16, 128, 64]),  # the first chunk compiled
        ([0.4], [16]),
    ],
)
def test_chunks_take_about_half_a_second(took, expected):
    pace, steps = Pace(), []
    for seconds in took:
        pace.took(pace.steps, seconds)
        steps.append(pace.steps)
    assert steps == expected


def test_a_short_last_chunk_does_not_change_the_pace():
    pace = Pace()
    pace.took(3, 0.01)
    assert pace.steps == 16
    pace.took(0, 1.0)  # Ctrl-C came before the first step
    assert pace.steps == 16
    pace.took(3, 1.0)
    assert pace.steps == 1


# ---- progress


def test_progress_is_words_where_there_is_no_tqdm(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    simulation().run(30, chunk=10, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"network: 10 of 30 steps, 33 % in \S+ [mu]?s, \S+ [mu]?s left", lines[0])
    assert re.fullmatch(r"network: 30 of 30 steps, 100 % in \S+ [mu]?s", lines[2])
    simulation().run(30, chunk=10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    simulation().run(30, chunk=10, progress=True)
    text = capsys.readouterr().err
    assert (text.count("\r"), text.count("\n"), text[-1]) == (3, 1, "\n")


def test_a_file_has_a_line_for_each_tenth(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with counted(1000, "network", "steps") as update:
        for _ in range(1000):
            update(1)
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_progress_is_a_bar_of_tqdm_where_it_is_installed(monkeypatch):
    calls = []

    class Bar:
        def __init__(self, total, desc, unit, unit_scale):
            calls.append((total, desc, unit))

        def update(self, n):
            calls.append(n)

        def close(self):
            calls.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    simulation().run(25, chunk=10, progress=True)
    assert calls == [(25, "network", " steps"), 10, 10, 5, "closed"]


# ---- looking


def test_state_and_parameters_are_copies():
    sim = simulation()
    state, params = sim.state, sim.params
    state.neurons["a"]["v"][:] = 99
    params["a"]["drive"][:] = 99
    equal(values(sim.run(20, ALL)), values(simulation().run(20, ALL)))
    assert list(params) == ["a", "b", "a->b.syn", "b->a.syn", "a->a.syn", "b->b.syn", "b->a.syn#2"]
    np.testing.assert_array_equal(params["a->b.syn"], PLAN.synapses[0].weights * np.float32(0.5))
    assert (params["a->b.syn"].dtype, params["b->b.syn"].shape) == (np.float32, (1,))
    assert (sim.steps, sim.time) == (20, 2.0)


@pytest.mark.parametrize("backend", ON_CPU)
def test_an_engine_shares_no_array_of_a_state(backend):
    engine = make_engine(PLAN, backend)
    engine.run(20, Wanted(), {})
    given, expected = engine.state, engine.state
    engine.load(given)
    for array in jax.tree.leaves((given.neurons, given.arriving)):
        array[...] += 1
    jax.tree.map(np.testing.assert_array_equal, engine.state, expected)


def test_a_state_is_assigned_also_as_arrays_of_jax():
    sim, other = simulation(), simulation()
    sim.run(17)
    other.state = jax.tree.map(jax.numpy.asarray, sim.state)
    equal(values(other.run(20, ALL)), values(sim.run(20, ALL)))
    assert other.steps == 37


def altered(**changes):
    state = simulation().state
    neurons = {name: dict(parts) for name, parts in state.neurons.items()}
    return dataclasses.replace(state, neurons=neurons, **changes)


@pytest.mark.parametrize("backend", ON_CPU)
def test_a_state_that_went_through_jit_is_the_same_state(backend):
    """JAX sorts names: pause comes before v there."""
    sim, other = (Simulation(PLAN, make_engine(PLAN, backend)) for _ in range(2))
    sim.run(20)
    state = jax.jit(lambda state: state)(sim.state)
    assert list(state.neurons["a"]) != list(sim.state.neurons["a"])
    for load in (other.engine.load, lambda state: setattr(other, "state", state)):
        other.reset()
        load(state)
        assert list(other.state.neurons["a"]) == ["v", "pause"]
        sim.state = state
        equal(values(other.run(20, ALL)), values(sim.run(20, ALL)))


def test_what_is_not_finite_is_named_in_the_order_of_the_plan():
    wrong = {name: {"v": np.full(2, np.nan, "f4"), "u": np.full(2, np.nan, "f4")} for name in "ab"}
    rule = trace(lambda s, arriving, p: (s, s.v > 1), {"v": 0.0, "u": 0.0}, [], {})
    populations = (PopulationPlan(name, 2, rule, wrong[name], {}, {}, (1, 1)) for name in "ba")
    sorted_by_jax = {name: dict(sorted(states.items())) for name, states in sorted(wrong.items())}
    with pytest.raises(NotFiniteError, match="population b: state v of neuron 0"):
        check_finite(Plan(tuple(populations), (), 0.1, 1, 1, "", True), 3, sorted_by_jax)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda n: n["a"].update(v=np.zeros(37)),
            "state: a.v is float64 (37,), but here float32 (37,); pass a state of this network",
        ),
        (lambda n: n["a"].update(u=0), "state: a has v, pause, u, but here it has v, pause; pass a state"),
        (lambda n: n.pop("b"), "state: b has nothing, but here it has v, pause"),
        (lambda n: n.update(c={}), "state: there is no population 'c'; populations: a, b"),
    ],
)
def test_a_state_of_another_network_is_refused(change, words):
    sim, state = simulation(), altered()
    sim.run(3)
    change(state.neurons)
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.state = state
    assert sim.steps == 3
    with pytest.raises(NetworkError, match=r"state: step is -1; pass an integer from 0 to 4294967295"):
        sim.state = altered(step=np.int32(-1))
    with pytest.raises(NetworkError, match=r"state: found dict; pass a state such as that of sim.state"):
        sim.state = {"step": 3}


@pytest.mark.parametrize("parts", [1, 3])
def test_connections_are_the_synapses(parts):
    plan = small_plans.plan(parts)
    found = simulation(plan).connections("a->b.syn")
    synapses, dense = plan.synapses[0], np.zeros((37, 21))
    for source in range(37):
        for entry in range(synapses.starts[source * parts], synapses.starts[(source + 1) * parts]):
            dense[source, synapses.targets[entry]] += synapses.weights[entry] * 0.5
    again = np.zeros((37, 21))
    np.add.at(again, (found.sources, found.targets), found.weights)
    np.testing.assert_array_equal(again, dense)
    np.testing.assert_allclose(found.delays, small_plans.plan(1).synapses[0].delays * 0.1)
    assert (len(found), found.weights.dtype, found.shape) == (300, np.float32, (37, 21))
    assert repr(found) == "Connections('a->b.syn', 300 synapses, weights -10 to 19.5, delays 0.1 to 0.8 ms)"
    one = simulation(plan).connections("b->b.syn")
    assert repr(one) == "Connections('b->b.syn', 90 synapses, weights 2.5, delays 0.1 to 0.8 ms)"
    assert (set(one.weights), one.weights.shape) == ({2.5}, (90,))
    with pytest.raises(
        NetworkError, match=re.escape("no projection 'a->b'; did you mean 'a->b.syn'?; projections: a->")
    ):
        simulation().connections("a->b")


def test_the_report_has_every_number():
    text = simulation().report()
    assert repr(text) == text
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert "58 neurons, 740 synapses, dt 0.1 ms, seed 1, at step 0 (0 ms)" in text
    assert "backend interpreted, 1 thread;" in text
    assert lines["a"][1:3] == ["37", "leaky"]
    assert " ".join(lines["a->b.syn"][1:]) == "300 8.11 -10 to 19.5 (int16) 0.1 to 0.8 1.5 kB 5"
    assert lines["b.syn"][1:] == ["0.5", "0", "0", "%", "8"]
    assert lines["a.syn"][-1] == "8"
    assert repr(simulation()) == "Simulation(58 neurons, 740 synapses, at step 0, interpreted on 1 thread)"
    assert repr(Simulation(PLAN, make_engine(PLAN, "jax"))).endswith(f", jax on {jax.default_backend()})")
    alone = simulation(dataclasses.replace(PLAN, synapses=(), parts=2)).report()
    assert "58 neurons, 0 synapses" in alone
    assert "2 threads" in alone


def rounding_of(connect):
    """Return what the report says of a receptor: quantum, rounding at most, and that of the smallest weight in %."""
    cells = be.Population("cells", 2, lambda s, arriving, p: (s.replace(v=s.v + arriving.syn), s.v > 1), {"v": 0.0})
    sim = be.Network([cells], [be.Projection(cells, cells, connect, into="syn")]).build(backend="interpreted")
    line = next(line.split() for line in sim.report().splitlines() if line.startswith("cells.syn"))
    assert line[4] == "%"
    return [float(number) for number in line[1:4]]


@pytest.mark.parametrize(
    ("connect", "quantum"),
    [
        (be.connect.all_to_all(weight=0.275), 0.275),
        (np.array([[0.5, -2.5], [1.5, 0.0]]), 0.5),
        (be.connect.all_to_all(weight=be.integers(1, 4)), 1 / 256),
    ],
    ids=["one", "multiples", "integers"],
)
def test_the_report_calls_exact_weights_exact(connect, quantum):
    assert rounding_of(connect) == pytest.approx([quantum, 0, 0], rel=1e-5)


def test_the_report_says_by_how_much_weights_are_rounded():
    given_ = np.array([[1.0, np.pi], [np.e, 0.0]])
    quantum, rounding, share = rounding_of(given_)
    assert rounding == pytest.approx(np.abs(given_ - np.rint(given_ / quantum) * quantum).max(), rel=0.02)
    assert share == pytest.approx(100 * rounding, rel=0.1)
    quantum, rounding, share = rounding_of(be.connect.all_to_all(weight=be.uniform(1, 2)))
    assert rounding == pytest.approx(quantum / 2, rel=1e-4)
    assert 0 < share < 100 * 2**-9


def test_rules_are_explained_line_by_line():
    text = simulation().explain()
    assert text.startswith(
        "rule leaky of populations a, b, run by 'interpreted'\n  state: s_v float32, s_pause int32\n"
    )
    blocks = re.split(r"\nsmall_plans.py:\d+  ", text)[1:]
    assert [block.splitlines()[0] for block in blocks[:2]] == [
        "v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + p.drive)",
        "spike = v >= p.threshold",
    ]
    assert "t2 = s_v * p_decay" in blocks[0]
    assert blocks[1].splitlines()[1:] == ["    t6 = t5 >= p_threshold"]
    assert text.splitlines()[-3:] == [
        "returns v=t7, pause=t10, spike=t6",
        "",
        "elements of sweeps and batches run one after another",
    ]
    assert "random: nothing" in text


def test_loops_branches_and_functions_are_explained():
    def rule(s, arriving, p):
        total = jax.lax.fori_loop(0, 3, lambda k, x: x * p.decay, s.v)
        v = jax.lax.cond(total > p.threshold, lambda: total - 1, lambda: jax.numpy.exp(total))
        return s.replace(v=v, pause=s.pause), v > p.threshold + p.drive + arriving.syn

    plan = dataclasses.replace(PLAN, populations=(small_plans.population("a", 5, rule=rule),), synapses=())
    text = simulation(plan).explain()
    assert re.search(r"test_network_simulation.py:\d+  total = .*\n(    .*\n)*    while True:\n        ", text)
    assert re.search(
        r"    if t\d+:\n        t\d+ = be_exp\(t\d+\)\n        t\d+ = t\d+\n    else:\n        t\d+ = t\d+ - ", text
    )
    assert re.search(r"functions: .*be_exp \(\d+ lines\)", text)


# ---- changing


def test_parameters_and_states_are_replaced():
    sim = simulation()
    sim.set("a", threshold=5, drive=1, v=np.arange(37), pause=2)
    assert sim.params["a"]["threshold"] == np.float32(5)
    assert sim.params["a"]["threshold"].dtype == np.float32
    assert (sim.params["a"]["drive"] == 1).all()
    assert sim.params["a"]["drive"].shape == (37,)
    np.testing.assert_array_equal(sim.state.neurons["a"]["v"], np.arange(37, dtype=np.float32))
    assert sim.state.neurons["a"]["pause"].dtype == np.int32
    params = {**PLAN.populations[0].params, "threshold": np.float32(5), "drive": np.ones(37, np.float32)}
    state = {"v": np.arange(37, dtype=np.float32), "pause": np.full(37, 2, np.int32)}
    changed = dataclasses.replace(PLAN.populations[0], params=params, state=state)
    built = simulation(dataclasses.replace(PLAN, populations=(changed, PLAN.populations[1])))
    equal(values(sim.run(40, ALL)), values(built.run(40, ALL)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_copies_a_simulation_says_how_to(copied):
    with pytest.raises(TypeError, match=r"cannot be copied or pickled; build another one from the network, and let it"):
        copied(simulation())


def test_reset_is_the_build_again(whole):
    sim = simulation()
    sim.run(30)
    sim.set("a", threshold=1e9, v=3)
    sim.run(30)
    sim.reset()
    assert (sim.steps, sim.time) == (0, 0.0)
    equal(values(sim.run(90, ALL)), values(whole[0]))


@pytest.mark.parametrize(
    ("population", "given_values", "words"),
    [
        (
            "c",
            {"v": 0},
            "set: there is no population 'c', nor a projection; populations: a, b; projections: a->b.syn, b->a.syn, a",
        ),
        (
            "a",
            {"treshold": 0},
            "a has no 'treshold'; did you mean 'threshold'?; parameters: decay, drive, threshold; st",
        ),
        ("a", {"v": np.zeros(3)}, "set: v of a has shape (3,); pass a number or an array (37,)"),
        ("a", {"drive": np.zeros((37, 1))}, "set: drive of a has shape (37, 1); pass a number or an array (37,)"),
        ("a", {"threshold": np.zeros(37)}, "was built as one number for all neurons; pass a number, or build the netw"),
        ("a", {"threshold": float("nan")}, "set: threshold of a: is NaN; pass numbers"),
        ("a", {"v": [0, np.nan] + [0] * 35}, "set: v of a: element [1] is NaN; pass numbers"),
        ("a", {"pause": 1.5}, "set: pause of a: found 1.5; pass integers, which become int32"),
        ("a", {"pause": 2**31}, "set: pause of a: 2147483648 does not fit in int32; pass numbers that do"),
        ("a", {"v": "high"}, "set: v of a: found 'high'; pass real numbers, which become float32"),
        ("a", {"v": [[1], [2, 3]]}, "set: v of a: found"),
        ("a", {"threshold": 1e39}, "set: threshold of a: 1e+39 does not fit in float32"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_reason(population, given_values, words):
    sim = simulation()
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.set(population, **{**({"decay": 0.5} if population == "a" else {}), **given_values})
    assert sim.params["a"]["decay"] == np.float32(0.9)


def test_units_are_stripped():
    unit = pytest.importorskip("brainunit")
    sim, plain = simulation(), simulation()
    sim.set("a", threshold=9e-3 * unit.volt)
    plain.set("a", threshold=9)
    drive = np.linspace(-1, 1, 20)
    one = sim.run(20, ALL, inputs={"a.syn": drive * unit.mV})
    equal(values(one), values(plain.run(20, ALL, inputs={"a.syn": drive})))
    with pytest.raises(NetworkError, match=r"set: threshold of a: has the unit .*; pass one that is ms, mV"):
        sim.set("a", threshold=3 * unit.meter)


def test_engines_are_chosen_by_name():
    assert isinstance(make_engine(PLAN, "interpreted"), Interpreted)
    assert engine_name(Interpreted(PLAN)) == "interpreted"
    with pytest.raises(
        NetworkError, match=re.escape("unknown backend 'numab' for networks; did you mean 'numba'?; reg")
    ):
        make_engine(PLAN, "numab")
    with pytest.raises(NetworkError, match=re.escape(f"'metal' for networks; registered: {', '.join(ENGINES)}")):
        make_engine(PLAN, "metal")
    with pytest.raises(
        NetworkError, match="blocks is an option of backend='cuda', but the backend is 'numba'; leave it out, or pass"
    ):
        make_engine(PLAN, "numba", blocks=3)


def test_chunks_grow_until_they_take_half_a_second(monkeypatch):
    """The clock tells of steps that take a tenth of a millisecond each: half a second holds 4096, a power of two."""
    sim, chunks = simulation(), []
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-4 * sim.steps)
    sim.run(20_000, callback=lambda sim, result: chunks.append(result.steps))
    assert chunks[:4] == [16, 128, 1024, 4096]
    assert set(chunks[3:-1]) == {4096}
    assert sum(chunks) == 20_000
