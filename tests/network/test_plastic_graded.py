# SPDX-License-Identifier: Apache-2.0
"""Spikes with values through plastic synapses: what arrives, how it is bounded, engines, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import synapse_rules
import test_network_in_jax as in_jax
from beside_interpreter import compare, equal
from plastic_networks import graded

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.reference.engine import ReferenceEngine
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation

WANTED = Wanted(("a", "b"), (), ("b",), {})
CASES = [("axon", None, 1), ("axon", be.uniform(0.1, 0.9), 2), ("dendrite", be.uniform(0.1, 0.9), 3)]


@pytest.mark.parametrize(("where", "delay", "parts"), CASES)
def test_native_code_has_the_bits_of_the_interpreter(where, delay, parts):
    """Also in programs of JAX, and beside static synapses that deliver values."""
    plan = synapse_rules.plan_of(graded(where, delay, fixed=parts == 2), parts)
    engine = NumbaEngine(plan)
    records = compare(engine, (1, 9, 40), WANTED)
    assert sum(record.spikes["a"][0].size for record in records) > 20
    in_jax.compare(Simulation(plan, NumbaEngine(plan)), [11, 30], WANTED)


def test_a_state_goes_from_engine_to_engine():
    plans = [synapse_rules.plan_of(graded("axon", be.uniform(0.1, 0.9)), parts) for parts in (1, 3)]
    whole, first, second = Interpreted(plans[0]), NumbaEngine(plans[1]), NumbaEngine(plans[0])
    whole.run(40, WANTED, {})
    first.run(23, WANTED, {})
    assert first.state.past["a"]["value"].dtype == np.float32
    second.load(first.state)
    second.run(17, WANTED, {})
    equal(second.state, whole.state)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_each_step_in_plain_jax_is_that_of_the_interpreter_but_for_rounding(where):
    plan = synapse_rules.plan_of(graded(where, be.uniform(0.1, 0.6)), 1)
    exact, ours = Interpreted(plan), ReferenceEngine(plan)
    for _ in range(40):
        ours.load(exact.state)
        ours.run(1, Wanted(), {})
        exact.run(1, Wanted(), {})
        for group in ("neurons", "synapses", "traces", "past"):
            one, two = getattr(exact.state, group), getattr(ours.state, group)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, two)


def clocked(s, arriving, p):
    return s.replace(n=s.n + 1, x=p.worth), {"spike": s.n % 2 == 0, "value": p.worth}


def adding(s, arriving, p):
    return s.replace(sum=s.sum + arriving.syn), s.sum > 1e9


def pair(high=4.0, value_range=(-1.0, 3.0), worth=-0.75, where="axon"):
    a = be.Population("a", 2, clocked, {"n": 0, "x": 0.0}, {"worth": worth}, value_range=value_range)
    b = be.Population("b", 1, adding, {"sum": 0.0})
    halve = be.Plasticity(on_pre=lambda w, s, pre, post, p: 0.5 * w, high=high, delay_at=where)
    weights = np.array([[4.0], [1.0]])
    return be.Network([a, b], [be.Projection(a, b, weights, "syn", 0.3, "ab", halve)], dt=0.1)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
def test_the_weight_of_before_the_rule_times_the_value_arrives(backend, where):
    sums = pair(where=where).build(backend=backend).run(8, record="b.sum")["b.sum"].ravel()
    arrived = -0.75 * 5 * np.array([0, 0, 0, 1, 1, 1.5, 1.5, 1.75])
    np.testing.assert_allclose(sums, arrived, rtol=1e-6)


def test_high_times_the_largest_value_bounds_sums():
    plan = build_plan(pair(), seed=1)
    quantum = plan.population("b").quanta["syn"]
    assert plan.plastic[0].bound(quantum) == 12 / quantum
    assert plan.plastic[0].loads(quantum)[0] == 24 / quantum <= 2**31 - 1
    assert quantum == 4 * build_plan(pair(value_range=(-1.0, 0.5), worth=0.5), seed=1).population("b").quanta["syn"]
    with pytest.raises(NetworkError, match=r"weights times the largest values into neuron 0 by syn may add up to"):
        pair(value_range=(-1e6, 3.0)).build(quantum=1e-3)
    for largest, quantum in ((1e30, 1e-3), (3e38, None)):  # of which neither 64 bits nor floats have the sums
        with pytest.raises(NetworkError, match=r"neuron 0 by syn may add up to \d+ times .* a smaller high="):
            pair(value_range=(-largest, 3.0)).build(quantum=quantum)


def test_derivatives_go_through_values_and_weights():
    sim = pair().build(backend="numba")

    def arrived(params):
        return be.simulate(sim, sim.state, params, 8)[0].neurons["b"]["sum"][0]

    params = {"a": {"worth": jnp.float32(-0.75)}, "ab": {"weights": jnp.array([4.0, 1.0])}}
    found = jax.grad(arrived)(params)
    with pytest.raises(NetworkError, match="no derivatives, since all its weights are known"):
        jax.grad(jax.jit(arrived))(params)
    assert found["a"]["worth"] == pytest.approx(5 * 1.75)
    np.testing.assert_allclose(found["ab"]["weights"], -0.75 * 1.75, rtol=1e-6)
