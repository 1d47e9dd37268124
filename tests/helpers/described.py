# SPDX-License-Identifier: Apache-2.0
"""Descriptions of small networks, and their plans as dense matrices."""

import jax.numpy as jnp
import numpy as np

from brainevent.network.description.network import Network, Population, Projection
from brainevent.network.plan.build import build_plan


def silent(s, arriving, p):
    """Add up what arrives; never spike."""
    return s.replace(v=s.v + arriving.syn), s.v < -1e30


def forward(s, arriving, p):
    """Spike when something has arrived."""
    return s.replace(v=arriving.syn), arriving.syn > 0


def cells(name, size, rule=silent, **state):
    return Population(name, size, rule, state={"v": 0.0, **state})


def joined(connect, sources=30, targets=None, *, delay=None, name=None, dt=0.1):
    """Return a network of one projection: of one population if there are no targets."""
    a = cells("a", sources)
    b = a if targets is None else cells("b", targets)
    populations = [a] if targets is None else [a, b]
    return Network(populations, [Projection(a, b, connect, into="syn", delay=delay, name=name)], dt=dt)


def synapses(connect, sources=30, targets=None, *, seed=1, parts=1, **how):
    """Return the plan of the one projection of a network, and its quantum."""
    plan = build_plan(joined(connect, sources, targets, **how), seed=seed, parts=parts)
    target = plan.population(plan.synapses[0].target)
    return plan.synapses[0], float(target.quanta["syn"]), plan


def listed(found, quantum=1.0, parts=1):
    """Return synapses one by one: source, target, weight and delay, in the order of source, delay, target, weight."""
    number = found.targets.size
    rows = found.starts[::parts]
    sources = np.repeat(np.arange(rows.size - 1), np.diff(rows))
    weights, delays = (np.broadcast_to(x, number).astype(np.int64) for x in (found.weights, found.delays))
    targets = found.targets.astype(np.int64)
    order = np.lexsort((weights, targets, delays, sources))
    return sources[order], targets[order], weights[order] * quantum, delays[order]


def dense(found, quantum, shape, parts=1):
    """Return the matrix of sums of weights."""
    sources, targets, weights, _ = listed(found, quantum, parts)
    matrix = np.zeros(shape)
    np.add.at(matrix, (sources, targets), weights)
    return matrix


def cuba_rule(s, arriving, p):
    """Integrate two exponential currents; pause after a spike."""
    exc, inh = s.exc * p.fall_exc + arriving.exc, s.inh * p.fall_inh + arriving.inh
    v = jnp.where(s.pause > 0, s.v, p.rest + (s.v - p.rest) * p.decay + (exc + inh) * p.gain)
    spike = v >= p.threshold
    pause = jnp.where(spike, 50, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, -60.0, v), exc=exc, inh=inh, pause=pause), spike
