# SPDX-License-Identifier: Apache-2.0
"""Networks with plastic synapses whose rules use all there is, for tests of native engines."""

import dataclasses

import jax.numpy as jnp
import mixed_networks
import numpy as np
import pytest
import synapse_rules
from beside_interpreter import compare, equal

import brainevent as be
from brainevent.errors import NotFiniteError
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample, Wanted

ALL = Wanted(("a", "b"), (), (), {})


def triplet(where, **more):
    """Return rules that use all there is: a state, carried states, traces of both sides, two events, and intervals."""
    return be.Plasticity(
        **{
            "on_pre": lambda w, s, pre, post, p: (
                w - p.eta * post.y * w + 0.01 * pre.u,
                s.replace(e=0.9 * s.e + pre.x),
            ),
            "on_post": {
                "spike": lambda w, s, pre, post, p: w + 0.02 * pre.x + 0.001 * s.e,
                "upstate": lambda w, s, pre, post, p: (0.999 * w, s.replace(e=s.e + post.y - 0.1 * post.v)),
            },
            "every": (0.7, lambda w, s, pre, post, p: w - 0.01 * w * pre.x - 0.001 * post.y),
            "state": {"e": be.uniform(0, 1)},
            "params": {"eta": 0.03},
            "pre": {"x": be.trace(20.0), "u": "u"},
            "post": {"y": be.trace(15.0)},
            "high": 0.5,
            "delay_at": where,
        }
        | more
    )


def pair(sizes):
    """Return populations `a` and `b`."""
    return [
        synapse_rules.population(name, size, seed) for seed, (name, size) in enumerate(zip("ab", sizes, strict=True))
    ]


def check_all_that_rules_use(engine):
    """Compare an engine for `network(triplet(...))` with the interpreter; its weights change, and are recorded."""
    before = engine.state.synapses["ab"]
    samples = {"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5]), of_synapses=True)}
    records = compare(engine, (1, 9, 40), dataclasses.replace(ALL, samples=samples))
    after = engine.state.synapses["ab"]
    assert sum(record.spikes["b"][0].size for record in records) > 20
    assert np.count_nonzero(before["w"] != after["w"]) > 0.5 * before["w"].size
    assert np.ptp(records[-1].samples["w"][:, 0]) > 0


def check_that_a_state_goes_on(plan, engines):
    """Compare engines that each go on with the state of the one before, for so many steps, with one interpreter."""
    whole, state = Interpreted(plan), engines[0][0].state
    whole.run(sum(steps for _, steps in engines), ALL, {})
    for engine, steps in engines:
        engine.load(state)
        engine.run(steps, ALL, {})
        state = engine.state
    equal(state, whole.state)


def check_that_a_synapse_is_named(where, engine_of, parts=1):
    """Compare an engine of a plan in which weights become NaN with the interpreter: what it says, and its state."""

    def broken(w, s, pre, post, p):
        return w + jnp.where(pre.x > 2.3, jnp.nan, 0.0)

    nothing = {"on_pre": None, "every": (), "state": {}, "params": {}, "post": {}}
    rules = triplet(where, on_post=broken, pre={"x": be.trace(20.0)}, **nothing)
    plan = synapse_rules.plan_of(network(rules, 0.3), parts, check_finite=True)
    messages, states = [], []
    for engine in (engine_of(plan), Interpreted(plan)):
        with pytest.raises(NotFiniteError, match="projection ab: weight w of synapse") as raised:
            engine.run(400, ALL, {})
        messages.append(str(raised.value))
        states.append(engine.state)
    assert messages[0] == messages[1]
    equal(*states)


def network(plasticity, delay=None, sizes=(30, 20), probability=0.3):
    a, b = pair(sizes)
    connect = be.connect.prob(probability, weight=be.uniform(0.0, 0.3))
    projections = [be.Projection(a, b, connect, "syn", delay, "ab", plasticity)]
    projections += [be.Projection(b, a, connect, "syn", delay, "ba"), be.Projection(a, b, connect, "syn", 0.4, "fixed")]
    return be.Network([a, b], projections, dt=0.1)


def both_places(delay):
    """Return a network with delays of axons, of a length, and of dendrites."""
    net = network(triplet("axon"), delay)
    a, b = net.populations
    more = be.Projection(a, a, be.connect.prob(0.2, weight=0.1), "syn", 0.2, "aa", triplet("dendrite"))
    more = [more, be.Projection(b, b, be.connect.prob(0.2, weight=0.1), "syn", 0.3, "bb", triplet("axon"))]
    return be.Network([a, b], [*net.projections, *more], dt=0.1)


def valued(s, arriving, p):
    """As `bursting`, with a value, which is no number where there is no spike."""
    new, events = synapse_rules.bursting(s, arriving, p)
    return new, {**events, "value": jnp.where(events["spike"], jnp.clip(0.3 * s.u - 1, -2.0, 1.5), jnp.nan)}


def graded(where, delay, sizes=(25, 15), *, fixed=False):
    """Return a network in which spikes with values reach plastic synapses, and perhaps fixed ones."""
    a, b = pair(sizes)
    a = dataclasses.replace(a, rule=valued, value_range=(-2.0, 1.5))
    rules = be.Plasticity(
        on_pre=lambda w, s, pre, post, p: w - p.eta * post.y * (1 + pre.value),
        on_post=lambda w, s, pre, post, p: w + p.eta * pre.x,
        params={"eta": 0.02},
        pre={"x": be.trace(20.0), "value": "u"},
        post={"y": be.trace(15.0)},
        low=-0.2,
        high=0.3,
        delay_at=where,
    )
    connect = be.connect.prob(0.4, weight=be.uniform(-0.1, 0.3))
    projections = [be.Projection(a, b, connect, "syn", delay, "ab", rules)]
    projections += [be.Projection(a, b, connect, "syn", 0.2, "fixed")] * fixed
    return be.Network([a, b], [*projections, be.Projection(b, a, connect, "syn", 0.3, "ba")], dt=0.1)


def mixed(where):
    """Return a network of plastic and fixed synapses and couplings into one receptor, and of spikes with values."""
    a, b = (mixed_networks.population(name, size, size) for name, size in (("a", 30), ("b", 20)))
    c = mixed_networks.population("c", 11, 5, mixed_networks.graded, (-1, 1))
    connect = be.connect.prob(0.4, weight=be.uniform(0.0, 0.3))
    links = [be.Projection(c, b, connect, "syn", be.uniform(0.1, 0.9), "values"), be.Projection(c, c, connect, "gap")]
    links += [be.Coupling(c, b, be.connect.prob(0.3, weight=0.02), of="u", into="syn", name="graded gap")]
    links += [be.Coupling(a, a, be.connect.prob(0.3, weight=0.02), of="v", into="gap", difference=True)]
    links += [be.Projection(a, b, connect, "syn", be.uniform(0.1, 0.9), "ab", triplet(where))]
    links += [be.Projection(b, c, connect, "gap", 0.2, "bc", triplet(where, high=2.0))]
    return be.Network([a, b, c], links, dt=0.1)
