# SPDX-License-Identifier: Apache-2.0
"""Couplings on a pretend GPU: the bits of the interpreter for every partition, and within programs of JAX."""

import dataclasses

import coupled_plans
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_network_in_jax as in_jax
from beside_interpreter import compare, equal, plan_of
from coupled_plans import RECORDED, coupling, inputs, lively, population
from ptx import ptx_of
from test_network_gpu import SMALL, engine_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu import couplings, partition, program
from brainevent.network.gpu.beside import Beside
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Wanted
from brainevent.network.state import initial_state


@pytest.mark.parametrize(("blocks", "shared_bytes"), [(1, None), (3, None), (4, SMALL)])
def test_it_equals_the_interpreter(blocks, shared_bytes):
    engine = engine_of(coupled_plans.plan(), blocks, shared_bytes)
    assert not engine.shape.structure.cluster  # its blocks do not read what others wrote to memory
    compare(engine, [1, 30, 9], RECORDED, inputs(40))
    assert lively(engine.state)
    state = dataclasses.replace(engine.state, step=np.uint32(40))
    for _ in range(2):  # from the same step again, which the memory has seen
        engine.load(state)
        theirs = Interpreted(engine.plan)
        theirs.load(state)
        equal(*(one.run(3, RECORDED, {}).samples for one in (engine, theirs)))


@pytest.mark.parametrize(("most", "blocks"), [(16, 1), (0, 2)])
def test_more_neurons_than_threads(monkeypatch, most, blocks):
    """In registers, several a thread, or in memory, where states change while others read them."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    a, b = population("a", 2100, 1), population("b", 300, 2)
    joined = (coupling(a, a, 4000, difference=True, seed=1), coupling(a, b, 900, state="u", seed=2))
    plan = dataclasses.replace(plan_of([b, a], [], 1), couplings=(*joined, coupling(b, a, 50, seed=3)))
    engine = engine_of(plan, blocks, SMALL if most == 0 else None)
    assert bool(engine.shape.structure.cells) == (most > 0)
    assert not engine.shape.structure.in_registers
    compare(engine, [1, 4], Wanted(("a",)))
    assert lively(engine.state)


def test_a_launch_ends_after_a_while(monkeypatch):
    """The pretend clock goes on by a microsecond whenever it is looked at: each launch shows its states first."""
    for limit in ("_NANOSECONDS", "_RECORDED"):
        monkeypatch.setattr(f"brainevent.network.gpu.run.{limit}", 1)
    compare(engine_of(coupled_plans.plan()), [140], RECORDED)


@pytest.mark.parametrize("microseconds", [500_000, 40])
def test_within_programs_of_jax(monkeypatch, microseconds):
    monkeypatch.setattr(program, "_LAUNCH", microseconds)
    sim = in_jax.built(coupled_plans.plan())
    in_jax.compare(sim, [25, 8], RECORDED, inputs(33))


def test_weights_are_replaced_and_swept():
    plan = coupled_plans.plan()
    name = plan.couplings[0].name
    sim = in_jax.built(plan)
    weights = [np.linspace(-0.1, 0.1, 200, dtype=np.float32) * k for k in range(3)]
    expected = []
    for one in weights:
        replaced = (plan.couplings[0].with_weights(one), *plan.couplings[1:])
        engine = Interpreted(dataclasses.replace(plan, couplings=replaced))
        expected.append(engine.run(12, RECORDED, {}).samples["a.v"])
    swept = sim.sweep(12, "a.v", {name: {"weights": np.stack(weights)}})
    np.testing.assert_array_equal(swept["a.v"], expected)
    run = jax.vmap(lambda w: be.simulate(sim, sim.state, {name: w}, 12, record="a.v")[1]["a.v"])
    np.testing.assert_array_equal(run(jnp.stack(weights)), expected)
    decays = jnp.array([0.9, 0.5], np.float32)
    found = jax.vmap(lambda d: be.simulate(sim, sim.state, {"a": {"decay": d}}, 12, record="a.v")[1]["a.v"])(decays)
    np.testing.assert_array_equal(found[0], sim.run(12, "a.v")["a.v"])
    sim.set(name, weights=weights[2])
    sim.reset()
    sim.set(name, weights=weights[2])
    np.testing.assert_array_equal(sim.run(12, "a.v")["a.v"], expected[2])


def test_networks_side_by_side_have_states_of_their_own():
    plan = coupled_plans.plan()
    engine = engine_of(plan, 2)
    beside = Beside(engine, 3)
    states = []
    for k in range(3):
        state = initial_state(plan)
        neurons = {name: {**own, "v": own["v"] * np.float32(k)} for name, own in state.neurons.items()}
        states.append(dataclasses.replace(state, neurons=neurons))
    params = {p.name: p.params for p in plan.populations}
    engines = [beside.take(k, plan, params, state) for k, state in enumerate(states)]
    found = beside.run(engines, 9, RECORDED, [{}] * 3)
    for state, one in zip(states, found, strict=True):
        theirs = Interpreted(plan)
        theirs.load(state)
        equal(one.samples, theirs.run(9, RECORDED, {}).samples)


def test_the_text_compiles_for_a_gpu():
    engine = engine_of(coupled_plans.plan())
    for change in ({}, {"traced": True}, {"beside": True}):
        text = step_text(engine.kinds, dataclasses.replace(engine.shape.structure, **change))
        ptx = ptx_of(text)
        assert "fence.acq_rel.gpu" in ptx
        assert "ld.relaxed.gpu.global.u32" in ptx  # blocks wait: a loop of other loads is deleted


def test_networks_without_couplings_have_the_text_that_they_had():
    """But for what a compiler leaves out."""
    plan = dataclasses.replace(coupled_plans.plan(), couplings=())
    engine = engine_of(plan)
    text = step_text(engine.kinds, engine.shape.structure)
    assert "#define COUPLED" not in text
    assert "Carried" not in text
    assert "shown_at" not in text
    assert engine.net.dtype.names == tuple(n for n in engine_of(coupled_plans.plan()).net.dtype.names if n not in _OWN)


_OWN = ("couplings", "shown", "met")


def test_too_many_synapses_are_refused(monkeypatch):
    monkeypatch.setattr(couplings, "_MOST", 500)
    with pytest.raises(
        NetworkError, match=r"synapses of couplings take \d+ words, and a GPU has room for 500; pass fewer"
    ):
        engine_of(coupled_plans.plan())
