# SPDX-License-Identifier: Apache-2.0
"""Networks with plastic synapses whose rules use all there is, for tests of native engines."""

import mixed_networks
import synapse_rules

import brainevent as be
from brainevent.network.run.recorded import Wanted

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


def network(plasticity, delay=None, sizes=(30, 20), probability=0.3):
    a, b = (
        synapse_rules.population(name, size, seed) for seed, (name, size) in enumerate(zip("ab", sizes, strict=True))
    )
    connect = be.connect.prob(probability, weight=be.uniform(0.0, 0.3))
    projections = [be.Projection(a, b, connect, "syn", delay, "ab", plasticity)]
    projections += [be.Projection(b, a, connect, "syn", delay, "ba"), be.Projection(a, b, connect, "syn", 0.4, "fixed")]
    return be.Network([a, b], projections, dt=0.1)


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
