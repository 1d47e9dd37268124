# SPDX-License-Identifier: Apache-2.0
"""Random networks that have plastic synapses, graded spikes and couplings at once."""

import jax.numpy as jnp
import numpy as np
import synapse_rules
from hypothesis import strategies as st

import brainevent as be
from brainevent.network.run.recorded import Wanted


def telling(s, arriving, p):
    """Integrate all that arrives; tell of an upstate."""
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + 0.1 * arriving.gap + p.drive)
    spike = v >= 1.0
    new = s.replace(
        v=jnp.where(spike, -0.2, v),
        u=0.9 * s.u + v - 0.05 * arriving.gap,
        pause=jnp.where(spike, 2, jnp.maximum(s.pause - 1, 0)),
        n=s.n + jnp.where(spike, jnp.uint32(1), jnp.uint32(0)),
        high=v > 0.5,
    )
    return new, {"spike": spike, "upstate": new.u > 2.0}


def graded(s, arriving, p):
    """Do the same, and give spikes values between -1 and 1."""
    new, events = telling(s, arriving, p)
    return new, {"upstate": events["upstate"], "value": jnp.tanh(s.u), "spike": events["spike"]}


def population(name, size, seed, rule=telling, value_range=None):
    """Return neurons that spike now and then by themselves."""
    drive = np.random.default_rng(seed).uniform(0, 0.4, size).astype(np.float32)
    state = {"v": be.uniform(-1, 1), "u": 0.0, "pause": 0, "n": np.uint32(0), "high": False}
    params = {"decay": 0.9, "drive": drive}
    return be.Population(name, size, rule, state, params, value_range=value_range)


WEIGHTS = [0.2, be.uniform(0, 0.3), be.normal(0.1, 0.1, low=0, high=0.3)]
DELAYS = [None, 0.1, 0.4, 30.0, be.uniform(0.1, 0.6), be.integers(1, 3), be.uniform(0.1, 25.0)]


@st.composite
def networks(draw):
    """Draw a network of three populations, of which the spikes of one have values, with synapses of all kinds."""
    sizes = st.sampled_from([1, 2, 5, 17, 40])
    plain = [population(name, draw(sizes), seed) for seed, name in enumerate("ab")]
    values = population("c", draw(sizes), 2, graded, (-1, 1))
    links, every = [], [*plain, values]
    delays, receptors = st.sampled_from(DELAYS), st.sampled_from(["syn", "gap"])
    densities = st.sampled_from([1e-9, 0.05, 0.5, 1.0])
    for number in range(draw(st.integers(1, 3))):
        connect = be.connect.prob(draw(densities), weight=draw(st.sampled_from(WEIGHTS)))
        more = {"into": draw(receptors), "delay": draw(delays), "name": f"plastic{number}"}
        more["plasticity"] = draw(synapse_rules.plasticities())
        links.append(be.Projection(draw(st.sampled_from(every)), draw(st.sampled_from(every)), connect, **more))
    for number in range(draw(st.integers(0, 3))):
        connect = be.connect.prob(draw(densities), weight=draw(st.sampled_from([0.2, be.normal(0, 0.3)])))
        ends = draw(st.sampled_from(every)), draw(st.sampled_from(every))
        links.append(be.Projection(*ends, connect, draw(receptors), draw(delays), f"fixed{number}"))
    for number in range(draw(st.integers(0, 3))):
        connect = be.connect.prob(draw(densities), weight=draw(st.sampled_from([0.02, be.normal(0, 0.05)])))
        ends = draw(st.sampled_from(every)), draw(st.sampled_from(every))
        more = {"of": draw(st.sampled_from(["v", "u"])), "into": draw(receptors), "difference": draw(st.booleans())}
        links.append(be.Coupling(*ends, connect, name=f"coupling{number}", **more))
    return be.Network(every, draw(st.permutations(links)), dt=0.1)


@st.composite
def wishes(draw, plan, steps):
    """Draw what to record, synapses too, and inputs of some steps."""
    names = [population.name for population in plan.populations]
    samples, inputs = draw(synapse_rules.samples_of(plan, "c", 30)), {}
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        width = draw(st.sampled_from([1, plan.population(name).size]))
        receptor = draw(st.sampled_from(list(plan.population(name).quanta)))
        inputs[name, receptor] = np.random.default_rng(1).normal(0.1, 0.3, (steps, width)).astype(np.float32)
    return Wanted(tuple(names), ("a", "c"), ("b",), samples), inputs
