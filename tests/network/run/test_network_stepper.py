# SPDX-License-Identifier: Apache-2.0
"""A stepper runs the steps that `run` runs, with the same bits, whatever else is done with the simulation meanwhile."""

import copy
import os
import pickle
import re
import signal
import threading

import jax
import numpy as np
import pytest
import small_plans
from beside_interpreter import DRAWN_PARAMS, DRAWN_STATE, drawing, single
from beside_interpreter import equal as same
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import ALL, PLAN, equal, simulation, values

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError
from brainevent.network.cpu import prepared
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.engines import make_engine
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.reference.engine import ReferenceEngine
from brainevent.network.run.requests import every
from brainevent.network.run.simulation import Simulation

RECORD = ["a.spikes", "b.spikes", "a.counts", "b.rate", "a.pause", every(1, "b.v", neurons=[3, 0, 3])]
DRIVE = np.random.default_rng(0).normal(0, 3, (42, 37))
BUILT = {
    "interpreted": lambda: simulation(),
    "numba": lambda: simulation(engine=NumbaEngine),
    "numba, 3 parts": lambda: simulation(small_plans.plan(3), NumbaEngine),
    "jax": lambda: simulation(engine=ReferenceEngine),
    "cuda": lambda: simulation(engine=lambda plan: CudaEngine(plan, blocks=3, device=PretendDevice())),
}


def one_run(parts):
    """Return what single steps recorded, as `values` returns it of a run."""
    spikes = {}
    for name in "ab":
        lists = [part[f"{name}.spikes"] for part in parts]
        times = np.repeat(np.arange(len(parts)) * 0.1, [one.size for one in lists])
        spikes |= {f"{name}.spikes times": times, f"{name}.spikes neurons": np.concatenate(lists)}
        spikes[f"{name}.spikes end"] = len(parts) * 0.1
    counts = {"a.counts": np.sum([part["a.counts"] for part in parts], axis=0, dtype=np.int32)}
    return spikes | counts | {key: np.stack([part[key] for part in parts]) for key in ("b.rate", "a.pause", "b.v")}


# ---- the same bits


@pytest.mark.parametrize("built", BUILT)
def test_steps_are_those_of_a_run(built):
    sim, whole, several = (BUILT[built]() for _ in range(3))
    expected = values(whole.run(42, RECORD, {"a.syn": DRIVE, "b.syn": DRIVE[:, 0]}))
    step = sim.stepper(RECORD, ["b.syn", "a.syn"])
    parts = [step({"a.syn": row, "b.syn": float(row[0])}) for row in DRIVE]
    assert sum(part["a.spikes"].size for part in parts) > 20
    found = one_run(parts)
    assert [array.dtype for array in parts[0].values() if isinstance(array, np.ndarray)] == [
        *["int32"] * 4,
        "float32",
    ]
    for label, array in expected.items():
        np.testing.assert_allclose(found[label], array, rtol=0, atol=1e-9 if "times" in label else 0)
    seven = several.stepper(RECORD, ["a.syn", "b.syn"], steps=7)
    pieces = [seven({"a.syn": rows, "b.syn": rows[:, 0]}) for rows in DRIVE.reshape(6, 7, 37)]
    equal(values(sum(pieces[1:], pieces[0])), expected)
    for other in (sim, several):
        assert other.steps == 42
        same(other.state, whole.state)


@pytest.mark.parametrize("backend", ["numba", pytest.param("jax", marks=pytest.mark.thorough)])
def test_in_float64(backend):
    cells = be.Population(
        "a", 5, small_plans.leaky, {"v": 0.0, "pause": 0}, {"decay": 0.9, "drive": 0.3, "threshold": 8.0}
    )
    net = be.Network([cells], [be.Projection(cells, cells, be.connect.all_to_all(weight=0.3), into="syn", delay=0.2)])
    sim, other = (net.build(dtype="float64", backend=backend, threads=2) for _ in range(2))
    step, given = sim.stepper(["a.v", "a.spikes"], "a.syn"), np.random.default_rng(0).normal(0.5, 1, (30, 5))
    found = [step({"a.syn": row}) for row in given]
    expected = other.run(30, ["a.v", "a.counts"], {"a.syn": given})
    assert expected["a.counts"].sum() > 5
    np.testing.assert_array_equal([one["a.v"] for one in found], expected["a.v"])
    assert found[0]["a.v"].dtype == np.float64
    same(sim.state, other.state)


class Both:
    """Two simulations: what is done with one by steppers is done with the other by `run`."""

    def __init__(self, folder, parts):
        self.one, self.other = Simulation(small_plans.plan(parts), NumbaEngine(small_plans.plan(parts))), simulation()
        self.file, self.kept = folder / "both.npz", (self.one.state, self.other.state)
        self.fed, self.plain = self.one.stepper(RECORD, ["a.syn"]), self.one.stepper(RECORD)
        self.four = self.one.stepper(ALL, "b.syn", steps=4)

    def feed(self, number):
        found, one = self.fed({"a.syn": DRIVE[number]}), {"a.syn": DRIVE[number : number + 1]}
        self._check(found, self.other.run(1, RECORD, one))

    def step(self, number):
        self._check(self.plain(), self.other.run(1, RECORD))

    def steps(self, number):
        found, rows = self.four({"b.syn": DRIVE[number, :4]}), {"b.syn": DRIVE[number, :4]}
        equal(values(found), values(self.other.run(4, ALL, rows)))

    def run(self, number):
        inputs = {f"{'ab'[number % 2]}.syn": DRIVE[number, :3]} if number % 3 else {}
        equal(*(values(sim.run(3, ALL, inputs)) for sim in (self.one, self.other)))

    def set_param(self, number):
        for sim in (self.one, self.other):
            sim.set("a", threshold=5.0 + number / 9)

    def set_state(self, number):
        for sim in (self.one, self.other):
            sim.set("b", v=DRIVE[number, :21] * 1e-39 if number % 2 else DRIVE[number, :21])  # denormals, too

    def set_weights(self, number):
        for sim in (self.one, self.other):
            sim.set("b->a.syn", weights=-number / 4)

    def keep(self, number):
        self.kept = self.one.state, self.other.state
        self.one.save(self.file)

    def go_back(self, number):
        self.one.state, self.other.state = self.kept

    def load(self, number):
        if self.file.exists():
            for sim in (self.one, self.other):
                sim.load(self.file)

    def reset(self, number):
        for sim in (self.one, self.other):
            sim.reset()

    def _check(self, found, expected):
        assert list(found) == list(expected)
        np.testing.assert_array_equal(found["a.spikes"], expected["a.spikes"].neurons)
        np.testing.assert_array_equal(found["b.spikes"], expected["b.spikes"].neurons)
        np.testing.assert_array_equal(found["a.counts"], expected["a.counts"])
        assert found["b.rate"] == expected["b.rate"]
        for label in ("a.pause", "b.v"):
            np.testing.assert_array_equal(found[label], expected[label][0])


WHAT = [name for name in vars(Both) if not name.startswith("_")]


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_a_stepper_follows_every_change_between_steps(tmp_path_factory, data):
    both = Both(tmp_path_factory.mktemp("both"), data.draw(st.sampled_from([1, 3])))
    steps = st.sampled_from(["feed", "step", "steps"])
    for what in data.draw(st.lists(st.sampled_from(WHAT) | steps, min_size=8, max_size=25)):
        getattr(both, what)(data.draw(st.integers(0, 38)))
        assert both.one.steps == both.other.steps
    same(both.one.state, both.other.state)


@pytest.mark.thorough
def test_parameters_that_ask_for_other_code_are_seen():
    """Means of random numbers are tables, or code of their own where they are large."""
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS, parts=2)
    sim, other = Simulation(plan, NumbaEngine(plan)), Simulation(plan, Interpreted(plan))
    step = sim.stepper("a.v", "a.syn")
    for param, value in (("mean", 1.6), ("mean", 30.0), ("rate", 300.0), ("mean", 0.1)):
        for one in (sim, other):
            one.set("a", **{param: value})
        found = [step({"a.syn": 2.0})["a.v"] for _ in range(2)]
        np.testing.assert_array_equal(found, other.run(2, "a.v", {"a.syn": [2.0, 2.0]})["a.v"])
    same(sim.state, other.state)


def test_threads_run_what_takes_long(monkeypatch):
    monkeypatch.setattr(prepared, "_THREADS_PAY", 0)
    sim, other = simulation(small_plans.plan(3), NumbaEngine), simulation()
    step, seven = sim.stepper(RECORD, "a.syn"), sim.stepper(ALL, "a.syn", steps=7)
    started = []
    monkeypatch.setattr(
        prepared.Repeated, "run", lambda self, run=prepared.Repeated.run: started.append(1) or run(self)
    )
    found = [step({"a.syn": row}) for row in DRIVE[:7]]
    assert len(started) == 4  # threads, once it is known how long a step takes
    equal(one_run(found), values(other.run(7, RECORD, {"a.syn": DRIVE[:7]})))
    later = [seven({"a.syn": DRIVE[:7]}) for _ in range(5)]
    equal(values(sum(later[1:], later[0])), values(other.run(35, ALL, {"a.syn": np.tile(DRIVE[:7], (5, 1))})))
    same(sim.state, other.state)
    with pytest.raises(NetworkError, match=r"step: 'a\.syn': is infinite"):
        step({"a.syn": np.inf})
    assert sim.steps == 42


# ---- what it returns, and takes


def test_arrays_are_the_callers():
    for built in ("numba", "numba, 3 parts", "interpreted", "jax"):
        sim = BUILT[built]()
        step, seven = sim.stepper(RECORD), sim.stepper(ALL, steps=7)
        found = [step() for _ in range(3)], [seven() for _ in range(3)]
        before = copy.deepcopy([found[0], [values(one) for one in found[1]]])
        for array in jax.tree.leaves(found[0][1]):
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array[...] = 77
        step(), seven()
        equal(found[0][0], before[0][0])
        equal(found[0][2], before[0][2])
        for one, kept in zip(found[1], before[1], strict=True):
            equal(values(one), kept)


@pytest.mark.parametrize(
    ("steps", "value", "rows"),
    [
        (None, 2.5, np.full((1, 21), 2.5)),
        (None, 3, np.full((1, 21), 3)),
        (None, np.float64(0.1), np.full((1, 21), 0.1)),
        (None, [0.5], np.full((1, 21), 0.5)),
        (None, list(range(21)), np.arange(21)[None]),
        (None, np.arange(21), np.arange(21)[None]),
        (None, np.arange(21)[::-1] % 2 == 1, np.arange(21)[None, ::-1] % 2),
        (None, jax.numpy.arange(21.0), np.arange(21)[None]),
        (4, 2.5, np.full((4, 21), 2.5)),
        (4, [1, 2, 3, 4], np.repeat([[1], [2], [3], [4]], 21, 1)),
        (4, np.float32([[1], [2], [3], [4]]), np.repeat([[1], [2], [3], [4]], 21, 1)),
        (4, np.arange(21)[None] / 3, np.tile(np.arange(21) / 3, (4, 1))),
        (4, np.arange(84).reshape(4, 21), np.arange(84).reshape(4, 21)),
        (21, np.arange(21), np.repeat(np.arange(21)[:, None], 21, 1)),
    ],
)
def test_inputs_are_spread_over_neurons_and_steps(steps, value, rows):
    sim, other = simulation(engine=NumbaEngine), simulation()
    sim.stepper((), "b.syn", steps)({"b.syn": value})
    other.run(len(rows), inputs={"b.syn": rows})
    same(sim.state, other.state)


def test_units_are_those_of_the_receptor():
    u = pytest.importorskip("brainunit")
    cells = be.Population(
        "c",
        3,
        lambda s, arriving, p: (s.replace(v=s.v + arriving.syn), s.v > 99),
        {"v": 0.0},
        units={"v": "mV", "syn": "mV"},
    )
    step = be.Network([cells], dt=0.1).build(backend="numba").stepper("c.v", "c.syn", steps=0.2 * u.ms)
    assert step({"c.syn": 2 * u.volt * 1e-3})["c.v"].tolist() == [[2] * 3, [4] * 3]
    with pytest.raises(NetworkError, match=r"step: 'c.syn': has the unit ms; pass mV"):
        step({"c.syn": 2 * u.ms})


def test_a_stepper_shows_itself_and_refuses_copies():
    sim = simulation()
    assert repr(sim.stepper("a.v", ["a.syn", "b.syn"], 5)) == "Stepper(5 steps, inputs: a.syn, b.syn, record: a.v)"
    assert repr(sim.stepper()) == "Stepper(1 step, inputs: nothing, record: nothing)"
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"a Stepper cannot be copied or pickled; make another one by sim.stepper"):
            refused(sim.stepper())


# ---- what does not fit


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.u",), "record: 'a.u' is not there; a has spikes"),
        (("a.v", "a.sin"), "inputs: a has no receptor 'sin'; did you mean 'syn'?"),
        (("a.v", "c.syn"), "inputs: 'c.syn': there is no population 'c'"),
        (("a.v", ["a.syn", "a.syn"]), "stepper: the input 'a.syn' is named twice; name it once"),
        (
            ("a.v", {"a.syn": 3.0}),
            "stepper: inputs is {'a.syn': 3.0}; pass names such as 'exc.syn', and values to each",
        ),
        (("a.v", 3), "stepper: inputs is 3; pass names"),
        (("a.v", [3]), "inputs: 3 names no receptor; pass for example 'a.syn'"),
        (
            (every(5, "a.v"),),
            "stepper: 'a.v' is recorded every 5 steps, and a call runs one; pass every(1, ...), or st",
        ),
        (("a.v", (), 0), "stepper: steps is 0; pass an integer from 1 to"),
        (("a.v", (), 1.5), "stepper: steps is 1.5; pass an integer from 1 to"),
    ],
)
def test_a_stepper_that_cannot_be_prepared_is_refused_with_a_reason(arguments, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        simulation().stepper(*arguments)


def test_inputs_that_do_not_fit_in_memory_are_refused():
    with pytest.raises(MemoryError, match=r"stepper: the input 'a.syn' of 4000000000 steps and 37 neurons would take"):
        simulation().stepper((), "a.syn", 4_000_000_000)


@pytest.mark.parametrize("built", ["numba", "numba, 3 parts", "interpreted", "jax"])
@pytest.mark.parametrize("steps", [None, 3])
def test_inputs_that_do_not_fit_are_refused_with_a_reason(built, steps):
    sim = BUILT[built]()
    step, before = sim.stepper("a.v", ["a.syn", "b.syn"], steps), sim.state
    wrong = np.zeros(37)
    wrong[5] = np.nan
    for value, words in (
        (np.nan, "step: 'a.syn': is NaN; pass numbers"),
        (-np.inf, "step: 'a.syn': is infinite; pass finite numbers"),
        (1e39, "step: 'a.syn': 1e+39 does not fit in float32; pass numbers that do"),
        (10**400, "step: 'a.syn': found 1000"),
        (wrong[None] if steps else wrong, f"step: 'a.syn': element {[0, 5] if steps else [5]} is NaN"),
        ((1 / (wrong - 1))[None] if steps else 1e300 * (1 + wrong[:4].sum() + np.arange(37)), "step: 'a.syn': "),
        (np.float32([np.inf] * (steps or 37)), "step: 'a.syn': element [0] is infinite"),
        ("x", "step: 'a.syn': found 'x'; pass real numbers, which become float32"),
        (None, "step: 'a.syn': found None; pass real numbers"),
        (1j, "step: 'a.syn': found 1j; pass real numbers"),
        (np.zeros((2, 37)), "step: 'a.syn' has shape (2, 37); pass a number"),
        (np.zeros(36), "step: 'a.syn' has shape (36,); pass a number"),
    ):
        with pytest.raises(NetworkError, match=re.escape(words)):
            step({"a.syn": value, "b.syn": 0})
    for inputs, words in (
        (None, "step: 'a.syn' is missing; pass a value for each input, 0.0 for none"),
        ({"a.syn": 1.0}, "step: 'b.syn' is missing"),
        (
            {"a.syn": 1.0, "b.syn": 1.0, "b.sin": 1},
            "step: 'b.sin' is not an input of this stepper; did you mean 'b.syn'?; ",
        ),
        ({"a.syn": 1.0, "b.sin": 1}, "inputs: a.syn, b.syn; name it in sim.stepper(inputs=...)"),
        ([1.0, 2.0], "step: found list; pass {'population.receptor': value}"),
        (np.ones(3), "step: found ndarray; pass {'population.receptor': value}"),
        (3.0, "step: found float; pass {'population.receptor': value}"),
    ):
        with pytest.raises(NetworkError, match=re.escape(words)):
            step(inputs)
    with pytest.raises(NetworkError, match=r"step: 'b.syn' is not an input of this stepper; inputs: none; name it in"):
        sim.stepper()({"b.syn": 1.0})
    same(sim.state, before)  # nothing ran


@pytest.mark.parametrize("engine", [NumbaEngine, Interpreted, ReferenceEngine])
def test_what_is_not_finite_is_named_and_is_the_state(engine):
    plan = small_plans.plan(check_finite=True)
    sim = Simulation(plan, engine(plan))
    for step in (sim.stepper("a.v"), sim.stepper("a.v", steps=4)):
        sim.reset()
        step()
        begun = sim.steps
        sim.set("b", v=np.where(np.arange(21) == 4, -np.inf, 0))
        with pytest.raises(NotFiniteError, match=rf"population b: state v of neuron 4 is -inf after step {begun}"):
            step()
        assert (sim.steps, sim.state.neurons["b"]["v"][4]) == (begun + 1, -np.inf)
        sim.set("b", v=0.0)
        step()


def test_a_simulation_ends_after_its_last_step():
    sim = simulation(engine=NumbaEngine)
    state = sim.state
    step, three = sim.stepper("a.v"), sim.stepper("a.v", steps=3)
    sim.state = type(state)(np.uint32(2**32 - 3), state.neurons, state.arriving)
    with pytest.raises(
        NetworkError, match="step: 3 steps after 4294967293 are too many; a simulation has at most 42949"
    ):
        three()
    step(), step()
    with pytest.raises(NetworkError, match="step: 1 steps after 4294967295 are too many"):
        step()
    assert sim.steps == 2**32 - 1


def test_a_callback_must_not_step():
    sim = simulation()
    step = sim.stepper()
    with pytest.raises(
        NetworkError, match=r"the callback moved the simulation from step 4 to 5; run, load and reset it"
    ):
        sim.run(9, chunk=4, callback=lambda *_: step())


# ---- Ctrl-C


@pytest.mark.parametrize("built", ["numba", "numba, 3 parts"])
@pytest.mark.parametrize("steps", [None, 10**7])
def test_ctrl_c_raises_after_a_whole_step(built, steps):
    sim, alone = BUILT[built](), simulation(engine=NumbaEngine)
    step = sim.stepper("a.rate" if steps is None else (), steps=steps)
    sim.stepper()()  # what is compiled is not interrupted
    press = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def forever():
        press.start()
        while True:
            step()

    with pytest.raises(KeyboardInterrupt):
        forever()
    press.join()
    assert 1 < sim.steps < 10**7
    alone.run(sim.steps)
    same(sim.state, alone.state)
    equal(values(sim.run(20, ALL)), values(alone.run(20, ALL)))


def test_two_threads_take_turns():
    sim, alone = simulation(engine=NumbaEngine), simulation(engine=NumbaEngine)
    step = sim.stepper("a.spikes", "a.syn")
    threads = [threading.Thread(target=lambda: [step({"a.syn": 1.0}) for _ in range(300)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone.run(600, inputs={"a.syn": np.ones(600)})
    same(sim.state, alone.state)


def test_the_engine_may_be_replaced():
    sim, other = simulation(engine=NumbaEngine), simulation()
    step = sim.stepper("a.v", "a.syn")
    step({"a.syn": 1.0})
    engine = make_engine(PLAN, "interpreted")
    engine.load(sim.state)
    sim.engine = engine
    np.testing.assert_array_equal(step({"a.syn": 1.0})["a.v"], other.run(2, "a.v", {"a.syn": [1, 1]})["a.v"][1])


def test_recordings_of_a_stepper_that_do_not_fit_are_refused_before_it_is_made():
    with pytest.raises(MemoryError, match=r"stepper: what 4000000000 steps record \(b.v .*\) would take"):
        simulation().stepper("b.v", steps=4_000_000_000)
