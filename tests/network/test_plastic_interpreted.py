# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses of the interpreter, beside the definition: one synapse and one event after the other, in float64."""

import numpy as np
import pytest
import synapse_rules
from beside_interpreter import as_tree, equal
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from brainevent.network.interpreted import Interpreted

STEPS, DT, TAU_X, TAU_Y, PLUS, MINUS = 120, 0.5, 10.0, 7.0, 0.02, 0.03


def driven(s, arriving, p):
    """Spike where the input says so, and keep what arrives through synapses."""
    return s.replace(got=arriving.syn, spikes=s.spikes + arriving.drive), arriving.drive > 0.5


def network(edges, where, **more):
    """Return two populations whose spikes are imposed, with synapses of pair rules; edges are (source, target, ms)."""
    a, b = (be.Population(name, size, driven, {"got": 0.0, "spikes": 0.0}) for name, size in (("a", 5), ("b", 4)))
    weights, delays = np.zeros((5, 4)), np.zeros((5, 4))
    for source, target, delay, weight in edges:
        weights[source, target], delays[source, target] = weight, delay
    delays[weights == 0] = DT
    stdp = be.Plasticity(
        **{
            "on_pre": lambda w, s, pre, post, p: w - MINUS * post.y,
            "on_post": lambda w, s, pre, post, p: w + PLUS * pre.x,
            "pre": {"x": be.trace(TAU_X)},
            "post": {"y": be.trace(TAU_Y)},
            "high": 1.0,
            "delay_at": where,
        }
        | more
    )
    return be.Network([a, b], [be.Projection(a, b, weights, "syn", delays, "ab", stdp)], dt=DT)


def edges_of(seed):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(5) for j in range(4) if rng.random() < 0.7]
    return [(i, j, DT * rng.integers(1, 6), rng.uniform(0.3, 0.7)) for i, j in pairs]


def trains_of(seed, rate=0.15):
    rng = np.random.default_rng(seed)
    return rng.random((STEPS, 5)) < rate, rng.random((STEPS, 4)) < rate


def trace_at(t, events, tau, *, before):
    """Return a trace in step t, of events in steps up to t, or before t."""
    return sum(np.exp(-(t - s) * DT / tau) for s in events if s < t or (s == t and not before))


def of_definition(edges, trains, where):
    """Return weights at the end, and what arrives in each step: each synapse by itself, from the definition."""
    pre, post = ([np.flatnonzero(train) for train in part.T] for part in trains)
    weights, got = [], np.zeros((STEPS + 20, 4))
    for source, target, delay, first in edges:
        w = first
        d = round(delay / DT)
        at_source = d if where == "axon" else 0  # when the synapse sees spikes of either end
        at_target = 0 if where == "axon" else d
        x, y = pre[source] + at_source, post[target] + at_target
        for t in range(STEPS):
            if t in x:
                got[t + d - at_source, target] += w  # the old weight
                w = np.clip(w - MINUS * trace_at(t, y, TAU_Y, before=True), 0, 1)
            if t in y:
                w = np.clip(w + PLUS * trace_at(t, x, TAU_X, before=False), 0, 1)
        weights.append(w)
    return weights, got[:STEPS]


def run(net, trains, parts=1):
    plan = synapse_rules.plan_of(net, parts)
    engine, got = Interpreted(plan), []
    for t in range(STEPS):
        now = {(name, "drive"): train[t].astype(np.float32) for name, train in zip("ab", trains, strict=True)}
        _, state = engine.after(now)
        engine.load(state)
        got.append(state.neurons["b"]["got"])
    return engine.state.synapses["ab"]["w"], np.array(got), engine


@pytest.mark.parametrize("where", ["axon", "dendrite"])
@pytest.mark.parametrize("seed", [0, 1])
def test_pair_rules_with_several_delays_follow_the_definition(where, seed):
    edges, trains = edges_of(seed), trains_of(seed)
    weights, got, _ = run(network(edges, where), trains)
    expected, arrived = of_definition(edges, trains, where)
    # edges are in the order of a dense array: the plan sorts those of a source by delay
    order = sorted(range(len(edges)), key=lambda k: (edges[k][0], edges[k][2], edges[k][1]))
    np.testing.assert_allclose(weights, np.array(expected)[order], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(got, arrived, rtol=2e-5, atol=1e-5)
    assert np.ptp(weights) > 0.2
    assert got.max() > 1


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_a_pair_in_one_step_counts_once(where):
    """Spikes that meet at the synapse in one step: the source counts as first, and only it."""
    edges = [(0, 0, 2 * DT, 0.5)]
    trains = np.zeros((STEPS, 5), bool), np.zeros((STEPS, 4), bool)
    early, late = 10, 12
    trains[0][early if where == "axon" else late, 0] = trains[1][late if where == "axon" else early, 0] = True
    weights, got, _ = run(network(edges, where), trains)
    np.testing.assert_allclose(weights, 0.5 + PLUS, rtol=1e-6)
    np.testing.assert_allclose(got[12 if where == "axon" else 14, 0], 0.5, rtol=1e-6)
    assert np.count_nonzero(got) == 1


def test_nearest_spikes_and_amounts():
    """A trace of the nearest spike is set by each, another one adds up; `every` acts at the end of steps."""
    rules = {
        "on_pre": None,
        "on_post": lambda w, s, pre, post, p: w + pre.x + 10 * pre.near,
        "every": (5 * DT, lambda w, s, pre, post, p: w * p.keep),
        "params": {"keep": 0.5},
        "pre": {"x": be.trace(TAU_X, add=0.001), "near": be.trace(TAU_Y, add=0.002, nearest=True)},
        "post": {},
    }
    trains = np.zeros((STEPS, 5), bool), np.zeros((STEPS, 4), bool)
    trains[0][[1, 4], 0] = True
    trains[1][7, 0] = True
    weights, _, _ = run(network([(0, 0, DT, 0.5)], "axon", **rules), trains)
    decay = np.exp(-DT * np.arange(9) / TAU_X)
    added = 0.001 * (decay[5] + decay[2]) + 0.02 * np.exp(-DT * 2 / TAU_Y)
    np.testing.assert_allclose(weights, (0.25 * 0.5 * 2 + added) * 0.5 ** (STEPS // 5 - 1), rtol=1e-5)


CALLS = {"axon": ((5, -1, -1), (6, 1, -1), (8, 2, 2), (9, 3, 2)), "dendrite": ((2, 1, -1), (5, 3, -1), (12, 3, 3))}


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_states_of_the_source_travel_with_its_spike(where):
    """`pre.count` is the state after the step of the spike, though more spikes followed before it arrives."""
    rules = {
        "on_pre": lambda w, s, pre, post, p: (w, s.replace(seen=pre.count)),
        "on_post": lambda w, s, pre, post, p: (w, s.replace(later=pre.count)),
        "pre": {"count": "spikes"},
        "post": {},
        "state": {"seen": -1.0, "later": -1.0},
    }
    trains = np.zeros((STEPS, 5), bool), np.zeros((STEPS, 4), bool)
    trains[0][[1, 3, 4], 0] = True  # arrive in steps 5, 7 and 8
    trains[1][7, 0] = True
    net = network([(0, 0, 4 * DT, 0.5)], where, **rules)
    for end, seen, later in CALLS[where]:
        cut = tuple(np.where(np.arange(STEPS)[:, None] < end, train, False) for train in trains)
        state = run_to(net, cut, end).state.synapses["ab"]
        assert (state["seen"][0], state["later"][0]) == (seen, later)


def run_to(net, trains, end):
    engine = Interpreted(synapse_rules.plan_of(net, 1))
    for t in range(end):
        _, state = engine.after({(n, "drive"): x[t].astype(np.float32) for n, x in zip("ab", trains, strict=True)})
        engine.load(state)
    return engine


def test_denormal_numbers_count_as_zero():
    """As in the rules of neurons, and in every engine, from the build on."""
    keep = {"on_pre": lambda w, s, pre, post, p: (w, s.replace(c=s.c)), "on_post": None, "pre": {}, "post": {}}
    net = network([(0, 0, DT, 1e-40), (1, 0, DT, 0.5)], "axon", **keep, state={"c": 1e-41})
    state = Interpreted(synapse_rules.plan_of(net, 1)).state.synapses["ab"]
    assert state["w"].tolist() == [0, 0.5]
    assert state["c"].tolist() == [0, 0]


@settings(max_examples=3)
@given(synapse_rules.networks(), st.data())
def test_parts_and_pieces_change_nothing(net, data):
    """Any number of parts, and runs in pieces through a state, give the same bits, for random rules."""
    compare_parts_and_pieces(net, data)


@pytest.mark.thorough
@settings(max_examples=40)
@given(synapse_rules.networks(), st.data())
def test_parts_and_pieces_change_nothing_for_many_rules(net, data):
    compare_parts_and_pieces(net, data)


def compare_parts_and_pieces(net, data):
    one, three = (Interpreted(synapse_rules.plan_of(net, parts)) for parts in (1, 3))
    wanted, inputs = data.draw(synapse_rules.wishes(one.plan, 30))
    whole = one.run(30, wanted, inputs)
    equal(as_tree(whole), as_tree(three.run(30, wanted, inputs)))
    equal(one.state, three.state)
    pieces = Interpreted(one.plan)
    for begin, end in ((0, 7), (7, 30)):
        again = Interpreted(one.plan)
        again.load(pieces.state)
        again.run(end - begin, wanted, {place: x[begin:end] for place, x in inputs.items()})
        pieces = again
    equal(one.state, pieces.state)
