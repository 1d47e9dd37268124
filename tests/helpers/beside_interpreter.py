# SPDX-License-Identifier: Apache-2.0
"""Engines beside the interpreter: plans and what to record of them, drawn, and comparisons bit for bit."""

import dataclasses

import jax
import numpy as np
import pytest
import small_plans
from hypothesis import strategies as st

from brainevent.errors import NotFiniteError
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import Plan, PopulationPlan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.scalar.trace import trace

ALL = Wanted(
    ("b", "a"),
    ("a",),
    ("a", "b"),
    {"v": Sample("a", "v", 7, np.array([3, 0, 3, 36])), "pause": Sample("b", "pause", 1, np.arange(21))},
)


def equal(ours, theirs):
    """Compare states or records bit for bit; all NaN are one."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        if a.dtype == np.float32:
            np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


def as_tree(recorded):
    tree = {field.name: getattr(recorded, field.name) for field in dataclasses.fields(recorded)}
    return jax.tree.map(np.asarray, tree)


def compare(engine, pieces, wanted, inputs=None):
    """Run an engine and the interpreter in the same pieces; return what the engine recorded."""
    theirs, records, begun = Interpreted(engine.plan), [], 0
    for steps in pieces:
        part = {place: array[begun : begun + steps] for place, array in (inputs or {}).items()}
        records.append(engine.run(steps, wanted, part))
        equal(as_tree(records[-1]), as_tree(theirs.run(steps, wanted, part)))
        equal(engine.state, theirs.state)
        begun += steps
    return records


def goes_on_in(state, engines, theirs):
    """Run some more steps from a state in engines, one after the other; compare their states with those of another."""
    for engine in engines:
        engine.load(state)
        engine.run(9, Wanted(), {})
        theirs.run(9, Wanted(), {})
        equal(engine.state, theirs.state)
        state = engine.state


def stop_alike(plan, engine, match, wanted=ALL):
    """Check that an engine and the interpreter raise the same error within 300 steps, and have the same state then."""
    said, engines = [], (engine, Interpreted(plan))
    for one in engines:
        with pytest.raises(NotFiniteError, match=match) as caught:
            one.run(300, wanted, {})
        said.append(str(caught.value))
    assert said[0] == said[1]
    equal(*(one.state for one in engines))


def plan_of(populations, synapses, parts, **more):
    return Plan(tuple(populations), tuple(synapses), 0.1, 1, parts, "test", **more)


def single(rule, state, params, parts=1, quantum=1.0, **more):
    """Return a plan of one population "a" without synapses."""
    traced = trace(rule, {key: array[0] for key, array in state.items()}, ["syn"], params)
    size = len(next(iter(state.values())))
    population = PopulationPlan("a", size, traced, state, params, {"syn": np.float32(quantum)}, (2**32 - 5, 17))
    return plan_of([population], [], parts, **more)


@st.composite
def plans(draw, parts):
    """Draw two populations, and projections of any layout between them."""
    sizes = draw(st.lists(st.integers(1, 90), min_size=2, max_size=2))
    pair = [small_plans.population(name, size, seed) for seed, (name, size) in enumerate(zip("ab", sizes, strict=True))]
    projections = []
    for seed in range(draw(st.integers(0, 4))):
        made = small_plans.synapses(
            *(draw(st.sampled_from(pair)) for _ in range(2)),
            draw(st.integers(0, 300)),
            parts,
            weight=draw(st.sampled_from(["int16", "int32", -3, 7])),
            delay=draw(st.sampled_from(["uint8", "uint16", 1, 6])),
            targets=draw(st.sampled_from(["uint16", "int32"])),
            seed=seed,
        )
        longer = draw(st.sampled_from([1, 28 if made.delays.dtype == np.uint8 else 1000]))
        projections.append(dataclasses.replace(made, delays=made.delays * made.delays.dtype.type(longer)))
    return plan_of(pair, projections, parts)


@st.composite
def wishes(draw, plan):
    """Draw what to record, and inputs of 24 steps."""
    names = [population.name for population in plan.populations]
    chosen = st.lists(st.sampled_from(names), unique=True).map(tuple)
    samples = {}
    for label in draw(st.lists(st.sampled_from("xyz"), unique=True)):
        name, state = draw(st.sampled_from(names)), draw(st.sampled_from(["v", "pause"]))
        neurons = draw(st.lists(st.integers(0, plan.population(name).size - 1), max_size=9))
        samples[label] = Sample(name, state, draw(st.integers(1, 9)), np.array(neurons, np.int64))
    inputs = {}
    for name in draw(chosen):
        width = draw(st.sampled_from([1, plan.population(name).size]))
        inputs[name, "syn"] = np.random.default_rng(0).normal(0, 2, (24, width)).astype(np.float32)
    return Wanted(draw(chosen), draw(chosen), draw(chosen), samples), inputs


def drawing(s, arriving, p, random):
    """Draw numbers of several distributions; `each` has a mean for each neuron."""
    events = random.poisson(p.mean) + random.poisson(p.rate * 0.5) + random.poisson(p.each)
    v = s.v * 0.5 + arriving.syn + events + random.normal() + random.uniform()
    return s.replace(v=v, n=s.n + random.poisson(3.0)), v > p.threshold


DRAWN_STATE = {"v": np.zeros(700, np.float32), "n": np.zeros(700, np.int32)}
DRAWN_PARAMS = {
    "mean": np.float32(1.6),
    "rate": np.float32(100),
    "each": np.random.default_rng(0).uniform(0, 9, 700).astype(np.float32),
    "threshold": np.float32(130),
}


def said_of_nan(engine):
    """Run an engine of `small_plans.plan(..., check_finite=True)` into a value that is not finite: its error."""
    engine.run(3, Wanted(), {})
    engine.set("b", "drive", np.where(np.arange(21) == 4, np.float32(np.nan), np.float32(0)))
    engine.set("a", "drive", np.where(np.arange(37) >= 30, np.float32(np.inf), np.float32(0)))
    with pytest.raises(NotFiniteError) as error:
        engine.run(10, ALL, {})
    return str(error.value)


def compare_after_replacing(ours, theirs, steps, wanted):
    """Replace a parameter, `eta`, and the weights of plastic synapses, `ab`, between runs of two engines."""
    for engine in (ours, theirs):
        engine.run(steps[0], wanted, {})
        engine.set("ab", "eta", np.float32(0.5))
        state = engine.state
        w = np.linspace(0, 0.5, state.synapses["ab"]["w"].size).astype(np.float32)
        engine.load(dataclasses.replace(state, synapses={"ab": {**state.synapses["ab"], "w": w}}))
    equal(as_tree(ours.run(steps[1], wanted, {})), as_tree(theirs.run(steps[1], wanted, {})))
    equal(ours.state, theirs.state)
