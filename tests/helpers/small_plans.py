# SPDX-License-Identifier: Apache-2.0
"""Plans of small networks, made by hand: every layout of synapses that engines must run."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from brainevent.network.plan.plan import Plan, PopulationPlan, SynapsePlan, part_bounds
from brainevent.scalar.trace import trace


def leaky(s, arriving, p):
    """Integrate what arrives; pause after a spike."""
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + p.drive)
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v), pause=jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))), spike


def population(name, size, seed=0, quantum=0.25, rule=leaky, **params):
    """Return neurons of the leaky rule, with a drive of each."""
    rng = np.random.default_rng(seed)
    given = {
        "decay": np.float32(0.9),
        "drive": rng.uniform(0, 2, size).astype(np.float32),
        "threshold": np.float32(8),
        **params,
    }
    state = {"v": rng.uniform(0, 8, size).astype(np.float32), "pause": np.zeros(size, np.int32)}
    traced = trace(rule, {"v": 0.0, "pause": 0}, ["syn"], given)
    return PopulationPlan(name, size, traced, state, given, {"syn": np.float32(quantum)}, (seed, 17))


def synapses(source, target, edges, parts, *, weight="int16", delay="uint8", targets="uint16", seed=0, number=1):
    """Return random synapses; `weight` and `delay` are dtypes, or a number that is the same for all.

    `number` is 2 for the second projection between two populations.
    """
    rng = np.random.default_rng(seed)
    at, to = rng.integers(0, source.size, edges), rng.integers(0, target.size, edges)
    weights = rng.integers(-20, 40, edges) if isinstance(weight, str) else np.array([weight])
    delays = rng.integers(1, 9, edges) if isinstance(delay, str) else np.array([delay])
    part = np.searchsorted(part_bounds(target.size, parts), to, "right") - 1
    order = np.lexsort((to, np.broadcast_to(delays, edges), part, at))
    starts = np.zeros(source.size * parts + 1, np.int64)
    np.add.at(starts[1:], at * parts + part, 1)
    return SynapsePlan(
        f"{source.name}->{target.name}.syn{'' if number == 1 else f'#{number}'}",
        source.name,
        target.name,
        "syn",
        starts.cumsum(),
        to[order].astype(targets),
        (weights[order] if weights.size > 1 else weights).astype(weight if isinstance(weight, str) else "int16"),
        (delays[order] if delays.size > 1 else delays).astype(delay if isinstance(delay, str) else "uint8"),
    )


def plan(parts=1, check_finite=False):
    """Return a network of two populations whose projections differ in every dtype."""
    a, b = population("a", 37, 1), population("b", 21, 2, quantum=0.5)
    joined = (
        synapses(a, b, 300, parts, seed=1),
        synapses(b, a, 200, parts, weight=-9, delay=3, seed=2),
        synapses(a, a, 150, parts, weight="int32", delay="uint16", targets="int32", seed=3),
        synapses(b, b, 90, parts, weight=5, delay="uint16", seed=4),
        synapses(b, a, 0, parts, seed=5, number=2),
    )
    return Plan((a, b), joined, 0.1, 1, parts, "small", check_finite)


LOW, HIGH = -1.5, 2.5  # values of graded spikes


def _with_value(rule, state, clip):
    """Return a rule whose spikes have values, of both signs and with fractions, and which has another event."""

    def told(before, result):
        new, spike = result
        value = jnp.clip(getattr(new, state) * 0.37 - getattr(before, state) * 0.11 + 0.3, LOW, HIGH)
        value = value if clip else getattr(before, state) - 8
        return new, {"value": value, "spike": spike, "high": getattr(new, state) > 3}

    def drawing(s, arriving, p, random):
        return told(s, rule(s, arriving, p, random))

    def steady(s, arriving, p):
        return told(s, rule(s, arriving, p))

    return drawing, steady


def graded(plan, *names, clip=True):
    """Return a plan whose spikes have values, of the populations of some names, or of all that have a float state."""

    def changed(p):
        floats = [key for key, array in p.state.items() if array.dtype.kind == "f"]
        if not floats or (names and p.name not in names):
            return p
        drawing, steady = _with_value(p.rule.function, floats[0], clip)
        traced = trace(
            drawing if p.rule.random else steady,
            {key: array.reshape(-1)[0] for key, array in p.state.items()},
            list(p.quanta),
            {key: np.reshape(value, -1)[0] for key, value in p.params.items()},
            value_range=(LOW, HIGH),
        )
        return dataclasses.replace(p, rule=traced)

    return dataclasses.replace(plan, populations=tuple(changed(p) for p in plan.populations), loads={})
