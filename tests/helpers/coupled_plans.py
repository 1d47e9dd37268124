# SPDX-License-Identifier: Apache-2.0
"""Plans of small networks with couplings, made by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import small_plans

from brainevent.network.plan.couplings import CouplingPlan
from brainevent.network.plan.plan import Plan, PopulationPlan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.scalar.trace import trace

RECORDED = Wanted(
    ("a", "b"), ("b",), ("a",), {"a.v": Sample("a", "v", 1, np.arange(37)), "b.u": Sample("b", "u", 3, np.arange(21))}
)


def carried(s, arriving, p):
    """Integrate what spikes and couplings bring; a slow state follows."""
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + arriving.gap * 0.125 + p.drive)
    spike = v >= p.threshold
    u = s.u * 0.75 + arriving.gap - 0.25 * s.v
    pause = jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))
    return s.replace(pause=pause, v=jnp.where(spike, 0.0, v), u=u), spike


def population(name, size, seed=0, dtype="float32"):
    """Return neurons of this rule, whose first state is an integer."""
    rng = np.random.default_rng(seed)
    params = {
        "decay": np.dtype(dtype).type(0.9),
        "drive": rng.uniform(0, 2, size).astype(dtype),
        "threshold": np.dtype(dtype).type(8),
    }
    state = {"pause": np.zeros(size, np.int32)}
    state |= {"v": rng.uniform(0, 8, size).astype(dtype), "u": rng.normal(0, 1, size).astype(dtype)}
    rule = trace(carried, {"pause": 0, "v": 0.0, "u": 0.0}, ["syn", "gap"], params, dtype=dtype)
    quanta = dict.fromkeys(("syn", "gap"), np.dtype(dtype).type(0.25))
    return PopulationPlan(name, size, rule, state, params, quanta, (seed, 17))


def coupling(source, target, entries, *, receptor="gap", state="v", difference=False, one=False, seed=0, number=1):
    """Return random synapses of a coupling, parallel ones among them."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, source.size, entries), rng.integers(0, target.size, entries)
    order = np.lexsort(ends[::-1])
    weights = rng.normal(0, 0.02, 1 if one else entries)
    name = f"{source.name}=>{target.name}.{receptor}#{number}"
    names = name, source.name, target.name, receptor, state, difference
    sources, targets = (end[order].astype(np.int32) for end in ends)
    return CouplingPlan(*names, sources, targets, weights.astype(source.rule.dtype), target.size)


def couplings(a, b, times=1):
    """Return couplings of every kind between two populations: two of them, and spikes, meet in one receptor."""
    return (
        coupling(a, a, 200 * times, difference=True, seed=1),
        coupling(b, a, 90 * times, state="u", one=True, seed=2),
        coupling(a, b, 150 * times, receptor="syn", seed=3),
        coupling(b, b, 60 * times, receptor="syn", state="u", difference=True, one=True, seed=4),
        coupling(a, b, 0, seed=5),
        coupling(a, a, 80 * times, receptor="syn", state="u", difference=True, seed=6, number=2),
    )


def plan(parts=1, dtype="float32", **more):
    """Return a network of two populations with synapses of every kind between them."""
    a, b = population("a", 37, 1, dtype), population("b", 21, 2, dtype)
    joined = (small_plans.synapses(a, b, 300, parts, seed=1), small_plans.synapses(b, a, 200, parts, weight=-9, seed=2))
    joined = (*joined, dataclasses.replace(small_plans.synapses(b, b, 90, parts, weight=5, seed=4), receptor="gap"))
    return Plan((a, b), joined, 0.1, 1, parts, "coupled", dtype=dtype, couplings=couplings(a, b), **more)


def inputs(steps):
    """Return inputs of receptors with and without couplings."""
    rng = np.random.default_rng(0)
    return {
        ("a", "gap"): rng.normal(0, 1, (steps, 37)).astype(np.float32),
        ("b", "syn"): np.ones((steps, 1), np.float32),
    }


def lively(state):
    """Say whether all neurons have states that differ, and are finite: else other bits would not be seen."""
    values = np.concatenate([own["u"] for own in state.neurons.values()])
    return bool(np.isfinite(values).all() and np.unique(values).size > 0.9 * values.size)


def by_hand(couplings, neurons):
    """Return what couplings of one receptor bring, number after number."""
    total = np.zeros(couplings[0].neurons, np.float32)
    with np.errstate(all="ignore"):
        for one in couplings:
            weights = np.broadcast_to(one.weights, one.targets.shape)
            for source, target, weight in sorted(
                zip(one.sources, one.targets, weights, strict=True), key=lambda x: x[0]
            ):
                value = neurons[one.source][one.state][source]
                if one.difference:
                    value = value - neurons[one.target][one.state][target]
                total[target] += weight * value
    return total
