# SPDX-License-Identifier: Apache-2.0
"""Random rules of synapses, and small networks with them, for comparisons of engines with the interpreter."""

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import brainevent as be
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted

EDGES = np.float32([0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, 2.0**-126])


def bursting(s, arriving, p):
    """Integrate what arrives, and tell of an upstate beside the spike; states have every dtype."""
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + p.drive)
    spike = v >= 1.0
    n = s.n + jnp.where(spike, jnp.uint32(1), jnp.uint32(0))
    new = s.replace(
        v=jnp.where(spike, -0.2, v),
        u=s.u * 0.9 + v,
        pause=jnp.where(spike, 2, jnp.maximum(s.pause - 1, 0)),
        n=n,
        high=v > 0.5,
    )
    return new, {"spike": spike, "upstate": new.u > 2.0}


def population(name, size, seed):
    """Return neurons that spike now and then by themselves."""
    drive = np.random.default_rng(seed).uniform(0, 0.4, size).astype(np.float32)
    state = {"v": be.uniform(-1, 1), "u": 0.0, "pause": 0, "n": np.uint32(0), "high": False}
    return be.Population(name, size, bursting, state, {"decay": 0.9, "drive": drive})


# What rules read, by name: those of integers and bools are converted.
LEAVES = {
    "w": lambda w, s, pre, post, p: w,
    "s.c": lambda w, s, pre, post, p: s.c,
    "s.e": lambda w, s, pre, post, p: s.e,
    "pre.x": lambda w, s, pre, post, p: pre.x,
    "pre.x2": lambda w, s, pre, post, p: pre.x2,
    "pre.u": lambda w, s, pre, post, p: pre.u,
    "pre.n": lambda w, s, pre, post, p: pre.n.astype(w.dtype),
    "post.y": lambda w, s, pre, post, p: post.y,
    "post.y2": lambda w, s, pre, post, p: post.y2,
    "post.v": lambda w, s, pre, post, p: post.v,
    "post.pause": lambda w, s, pre, post, p: post.pause.astype(w.dtype),
    "post.high": lambda w, s, pre, post, p: jnp.where(post.high, 0.7, -0.3),
    "p.eta": lambda w, s, pre, post, p: p.eta,
    "p.dt": lambda w, s, pre, post, p: p.dt,
}
ONE = {
    "neg": lambda a: -a,
    "abs": jnp.abs,
    "tanh": jnp.tanh,
    "exp": lambda a: jnp.exp(-jnp.abs(a)),
    "grow": jnp.exp,
    "root": jnp.sqrt,
    "square": lambda a: a * a,
    "log": lambda a: jnp.log1p(jnp.abs(a)),
}
TWO = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "div": jnp.divide,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "less": lambda a, b: jnp.where(a < b, a, 0.5),
}


def expressions(leaves=tuple(LEAVES)):
    """Draw an expression as nested tuples of names and numbers."""
    leaf = st.sampled_from(leaves) | st.floats(-2, 2, width=32) | st.sampled_from(EDGES.tolist())
    return st.recursive(
        leaf,
        lambda inner: (
            st.tuples(st.sampled_from(sorted(ONE)), inner) | st.tuples(st.sampled_from(sorted(TWO)), inner, inner)
        ),
        max_leaves=6,
    )


def value_of(expression, *records):
    """Return the value of an expression for the five arguments of a rule."""
    if isinstance(expression, str):
        return LEAVES[expression](*records)
    if isinstance(expression, float):
        return jnp.asarray(expression, records[0].dtype)
    op, *parts = expression
    return (ONE if len(parts) == 1 else TWO)[op](*(value_of(part, *records) for part in parts))


def rule_of(change, states, damped):
    """Return a rule that adds an expression to the weight, and replaces states by others."""

    def rule(w, s, pre, post, p):
        by = value_of(change, w, s, pre, post, p)
        by = 0.1 * jnp.tanh(by) if damped else by
        new = {name: value_of(one, w, s, pre, post, p) for name, one in states.items()}
        return (w + by, s.replace(**new)) if new else w + by

    return rule


@st.composite
def rules(draw):
    """Draw a rule; most change weights by little, so that they do not stay at a bound."""
    states = {name: draw(expressions()) for name in draw(st.lists(st.sampled_from(["c", "e"]), unique=True))}
    return rule_of(draw(expressions()), states, draw(st.integers(0, 4)) > 0)


def touching(w, s, pre, post, p):
    """Read all that is declared, so that no declaration is without use."""
    all_ = s.c + s.e + pre.x + pre.x2 + pre.u + pre.n.astype(w.dtype) + post.y + post.y2 + p.eta
    return jnp.where(all_ > 1e30, w * 0.5, w)


@st.composite
def plasticities(draw):
    """Draw the plasticity of a projection."""
    pre = {"x": be.trace(draw(st.sampled_from([0.5, 5.0, 20.0]))), "x2": be.trace(3.0, 0.5, nearest=True)}
    post = {"y": be.trace(draw(st.sampled_from([1.0, 10.0]))), "y2": be.trace(7.0, -1.0, nearest=draw(st.booleans()))}
    events = draw(st.lists(st.sampled_from(["spike", "upstate"]), unique=True))
    every = [(0.1 * draw(st.integers(1, 9)), draw(rules())) for _ in range(draw(st.integers(0, 2)))]
    low = draw(st.sampled_from([-1.0, 0.0]))
    return be.Plasticity(
        on_pre=draw(st.none() | rules()),
        on_post={event: draw(rules()) for event in events},
        every=[*every, (0.7, touching)],
        state={"c": draw(st.sampled_from([0.0, 1.0, be.uniform(0, 1)])), "e": be.normal(0, 1)},
        params={"eta": draw(st.floats(-1, 1, width=32))},
        pre={**pre, "u": "u", "n": "n"},
        post=post,
        low=low,
        high=draw(st.sampled_from([0.3, 1.0])),
        delay_at=draw(st.sampled_from(["axon", "dendrite"])),
    )


@st.composite
def networks(draw):
    """Draw a network of two populations with one to three plastic projections, and static ones between them."""
    pair = [population(name, draw(st.integers(1, 40)), seed) for seed, name in enumerate("ab")]
    ends = st.sampled_from(pair)
    delays = st.sampled_from([None, 0.1, 0.4, be.uniform(0.1, 0.6), be.integers(1, 3)])
    projections = []
    for number in range(draw(st.integers(1, 3))):
        plasticity = draw(plasticities())
        weight = draw(st.sampled_from([0.2, be.uniform(0, 0.3), be.normal(0.1, 0.1, low=0, high=0.3)]))
        connect = be.connect.prob(draw(st.sampled_from([0.05, 0.5, 1.0])), weight=weight)
        more = {"into": "syn", "delay": draw(delays), "name": f"plastic{number}", "plasticity": plasticity}
        projections.append(be.Projection(draw(ends), draw(ends), connect, **more))
    for number in range(draw(st.integers(0, 2))):
        connect = be.connect.prob(0.3, weight=draw(st.sampled_from([0.2, be.normal(0, 0.3)])))
        projections.append(be.Projection(draw(ends), draw(ends), connect, "syn", draw(delays), f"fixed{number}"))
    return be.Network(pair, projections, dt=0.1)


def plan_of(network, parts, **more):
    """Return the plan of a network."""
    return build_plan(network, seed=3, parts=parts, warn=False, **more)


@st.composite
def samples_of(draw, plan, name, longest):
    """Draw samples of synapses, at intervals of some steps at most; with those of a state of a population."""
    samples = {"u": Sample(name, "u", 3, np.arange(plan.population(name).size))}
    for plastic in plan.plastic:
        for state in draw(st.lists(st.sampled_from(["w", "c", "e"]), unique=True)):
            chosen = st.lists(st.integers(0, plastic.entries - 1), max_size=9) if plastic.entries else st.just([])
            entries = np.array(draw(chosen), np.int64)
            every = draw(st.integers(1, longest))
            samples[f"{plastic.name}.{state}"] = Sample(plastic.name, state, every, entries, of_synapses=True)
    return samples


@st.composite
def wishes(draw, plan, steps):
    """Draw what to record, synapses too, and inputs of some steps."""
    names = [population.name for population in plan.populations]
    samples, inputs = draw(samples_of(plan, "a", 5)), {}
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        inputs[name, "syn"] = np.random.default_rng(1).normal(0.1, 0.3, (steps, 1)).astype(np.float32)
    return Wanted(tuple(names), ("a",), ("b",), samples), inputs
