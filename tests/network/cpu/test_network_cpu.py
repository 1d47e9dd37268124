# SPDX-License-Identifier: Apache-2.0
"""The CPU engine beside the interpreted network: the same bits for every plan, number of parts and split of a run."""

import dataclasses
import hashlib
import os
import platform
import re
import signal
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import neuron_rules
import numba
import numpy as np
import pytest
import small_plans
from beside_interpreter import (
    ALL,
    DRAWN_PARAMS,
    DRAWN_STATE,
    as_tree,
    compare,
    drawing,
    equal,
    plans,
    said_of_nan,
    single,
    wishes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import cpu_target
from programs import run_program

from brainevent.backends.numba.floats import restore_floats
from brainevent.backends.numba.loops import compile_native
from brainevent.errors import NetworkError
from brainevent.network import native
from brainevent.network.cpu import runs as cpu_runs
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.cpu.on_update import compiled_update
from brainevent.network.cpu.update_text import update_of
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Wanted


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = data.draw(plans(data.draw(st.integers(1, 3))))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    compare(NumbaEngine(plan), [cut, 24 - cut], wanted, inputs)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("parts", [3, 1, 2])
def test_a_busy_network_equals_the_interpreter(parts):
    (record,) = compare(NumbaEngine(small_plans.plan(parts)), [300], ALL)
    assert record.spikes["a"][0].size > 100
    assert record.rates["b"].sum() == record.spikes["b"][0].size


def test_no_result_depends_on_parts_or_pieces():
    whole = NumbaEngine(small_plans.plan(1))
    expected = whole.run(200, ALL, {})
    for parts, pieces in ((2, [200]), (3, [1, 57, 142]), (1, [199, 1])):
        engine, spikes = NumbaEngine(small_plans.plan(parts)), []
        for steps in pieces:
            spikes.append(engine.run(steps, ALL, {}).spikes["a"])
            again = NumbaEngine(small_plans.plan(parts))
            again.load(engine.state)
            engine = again
        equal(engine.state, whole.state)
        equal(tuple(np.concatenate(x) for x in zip(*spikes, strict=True)), expected.spikes["a"])


@pytest.mark.thorough
def test_bits_that_do_not_change():
    """One digest for all processors, versions of Python and of JAX."""
    engine = NumbaEngine(single(drawing, DRAWN_STATE, DRAWN_PARAMS, parts=2))
    engine.run(50, Wanted(), {})
    small = NumbaEngine(small_plans.plan(2))
    small.run(500, Wanted(), {})
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves([engine.state, small.state]):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    assert digest.hexdigest()[:16] == "018d47350d451b91"


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_random_numbers_equal_the_interpreter(parts):
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS, parts)
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    for param, value in (("mean", 1.6), ("mean", 30), ("rate", 300), ("mean", np.nan), ("rate", 8), ("mean", -1)):
        for engine in (ours, theirs):
            engine.set("a", param, np.float32(value))
        equal(*(as_tree(engine.run(3, Wanted(("a",)), {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)
    assert ours.state.neurons["a"]["n"].mean() == pytest.approx(18 * 3, rel=0.02)


def test_rules_on_hard_values_equal_the_interpreter():
    names = ("arithmetic", "adaptive", "branch_in_loop", "table", "to_int", "shift_far", "int_divide", "select", "hash")
    functions = {name: neuron_rules.RULES[name] for name in names}

    def rule(s, arriving, p):
        given = {key: getattr(s, key) for key in neuron_rules.INPUTS}
        outs = {f"out_{name}": function(**given) for name, function in functions.items()}
        return s.replace(**outs, x=s.x + arriving.syn), s.b

    values = dict(zip(neuron_rules.INPUTS, neuron_rules.hard_values(3000), strict=True))
    shapes = {key: jax.ShapeDtypeStruct((), dtype) for key, dtype in neuron_rules.INPUTS.items()}
    for name, function in functions.items():
        out = jax.eval_shape(lambda function=function, **k: jnp.asarray(function(**k)), **shapes)
        values[f"out_{name}"] = np.zeros(3000, out.dtype)
    for parts in (1, 3):
        (record, *_) = compare(NumbaEngine(single(rule, values, {}, parts)), [1, 2], Wanted(("a",)))
        assert record.spikes["a"][1].size == values["b"].sum()


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("quantum", [0.25, 2.0**-126, 3e-38])
def test_denormals_are_flushed_as_by_the_interpreter(quantum):
    def rule(s, arriving, p):
        return s.replace(v=jnp.where(s.v == p.least, 1.0, s.v), tiny=jnp.where(s.v > 0, 1e-39, s.tiny)), s.v == 0

    state = {"v": np.float32([1e-39, -1e-40, 1, 0]), "tiny": np.float32([1, 2, 3, 1e-41])}
    plan = single(rule, state, {"least": np.float32([0, 1e-39, 2, 3])}, quantum=quantum)
    engine = NumbaEngine(plan)
    equal(engine.state, Interpreted(plan).state)  # before a step, a state is what it was given
    compare(NumbaEngine(plan), [1, 1], Wanted(("a",)), {("a", "syn"): np.full((2, 1), 1e-40, np.float32)})

    def adding(s, arriving, p):
        return s.replace(v=s.v * 0.5 + arriving.syn), s.v > 1

    sent = single(adding, {"v": np.zeros(4, np.float32)}, {}, quantum=quantum)
    ours, theirs = NumbaEngine(sent), Interpreted(sent)
    state = dataclasses.replace(theirs.state, arriving={"a": {"syn": np.array([[1, -4, 9, 2**30]], np.int32)}})
    for engine in (ours, theirs):
        engine.load(state)
        engine.run(2, Wanted(), {("a", "syn"): np.full((2, 4), 1e-39, np.float32)})
    equal(ours.state, theirs.state)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets a register of x86-64")
def test_the_rounding_mode_of_a_thread_changes_no_bit():
    """The first product is below 2^-126 and rounds up to it as a denormal; a sum is rounded to nearest."""

    def rule(s, arriving, p):
        return s.replace(v=s.v * p.factor, w=s.w + np.float32(2**-24 * 1.5)), s.v > 1

    @numba.njit
    def set_floats(mode):
        restore_floats(mode)

    numbers = np.float32([float.fromhex("0x1.6afb1ap-1"), float.fromhex("0x1.691952p-126")])
    engine = NumbaEngine(single(rule, {"v": numbers[:1], "w": np.float32([1])}, {"factor": numbers[1]}))
    set_floats(0x7F80)  # towards zero, denormals kept
    engine.run(1, Wanted(), {})
    after = np.float32(2**-126) * np.float32(0.5), np.float32(1) + np.float32(2**-24 * 1.5)
    set_floats(0x1F80)
    assert (engine.state.neurons["a"]["v"], engine.state.neurons["a"]["w"]) == (0, np.float32(1 + 2**-23))
    assert after == (np.float32(2**-127), 1)


@pytest.mark.parametrize("parts", [1, 3])
def test_no_spike_is_dropped(parts):
    def rule(s, arriving, p):
        return s.replace(n=s.n + 1), (s.n + s.k) % 3 != 0

    state = {"n": np.zeros(500, np.int32), "k": np.arange(500, dtype=np.int32)}
    (record, _) = compare(NumbaEngine(single(rule, state, {}, parts)), [60, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size == 60 * 500 * 2 // 3


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_is_not_finite_is_named_in_order_of_steps_and_then_of_the_plan(parts):
    plan = small_plans.plan(parts, check_finite=True)
    message = said_of_nan(NumbaEngine(plan))
    assert message == said_of_nan(Interpreted(plan))
    assert re.search(r"population b: state v of neuron 4 is nan after step \d", message)


def test_non_finite_values_pass_unless_checked():
    engine = NumbaEngine(small_plans.plan())
    engine.set("b", "drive", np.full(21, np.nan, np.float32))
    engine.run(9, Wanted(), {})
    assert np.isnan(engine.state.neurons["b"]["v"]).any()


@pytest.mark.parametrize("parts", [1, 2])
def test_ctrl_c_ends_a_run_after_a_whole_step(parts):
    engine, other = (NumbaEngine(small_plans.plan(parts)) for _ in range(2))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(2**31, Wanted(), {})
    steps = int(engine.state.step)
    assert steps > 0
    other.run(steps, Wanted(), {})
    equal(engine.state, other.state)
    equal(as_tree(engine.run(50, ALL, {})), as_tree(other.run(50, ALL, {})))


def test_a_run_that_breaks_off_within_a_step_says_so(monkeypatch):
    engine = NumbaEngine(small_plans.plan(3))
    start = engine.state

    class NoMoreThreads(threading.Thread):
        def start(self):
            if self.name == "brainevent part 2":
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(cpu_runs.threading, "Thread", NoMoreThreads)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        engine.run(5, Wanted(), {})
    monkeypatch.undo()
    with pytest.raises(NetworkError, match=r"was interrupted within a step; call sim.reset()"):
        engine.run(5, Wanted(), {})
    engine.load(start)
    other = Interpreted(small_plans.plan(3))
    equal(as_tree(engine.run(60, ALL, {})), as_tree(other.run(60, ALL, {})))


@pytest.mark.parametrize("shape", [(4, 37), (5, 36), (5,)])
def test_inputs_of_another_shape_are_refused(shape):
    message = re.escape(f"inputs a.syn: have shape {shape}; pass (5, 37), or (5, 1) for all")
    with pytest.raises(NetworkError, match=message):
        NumbaEngine(small_plans.plan()).run(5, Wanted(), {("a", "syn"): np.zeros(shape, np.float32)})


def in_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_engines_run_at_once_and_one_engine_lets_others_wait():
    expected = NumbaEngine(small_plans.plan(2))
    expected.run(1000, Wanted(), {})
    engines = [NumbaEngine(small_plans.plan(2)) for _ in range(3)]
    runs = [lambda engine=engine: engine.run(1000, Wanted(), {}) for engine in engines[:2]]
    halves = [lambda: engines[2].run(500, Wanted(), {})] * 2
    in_threads(*runs, *halves)
    for engine in engines:
        equal(engine.state, expected.state)


def test_the_state_does_not_change_when_the_engine_runs():
    engine = NumbaEngine(small_plans.plan())
    before = engine.state
    kept = jax.tree.map(np.copy, before)
    engine.run(20, Wanted(), {})
    equal(before, kept)


def updates_of(name, size, **params):
    population = small_plans.population(name, size, **params)
    named = {n.text: np.asarray(v) for n, v in zip(population.rule.params, population.params.values(), strict=True)}
    return update_of(population, named)


def test_text_is_the_same_for_all_sizes_and_values():
    one = updates_of("a", 10, threshold=np.float32(3))
    assert updates_of("b", 999, threshold=np.float32(7), quantum=0.5) == one
    assert updates_of("a", 10, threshold=np.full(10, 3, np.float32)).text != one.text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for instructions of x86-64")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        jnp.exp,
        *(pytest.param(function, marks=pytest.mark.thorough) for function in (jnp.log, jnp.tanh, jnp.sin)),
    ],
)
def test_native_code_updates_several_neurons_at_once(function):
    def rule(s, arriving, p):
        v = function(s.v * p.decay + arriving.syn)
        return s.replace(v=v, pause=s.pause), v > p.threshold + p.drive

    update = updates_of("a", 10, rule=rule)
    module = compile_native(compiled_update(update.forms, update.text), 3, "looked_at")
    text = cpu_target.target_context.codegen()._tm.emit_assembly(module)
    for instruction in ("v?mulps", "v?addps"):
        assert re.search(rf"\b{instruction}\b", text)
    assert "vector.body" in str(module)


AGAIN = """
import small_plans
from brainevent.backends.numba import loops
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.run.recorded import Wanted
def refuse(*_):
    raise AssertionError("compiled again")
loops.compile_native = refuse
engine = NumbaEngine(small_plans.plan(2))
engine.run(7, Wanted(), {})
print(engine.state.neurons["a"]["v"].view("uint32").sum())
"""


def test_a_later_process_compiles_nothing(tmp_path):
    engine = NumbaEngine(small_plans.plan(2))
    engine.run(7, Wanted(), {})
    assert int(run_program(AGAIN)) == engine.state.neurons["a"]["v"].view("uint32").sum()


def test_compiled_code_is_kept_with_all_files_that_decide_it(tmp_path, monkeypatch):
    found = native.files_of(sorted(Path(native.__file__).parent.glob("*/on_*.py")))
    names = {f"{file.parent.name}/{file.name}" for file in found}
    assert {
        "plan/distribution.py",
        "plan/loop_arguments.py",
        "cpu/tables.py",
        "scalar/samplers.py",
        "scalar/lower.py",
    } <= names
    (tmp_path / "room").mkdir()
    texts = {
        "on_a": "from .b import x\n",
        "b": "def f():\n    from . import (\n        c,\n        d,\n    )\n",
        "c": "",
        "d": "",
        "e": "",
    }
    for name, text in texts.items():
        (tmp_path / "room" / f"{name}.py").write_text(text)
    monkeypatch.setattr(native, "_ROOMS", [tmp_path])
    assert [file.stem for file in native.files_of([tmp_path / "room" / "on_a.py"])] == ["b", "c", "d", "on_a"]
