# SPDX-License-Identifier: Apache-2.0
"""`simulate` with native code of the CPU in programs of JAX: the bits of the interpreter, side by side under `vmap`."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
import test_network_in_jax as in_jax
from beside_interpreter import ALL, DRAWN_PARAMS, DRAWN_STATE, drawing, equal, plans, single, wishes
from hypothesis import given, settings
from hypothesis import strategies as st
from test_network_sweep import DRIVES, INPUT, RECORD, STEPS, WEIGHTS, built

import brainevent as be
from brainevent.errors import NetworkError, ShapeError, UnknownNameError
from brainevent.network.cpu import pure
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.cpu.image import Image
from brainevent.network.run.simulation import Simulation


def simulation(plan):
    return Simulation(plan, NumbaEngine(plan))


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = data.draw(plans(data.draw(st.integers(1, 3))))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    in_jax.compare(simulation(plan), [cut, 24 - cut], wanted, inputs, data.draw(st.sampled_from(
        [{}, {"b": {"decay": np.float32(0.5), "drive": plan.population("b").params["drive"] * 2}}]
    )))  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2])
def test_every_layout_of_synapses_runs(parts):
    out = in_jax.compare(simulation(small_plans.plan(parts, check_finite=True)), [70, 33], ALL)
    assert out["b.spikes"].sum() > 50


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_numbers_and_means_of_the_build(dtype):
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS, parts=2)
    if dtype == np.float32:
        in_jax.compare(
            simulation(plan), [9, 8], dataclasses.replace(ALL, spikes=("a",), counts=("a",), rates=(), samples={})
        )
        with pytest.raises(
            NetworkError,
            match=r"params\['a'\]\['mean'\] sets the mean of random.poisson.* with an array of means \(\d+,\), or",
        ):
            be.simulate(simulation(plan), simulation(plan).state, {"a": {"mean": 2.0}}, 3)
        sim = simulation(plan)
        sim.set("a", mean=2.0)
        with pytest.raises(NetworkError, match=r"sets the mean of random.poisson, .* here or by Simulation.set; leave"):
            be.simulate(sim, sim.state, {}, 3)
        be.simulate(sim, sim.state, {"a": {"mean": plan.population("a").params["mean"]}}, 3)
    else:
        sim = built(dtype="float64")
        state, out = be.simulate(sim, sim.state, {}, STEPS, record=RECORD)
        result = sim.run(STEPS, RECORD)
        assert out["E.v"].dtype == out["I.counts"].dtype == np.float64
        np.testing.assert_array_equal(out["E.v"], result["E.v"])
        np.testing.assert_array_equal(out["I.counts"], result["I.counts"])
        equal(jax.tree.map(np.asarray, state.neurons), sim.state.neurons)


def call(sim, record=("E.rate", "E.v", "I.counts")):
    def run(drive, rows, state, weights, keys):
        params = {"E": {"drive": drive}, **({} if weights is None else {"IE": weights})}
        return be.simulate(sim, state, params, STEPS, {"E.syn": rows}, record, keys=keys)

    return run


def keys_of(seed):
    return {p.name: np.array(p.key, np.uint32) for p in built(seed=seed).plan.populations}


@pytest.mark.parametrize("threads", ["1", "2"])
def test_elements_have_the_bits_that_they_have_alone(monkeypatch, threads):
    """States, parameters, inputs and keys, nested; in one thread and in two; within `jit` and outside."""
    monkeypatch.setenv("BRAINEVENT_THREADS", threads)
    sim = built(threads=1)
    states = [sim.state, be.simulate(sim, sim.state, {}, 9)[0]]
    keys = [keys_of(4), keys_of(5)]
    stacked, both = (jax.tree.map(lambda *x: np.stack(x), *some) for some in (states, keys))
    run = call(sim)
    inner = jax.vmap(run, (0, None, None, None, None))
    nested = jax.vmap(jax.vmap(inner, (None, 0, None, None, 0)), (None, None, 0, None, None))
    for wrapped in (nested, jax.jit(nested)):
        found = wrapped(DRIVES, INPUT[:2], stacked, None, both)
        for a, state in enumerate(states):
            for b in range(2):
                for c, drive in enumerate(DRIVES):
                    expected = run(drive, INPUT[b], state, None, keys[b])
                    element = jax.tree.map(lambda x: x[a, b, c], found)  # noqa: B023 - called at once
                    equal(jax.tree.map(np.asarray, element), jax.tree.map(np.asarray, expected))


def test_keys_are_those_of_other_seeds():
    sim, other = built(threads=1), built(seed=8)
    found, out = be.simulate(sim, sim.state, {}, STEPS, record=RECORD, keys=keys_of(8))
    plan = dataclasses.replace(
        sim.plan,
        populations=tuple(dataclasses.replace(p, key=other.plan.population(p.name).key) for p in sim.plan.populations),
    )
    alone = simulation(plan)
    np.testing.assert_array_equal(out["E.rate"], alone.run(STEPS, RECORD)["E.rate"])
    equal(jax.tree.map(np.asarray, found.neurons), alone.state.neurons)


def test_weights_are_those_of_separate_builds():
    """Alone, and under `vmap`, where all run side by side."""
    sim = built(threads=1)
    run = call(sim)
    states, outs = jax.vmap(run, (0, None, None, 0, None))(DRIVES, INPUT[0], sim.state, WEIGHTS, None)
    for k in range(3):
        other = built()
        other.set("IE", weights=WEIGHTS[k])
        other.set("E", drive=DRIVES[k])
        result = other.run(STEPS, ["E.rate", "E.v", "I.counts"], {"E.syn": INPUT[0]})
        for found in (jax.tree.map(lambda x: x[k], outs), run(DRIVES[k], INPUT[0], sim.state, WEIGHTS[k], None)[1]):  # noqa: B023
            for label in result:
                np.testing.assert_array_equal(found[label], result[label])
        for name, own in other.state.neurons.items():
            np.testing.assert_array_equal(states.neurons[name]["v"][k], own["v"])


def compiled_of(sim):
    return jax.jit(lambda state: be.simulate(sim, state, {}, STEPS, record="E.rate")[1]["E.rate"])


def test_calls_that_run_at_once_keep_nothing_and_programs_do():
    sim = built()
    of_one = lambda state: be.simulate(sim, state, {}, STEPS, record=RECORD)[1]
    two = jax.tree.map(lambda x: jnp.stack([x, x]), sim.state)
    four = jax.tree.map(lambda x: jnp.stack([x, x]), two)
    kept, alone = set(pure._kept), of_one(sim.state)
    for mapped, states in ((jax.vmap(of_one), two), (jax.vmap(jax.vmap(of_one)), four)):
        for name, found in mapped(states).items():
            np.testing.assert_array_equal(found, np.broadcast_to(alone[name], found.shape))
    assert set(pure._kept) == kept
    jax.jit(jax.vmap(of_one))(two)
    assert len(set(pure._kept) - kept) == 1


def test_programs_outlive_the_simulation():
    """A program that is compiled has its synapses, also after weights were set and the simulation is gone."""
    sim = built()
    compiled, state = compiled_of(sim), sim.state
    before = np.asarray(compiled(state))
    sim.set("IE", weights=-5.0)
    after = be.simulate(sim, dataclasses.replace(state, quanta=None), {}, STEPS, record="E.rate")[1]["E.rate"]
    del sim
    np.testing.assert_array_equal(compiled(state), before)
    assert np.any(after != before)


def last_of(sim, params, rows=None):
    """Return the sum of a state after two steps."""
    inputs = {} if rows is None else {"E.syn": rows}
    return be.simulate(sim, sim.state, params, 2, inputs, record="E.v")[1]["E.v"].sum()


def pending_of(sim, sums):
    state = dataclasses.replace(
        sim.state, arriving={**sim.state.arriving, "E": {**sim.state.arriving["E"], "syn": sums}}
    )
    return be.simulate(sim, state, {}, 2, record="E.v")[1]["E.v"].sum()


REFUSED = {
    "a derivative of a program by pending input": (
        lambda sim: jax.grad(jax.jit(lambda x: pending_of(sim, x)))(sim.state.with_floats().arriving["E"]["syn"]),
        NetworkError,
        "has no derivatives, since all its weights are known and jax.jit traced it without one",
    ),
    "a float for an integer": (
        lambda sim: be.simulate(sim, sim.state, {}, 2, keys={"E": np.array([1.5, 2.0])}),
        NetworkError,
        "simulate: keys['E'] is float64; pass integers, which become uint32",
    ),
    "a surrogate": (
        lambda sim: be.simulate(sim, sim.state, {}, 2, surrogate=3),
        NetworkError,
        "simulate: surrogate is 3; pass a function of the margin",
    ),
    "a derivative of a program": (
        lambda sim: jax.grad(jax.jit(lambda x: last_of(sim, {"E": {"drive": x}})))(0.1),
        NetworkError,
        "has no derivatives, since all its weights are known and jax.jit traced it without one",
    ),
    "a key": (
        lambda sim: be.simulate(sim, sim.state, {}, 2, keys={"E": np.zeros(3, np.uint32)}),
        ShapeError,
        "simulate: keys['E'] has shape (3,); pass uint32 (2,)",
    ),
    "a name": (
        lambda sim: be.simulate(sim, sim.state, {}, 2, keys={"e": np.zeros(2, np.uint32)}),
        UnknownNameError,
        "did you mean 'E'?",
    ),
    "a shape": (
        lambda sim: be.simulate(sim, sim.state, {"E": {"own": np.ones(3)}}, 2),
        ShapeError,
        "simulate: params['E']['own'] has shape (3,); pass (40,) as it was built",
    ),
    "export": (
        lambda sim: jax.export.export(jax.jit(lambda x: last_of(sim, {}, x)))(jnp.ones(2)),
        NetworkError,
        "a program with a network of backend='numba' cannot be exported",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_derivatives_are_those_of_training(wrapped):
    """What is differentiated, or has traced weights, is no call of the engine, and has the gradients of plain JAX."""
    sim, plain = built(), built(backend="jax")
    slopes = [wrapped(jax.grad(lambda x, one=one: last_of(one, {"E": {"drive": x}})))(0.1) for one in (sim, plain)]
    assert slopes[0] != 0
    np.testing.assert_allclose(*slopes, rtol=1e-5)
    rows = [wrapped(jax.grad(lambda x, one=one: last_of(one, {}, x)))(jnp.ones(2)) for one in (sim, plain)]
    np.testing.assert_allclose(*rows, rtol=1e-5)
    weights = jnp.full_like(plain.params["IE"], -0.3)
    values = [jax.jit(lambda w, one=one: last_of(one, {"IE": w}))(weights) for one in (sim, plain)]
    np.testing.assert_allclose(*values, rtol=1e-5)


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_do_is_said(case):
    run, error, message = REFUSED[case]
    with pytest.raises(error, match=re.escape(message)):
        run(built(threads=1))


def test_an_image_moves_addresses_alone():
    """Words that are an address in one of the arrays are relative to its beginning; numbers stay, whatever they are."""
    first, second, scratch = made = pointing()
    outside = np.zeros(4)
    twins = pointing()
    for one, _, _ in (made, twins):
        one[5], one[6] = outside.ctypes.data, first.ctypes.data  # the second is a number, if it is one in both
    image = Image([first, second, second[2:4], scratch], [*twins[:2], twins[1][2:4], twins[2]], [scratch], [])
    one, two = (image.place(array.ctypes.data) // 8 for array in (first, second))
    assert sorted([one, two]) == [0, 16]
    assert image.words[one + 3] == 8 * two + 16
    assert image.words[one + 5] == outside.ctypes.data
    assert image.words[one + 6] == first.ctypes.data
    assert image.words[two] == image.place(scratch.ctypes.data) == 8 * image.words.size
    assert sorted(image.moved.tolist()) == sorted([one + 3, two])
    assert image.cleared == image.nbytes == 8 * image.words.size + 448


def pointing():
    """Return words that point to others, and these to numbers."""
    first, second, scratch = np.arange(10, dtype=np.int64), np.arange(10, dtype=np.int64), np.zeros(100, np.float32)
    first[3], second[0] = second.ctypes.data + 16, scratch.ctypes.data
    return first, second, scratch
