# SPDX-License-Identifier: Apache-2.0
"""The interpreted network, beside a dense simulation in float64 that is written out here."""

import dataclasses

import jax
import numpy as np
import pytest
import small_plans

from brainevent.errors import NotFiniteError
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.state import initial_state

ALL = Wanted(("a", "b"), ("a",), ("b",), {"v": Sample("a", "v", 7, np.array([3, 0, 3]))})


def dense(plan, steps):
    """Simulate the leaky rule with a matrix for each delay; the numbers of this network are exact in float64."""
    states = {p.name: (p.state["v"].astype(float), p.state["pause"].copy()) for p in plan.populations}
    rings = {p.name: np.zeros((steps + 70000, p.size)) for p in plan.populations}
    spiked = {p.name: [] for p in plan.populations}
    for t in range(steps):
        for p in plan.populations:
            v, pause = states[p.name]
            moved = np.float32(np.float32(v) * np.float32(0.9)) + np.float32(rings[p.name][t] * p.quanta["syn"])
            v = np.where(pause > 0, np.float32(v), np.float32(moved) + p.params["drive"])
            spike = v >= 8
            states[p.name] = np.where(spike, 0, v), np.where(spike, 3, np.maximum(pause - 1, 0))
            spiked[p.name].append(spike)
        for s in plan.synapses:
            sources = np.repeat(np.arange(plan.population(s.source).size), np.diff(s.starts[:: plan.parts]))
            active = spiked[s.source][t][sources]
            at = np.broadcast_to(s.delays, s.targets.shape)[active].astype(int) + t
            np.add.at(rings[s.target], (at, s.targets[active]), np.broadcast_to(s.weights, s.targets.shape)[active])
    return {name: np.array(rows) for name, rows in spiked.items()}


@pytest.mark.parametrize("parts", [1, 3])
def test_it_equals_a_dense_simulation(parts):
    plan = small_plans.plan(parts)
    recorded = Interpreted(plan).run(200, ALL, {})
    expected = dense(plan, 200)
    for name, (steps, neurons) in recorded.spikes.items():
        at, who = np.nonzero(expected[name])
        assert at.size > 60
        np.testing.assert_array_equal(steps, at)
        np.testing.assert_array_equal(neurons, who)
    np.testing.assert_array_equal(recorded.counts["a"], expected["a"].sum(0))
    np.testing.assert_array_equal(recorded.rates["b"], expected["b"].sum(1))
    assert recorded.samples["v"].shape == (29, 3)
    np.testing.assert_array_equal(recorded.samples["v"][:, 0], recorded.samples["v"][:, 2])


def test_a_run_in_pieces_equals_one_run():
    plan = small_plans.plan()
    whole, pieces = Interpreted(plan), Interpreted(plan)
    one = whole.run(60, ALL, {})
    parts = []
    for steps in (1, 20, 39):
        parts.append(pieces.run(steps, ALL, {}))
        again = Interpreted(plan)  # each piece begins in a new engine
        again.load(pieces.state)
        pieces = again
    for name in ("a", "b"):
        for place in (0, 1):
            np.testing.assert_array_equal(
                one.spikes[name][place], np.concatenate([p.spikes[name][place] for p in parts])
            )
    np.testing.assert_array_equal(one.samples["v"], np.concatenate([p.samples["v"] for p in parts]))
    jax.tree.map(np.testing.assert_array_equal, whole.state, pieces.state)


def test_inputs_are_added_to_what_arrives():
    plan = small_plans.plan()
    driven, alone = Interpreted(plan), Interpreted(plan)
    driven.run(1, Wanted(), {("a", "syn"): np.full((1, 1), -1, np.float32)})
    alone.run(1, Wanted(), {})
    free = alone.state.neurons["a"]["pause"] == 0
    change = driven.state.neurons["a"]["v"][free] - alone.state.neurons["a"]["v"][free]
    np.testing.assert_allclose(change, -1, rtol=1e-5)


def test_what_is_not_finite_is_named():
    plan = small_plans.plan(check_finite=True)
    engine = Interpreted(plan)
    engine.run(3, Wanted(), {})
    engine.set("b", "drive", np.where(np.arange(21) == 4, np.float32(np.nan), np.float32(0)))
    with pytest.raises(NotFiniteError, match=r"population b: state v of neuron 4 is nan after step [3-9]"):
        engine.run(10, Wanted(), {})


def test_the_first_state_has_nothing_on_its_way():
    plan = dataclasses.replace(small_plans.plan(), synapses=())
    state = initial_state(plan)
    assert state.arriving["a"]["syn"].shape == (1, 37)
    assert not state.arriving["a"]["syn"].any()
