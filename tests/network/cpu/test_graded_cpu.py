# SPDX-License-Identifier: Apache-2.0
"""Graded spikes in native code on the CPU: the bits of the interpreter, for any number of parts, alone and in JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from beside_interpreter import ALL, compare, equal, plans, stop_alike, wishes
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import NotFiniteError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.cpu.update_text import update_of
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = small_plans.graded(
        data.draw(plans(data.draw(st.integers(1, 3)))), *data.draw(st.sampled_from(["", "a", "b"]))
    )
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    compare(NumbaEngine(plan), [cut, 24 - cut], wanted, inputs)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_busy_network_equals_the_interpreter(parts):
    plan = small_plans.graded(small_plans.plan(parts))
    (record,) = compare(NumbaEngine(plan), [300], ALL)
    assert record.spikes["a"][0].size > 500
    plain = NumbaEngine(small_plans.plan(parts)).run(300, ALL, {})
    assert plain.spikes["a"][0].size != record.spikes["a"][0].size


def test_spikes_on_their_way_keep_their_values_when_a_state_moves():
    plan = small_plans.graded(small_plans.plan(2))
    theirs, state = Interpreted(plan), None
    for steps in (1, 2, 3, 5, 8):
        engine = NumbaEngine(plan)  # lists of spikes begin empty: what waits is in the sums of the state
        if state is not None:
            engine.load(state)
        engine.run(steps, Wanted(), {})
        theirs.run(steps, Wanted(), {})
        state = engine.state
        equal(state, theirs.state)


def test_programs_of_jax_equal_the_interpreter():
    plan = small_plans.graded(small_plans.plan(2))
    sim, theirs = Simulation(plan, NumbaEngine(plan)), Interpreted(plan)
    drives = np.float32([0.5, 1.0, 2.0])

    def run(drive):
        return be.simulate(sim, sim.state, {"a": {"drive": jnp.full(37, drive)}}, 40, record="a.counts")

    states, out = jax.jit(jax.vmap(run))(drives)
    for k, drive in enumerate(drives):
        theirs.load(sim.state)
        theirs.set("a", "drive", np.full(37, drive, np.float32))
        recorded = theirs.run(40, Wanted((), ("a",)), {})
        equal(copied(plan, jax.tree.map(lambda x: x[k], states)), theirs.state)  # noqa: B023 - called at once
        np.testing.assert_array_equal(out["a.counts"][k], recorded.counts["a"])


@pytest.mark.parametrize("parts", [1, 2])
def test_a_value_out_of_range_stops_the_run_after_its_step(parts):
    plan = small_plans.graded(small_plans.plan(parts), "a", clip=False)
    match = (
        r"population a: state v of neuron \d+ is nan after step \d+; either its spike had a "
        r"value outside value_range=\(-1.5, 2.5\), which makes all float states NaN"
    )
    stop_alike(plan, NumbaEngine(plan), match)
    (prepared,) = [NumbaEngine(plan).prepared(300, ALL, {})]
    with pytest.raises(NotFiniteError, match="value_range"):
        prepared.run()


def test_infinite_states_are_fine_unless_all_are_checked():
    plan = small_plans.graded(small_plans.plan(1), "a")
    for check_finite in (False, True):
        engine = NumbaEngine(dataclasses.replace(plan, check_finite=check_finite))
        state = engine.state
        state.neurons["a"]["v"][3] = -np.inf
        engine.load(state)
        if check_finite:
            with pytest.raises(NotFiniteError, match="state v of neuron 3 is -inf after step 0"):
                engine.run(5, ALL, {})
        else:
            engine.run(5, ALL, {})
            assert engine.step == 5


def test_the_text_of_a_rule_without_values_has_nothing_of_them():
    plain, valued = small_plans.plan(1), small_plans.graded(small_plans.plan(1))
    texts = [update_of(plan.populations[0], dict(plan.populations[0].params)).text for plan in (plain, valued)]
    assert ["values" in text for text in texts] == [False, True]
