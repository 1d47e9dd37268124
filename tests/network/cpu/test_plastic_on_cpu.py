# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in native code, beside the interpreter, bit for bit."""

import dataclasses

import jax.numpy as jnp
import mixed_networks
import numpy as np
import pytest
import synapse_rules
from beside_interpreter import as_tree, compare, compare_after_replacing, equal
from hypothesis import given, settings
from hypothesis import strategies as st
from plastic_networks import (
    ALL,
    check_all_that_rules_use,
    check_that_a_state_goes_on,
    check_that_a_synapse_is_named,
    mixed,
    network,
    triplet,
)

import brainevent as be
from brainevent.errors import NotFiniteError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.cpu.plastic_words import decays_in
from brainevent.network.cpu.tables import EVENTS
from brainevent.network.interpreted import Interpreted
from brainevent.network.reference.engine import ReferenceEngine
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.scalar.interpret import interpret
from brainevent.scalar.synapse import FACTOR, forms_of_synapses

LONG = be.trace(20.0)


@pytest.mark.parametrize(
    ("where", "delay", "parts"),
    [("axon", None, 1), ("axon", be.uniform(0.1, 0.9), 2), ("dendrite", 0.3, 3), ("dendrite", be.uniform(0.1, 0.9), 1)],
)
def test_all_that_rules_may_use(where, delay, parts):
    engine = NumbaEngine(synapse_rules.plan_of(network(triplet(where), delay), parts))
    check_all_that_rules_use(engine)


def test_a_state_goes_from_engine_to_engine():
    """What is on its way, and what traces remember, is in the state: half of a run by each engine."""
    for where in ("axon", "dendrite"):
        plans = [synapse_rules.plan_of(network(triplet(where), be.uniform(0.1, 0.9)), parts) for parts in (1, 3)]
        check_that_a_state_goes_on(plans[0], ((NumbaEngine(plans[1]), 23), (NumbaEngine(plans[0]), 17)))


@pytest.mark.parametrize(("delay", "parts"), [(0.3, 1), (be.uniform(0.1, 0.9), 2)])
def test_events_that_wait_for_a_spike_of_the_source(delay, parts):
    """They act before anything reads or sets what they depend on, and also where sources are silent for long."""
    rules = triplet(
        "axon",
        on_post={
            "upstate": lambda w, s, pre, post, p: (w + p.eta * pre.x + 0.01 * pre.u, s.replace(e=post.y - post.v))
        },
        every=(),
    )
    plan = synapse_rules.plan_of(network(rules, delay), parts)
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    waiting = ours.memory.plastic["ab"]._waiting
    most = 0
    for turn, steps in enumerate((1, 30, 9, 60)):
        for engine in (ours, theirs):
            engine.run(steps, ALL, {})
        most = max(most, waiting.held.max())
        if turn % 2:
            equal(ours.state, theirs.state)
            assert not waiting.held.any()
        for engine in (ours, theirs):
            engine.set("ab", "eta", np.float32(0.01 * turn))
    assert most > 1
    # Synapses that are recorded are up to date after each step.
    sample = dataclasses.replace(ALL, samples={"w": Sample("ab", "w", 1, np.array([3, 50]), of_synapses=True)})
    for engine in (ours, theirs):
        engine.run(7, ALL, {})
    equal(as_tree(ours.run(20, sample, {})), as_tree(theirs.run(20, sample, {})))
    earlier = theirs.state
    for engine in (ours, theirs):
        engine.run(25, ALL, {})
        engine.load(earlier)  # what waits is forgotten
        engine.run(25, ALL, {})
    equal(ours.state, theirs.state)


def test_more_events_than_may_wait():
    """A synapse whose source never spikes follows all events of its target."""
    rules = be.Plasticity(
        on_post={"spike": lambda w, s, pre, post, p: w + 0.001 * pre.x + 0.0001 * post.y},
        pre={"x": be.trace(20.0)},
        post={"y": be.trace(15.0)},
        high=0.5,
    )
    plan = synapse_rules.plan_of(network(rules, 0.3, (3, 20), 1.0), 1)
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    counts = [engine.run(900, Wanted((), ("b",), (), {}), {}).counts["b"] for engine in (ours, theirs)]
    assert counts[0].max() > 2 * EVENTS
    equal(ours.state, theirs.state)


@settings(max_examples=1)
@given(synapse_rules.networks(), st.sampled_from([1, 3]), st.data())
def test_random_rules(net, parts, data):
    check_random(net, parts, data)


@pytest.mark.thorough  # each example compiles its rules
@settings(max_examples=20)
@given(synapse_rules.networks(), st.sampled_from([1, 2, 5]), st.data())
def test_many_random_rules(net, parts, data):
    check_random(net, parts, data)


@pytest.mark.thorough  # as before
@settings(max_examples=20)
@given(mixed_networks.networks(), st.sampled_from([1, 2, 5]), st.data())
def test_many_networks_with_graded_spikes_and_couplings_beside(net, parts, data):
    check_random(net, parts, data, mixed_networks.wishes, 60)


def check_random(net, parts, data, wishes=synapse_rules.wishes, steps=24):
    plan = synapse_rules.plan_of(net, parts)
    wanted, inputs = data.draw(wishes(plan, steps))
    compare(NumbaEngine(plan), (5, 19, steps - 24)[: 2 + (steps > 24)], wanted, inputs)


@pytest.mark.parametrize(("where", "parts"), [("axon", 3), pytest.param("dendrite", 1, marks=pytest.mark.thorough)])
def test_graded_spikes_and_couplings_beside(where, parts):
    """All three into one receptor, and from and to neurons whose spikes have values."""
    engine = NumbaEngine(synapse_rules.plan_of(mixed(where), parts))
    before = engine.state.synapses
    compare(engine, (1, 9, 40), Wanted(("a", "b", "c"), (), (), {}))
    for name, synapses in engine.state.synapses.items():
        assert np.mean(before[name]["w"] != synapses["w"]) > 0.5


def test_float64():
    """In float64 the exponential functions of NumPy and C differ in the last bit."""
    plan = synapse_rules.plan_of(network(triplet("axon"), 0.3), 1, dtype="float64")
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    for engine in (ours, theirs):
        engine.run(30, ALL, {})
    weights = ours.state.synapses["ab"]["w"]
    assert weights.dtype == np.float64
    np.testing.assert_allclose(weights, theirs.state.synapses["ab"]["w"], rtol=1e-13)


def test_parameters_and_weights_are_replaced():
    """`set` and `load` act as in the interpreter."""
    plan = synapse_rules.plan_of(network(triplet("axon"), 0.3), 2)
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    compare_after_replacing(ours, theirs, (10, 20), ALL)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_first_synapse_that_is_not_finite_is_named(where, parts):
    """A run stops after the step, in all parts, and the state is that after it."""
    check_that_a_synapse_is_named(where, NumbaEngine, parts)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_first_rule_whose_result_is_not_finite_is_named(where):
    """Other rules of the same step make other synapses NaN, or replace what was NaN."""

    def of_state(w, s, pre, post, p):
        return w, s.replace(c=jnp.where(pre.x > 1.5, jnp.inf, s.c))

    def of_weight(w, s, pre, post, p):
        return jnp.where(s.c > 1e30, jnp.nan, w) + jnp.where(post.y > 1.2, jnp.nan, 0)

    def replacing(w, s, pre, post, p):
        return jnp.where(jnp.isnan(w), 0.1, w), s.replace(c=jnp.minimum(s.c, 1.0))

    rules = triplet(
        where, on_pre=of_state, on_post=of_weight, every=(0.1, replacing), state={"c": 0.0}, params={}, pre={"x": LONG}
    )
    messages = []
    for engine, parts in ((Interpreted, 1), (NumbaEngine, 1), (NumbaEngine, 3), (ReferenceEngine, 1)):
        own = engine(synapse_rules.plan_of(network(rules, 0.3), parts, check_finite=True))
        with pytest.raises(NotFiniteError, match="projection ab: ") as raised:
            own.run(400, ALL, {})
        messages.append(str(raised.value))
        assert all(np.isfinite(x).all() for x in own.state.synapses["ab"].values())
    assert len(set(messages)) == 1


def test_a_prepared_run_takes_steps():
    """The stepper's way runs all parts in one thread, and has the same bits."""
    plan = synapse_rules.plan_of(network(triplet("dendrite"), be.uniform(0.1, 0.5)), 2)
    ours, theirs = NumbaEngine(plan), Interpreted(plan)
    one = ours.prepared(1, ALL, {})
    for _ in range(30):
        one.step()
    theirs.run(30, ALL, {})
    equal(ours.state, theirs.state)


@pytest.mark.parametrize("waits", [True, False])
def test_traces_that_decay_too_slowly_for_a_table(waits):
    """Their factors are computed where steps are many; those of other traces are in tables until they are 0."""
    slow, fast = be.trace(200.0), be.trace(0.3)
    rules = be.Plasticity(
        on_pre=lambda w, s, pre, post, p: w - 0.001 * post.y * (1 + post.z),
        on_post=lambda w, s, pre, post, p: w + 0.001 * pre.x + 0.01 * pre.z,
        every=() if waits else (1.0, lambda w, s, pre, post, p: w * (1 - 0.01 * pre.x)),
        pre={"x": slow, "z": fast},
        post={"y": slow, "z": fast},
        high=0.5,
    )
    plan = synapse_rules.plan_of(network(rules, 0.3), 1)
    (x, z), dtype = plan.plastic[0].rules.pre, "float32"
    assert decays_in(x, dtype) is None
    assert interpret(forms_of_synapses()[FACTOR], [np.uint32([decays_in(z, dtype)]), np.array([z.rate])])[0] == 0
    engine = NumbaEngine(plan)
    compare(engine, (30,), ALL)
    late = dataclasses.replace(engine.state, step=np.uint32(40_000))  # spikes were long ago
    theirs = Interpreted(plan)
    for one in (engine, theirs):
        one.load(late)
        one.run(30, ALL, {})
    equal(engine.state, theirs.state)


def test_no_synapses():
    """A projection that drew none runs, at both places of delays."""
    for where in ("axon", "dendrite"):
        net = network(triplet(where), 0.3, (3, 2), 1e-9)
        engine = NumbaEngine(synapse_rules.plan_of(net, 1))
        assert not engine.state.synapses["ab"]["w"].size
        compare(engine, (20,), ALL)
        in_jax = ReferenceEngine(engine.plan)
        in_jax.run(20, ALL, {})
        theirs = engine.state.traces["ab"]
        assert any(trace.any() for trace in theirs.values())
        for key, trace in in_jax.state.traces["ab"].items():
            np.testing.assert_allclose(trace, theirs[key], rtol=1e-6, err_msg=key)
