# SPDX-License-Identifier: Apache-2.0
"""Plans of small networks, made by hand: every layout of synapses that engines must run."""

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
