# SPDX-License-Identifier: Apache-2.0
"""Couplings on every engine of the CPU: the bits of sums that are written out here, number after number."""

import dataclasses

import coupled_plans
import jax
import numpy as np
import pytest
from beside_interpreter import compare, equal, plan_of
from coupled_plans import RECORDED, by_hand, coupling, inputs, lively

from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.cpu.memory import Memory
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import Plan, PopulationPlan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.scalar.trace import trace


def test_sums_are_in_the_order_of_synapses():
    plan = coupled_plans.plan()
    engine = Interpreted(plan)
    rng = np.random.default_rng(0)
    for _ in range(5):
        neurons = {p.name: {key: x.copy() for key, x in p.state.items()} for p in plan.populations}
        for states in neurons.values():  # of many orders of magnitude: every other order has other bits
            states["v"][:] = rng.normal(0, 1, states["v"].size) * 10.0 ** rng.integers(-3, 4, states["v"].size)
        engine.load(dataclasses.replace(engine.state, neurons=neurons))
        for place, some in plan.coupled.items():
            np.testing.assert_array_equal(engine.carried(some), by_hand(some, neurons), str(place))


def test_states_are_those_of_before_the_step():
    """Also where the neuron that sends comes first in the plan: a chain takes one step a neuron."""

    def passing(s, arriving, p):
        return s.replace(v=arriving.gap), s.v > 100

    state = {"v": np.eye(1, 5, dtype=np.float32)[0]}
    chain = PopulationPlan("a", 5, trace(passing, {"v": 0.0}, ["gap"], {}), state, {}, {"gap": np.float32(1)}, (1, 2))
    joined = coupling(chain, chain, 4)
    ends = np.arange(4, dtype=np.int32)
    joined = dataclasses.replace(joined, sources=ends, targets=ends + 1, weights=np.full(1, 2, np.float32))
    for engine in (Interpreted, NumbaEngine):
        plan = dataclasses.replace(plan_of([chain], [], 2), couplings=(joined,))
        rows = engine(plan).run(5, Wanted(samples={"v": Sample("a", "v", 1, np.arange(5))}), {}).samples["v"]
        np.testing.assert_array_equal(rows, [np.eye(1, 5, k)[0] * 2.0**k for k in range(1, 6)])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_native_code_has_the_bits_of_the_interpreter(parts):
    plan = coupled_plans.plan(parts)
    engine = NumbaEngine(plan)
    (first, *_) = compare(engine, [1, 30, 29], RECORDED, inputs(60))
    assert first.samples["a.v"].shape == (1, 37)
    assert lively(engine.state)
    compare_from(engine, plan)


def compare_from(engine, plan):
    """Go on from another state, at an odd step, in one thread for all parts."""
    alone, theirs = NumbaEngine(plan, alone=True), Interpreted(plan)
    state = dataclasses.replace(engine.state, step=np.uint32(7))
    for one in (alone, theirs):
        one.load(state)
        one.run(11, RECORDED, {})
    equal(alone.state, theirs.state)


def test_threads_wait_for_the_states_of_others():
    """In many steps of many neurons, where threads run ahead of each other by a step."""
    a, b = coupled_plans.population("a", 1500, 1), coupled_plans.population("b", 400, 2)
    joined = coupled_plans.couplings(a, b, times=40)
    states = []
    for parts in (1, 2, 5):
        engine = NumbaEngine(dataclasses.replace(plan_of([a, b], [], parts), couplings=joined))
        engine.run(500, Wanted(), {})
        states.append(engine.state)
    assert lively(states[0])
    for state in states[1:]:
        equal(state, states[0])


def test_sums_of_neurons_without_synapses_are_added_too():
    """Zeros of either sign then have one bit pattern on every engine."""
    plan = coupled_plans.plan()
    nothing = np.zeros(0, np.int32)
    none = tuple(dataclasses.replace(one, sources=nothing, targets=nothing) for one in plan.couplings)
    for p in plan.populations:
        p.state["v"][:] = p.state["u"][:] = -0.0
    given = {place: np.full_like(rows, -0.0) for place, rows in inputs(2).items()}
    compare(NumbaEngine(dataclasses.replace(plan, synapses=(), couplings=none)), [2], Wanted(("a",)), given)


@pytest.mark.parametrize("value", [1e-39, np.inf, -np.inf, np.nan, 3e38])
def test_denormals_infinities_and_nan(value):
    plan = coupled_plans.plan(2)
    for p in plan.populations:
        p.state["v"][3] = value
        p.state["u"][5] = -value
    plan.couplings[0].weights[:9] = value if np.isfinite(value) else 1e-38
    compare(NumbaEngine(plan), [1, 5], RECORDED)


@pytest.mark.thorough
def test_native_code_in_float64():
    plan = coupled_plans.plan(2, "float64")
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    for engine in (ours, theirs):
        engine.run(20, RECORDED, {})
    for a, b in zip(jax.tree.leaves(ours.state), jax.tree.leaves(theirs.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert a.dtype == b.dtype


def test_a_run_that_is_repeated_goes_on_with_states_that_were_set():
    plan = coupled_plans.plan(2)
    engine, theirs = NumbaEngine(plan), Interpreted(plan)
    prepared = engine.prepared(3, RECORDED, {})
    for step in (0, 4, 9):
        for one in (engine, theirs):
            one.load(dataclasses.replace(Interpreted(plan).state, step=np.uint32(step)))
        for _ in range(2):
            prepared.run()
            theirs.run(3, RECORDED, {})
        equal(engine.state, theirs.state)


def test_plans_without_couplings_have_the_text_that_they_had():
    """No table or line of native code is theirs alone."""
    coupled = coupled_plans.plan()
    memory = Memory(dataclasses.replace(coupled, couplings=()))
    assert not memory.couplings
    for name, update in memory.updates.items():
        words = Memory(coupled).updates[name].update.words
        assert {word.partition(":")[0] for word in set(words) - set(update.update.words)} == {
            "coupled",
            "shown",
            "shown_row",
        }
    assert Plan((), (), 0.1, 0, 1, "").couplings == ()
