# SPDX-License-Identifier: Apache-2.0
"""Functions of attributes between parts of populations: they see the attributes of the neurons of the parts."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from test_network_drawing import both, rows_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.connections import connections

X = np.random.default_rng(0).random(40).astype(np.float32)
SOME, OTHERS = np.array([3, 7, 1, 20, 30, 11]), np.array([5, 4, 33, 38, 2, 9])


def population(name, x):
    return be.Population(name, len(x), lambda s, arriving, p: (s, arriving.syn > 1), at={"x": x})


def near(pre, post):
    return jnp.clip(1 - 2 * jnp.abs(pre.x - post.x), 0, 1)


def weight(pre, post):
    return 1 + 0.5 * pre.x + 0.25 * post.x


def late(pre, post):
    return 2 * jnp.abs(pre.x - post.x)


EXC = population("exc", X)
KINDS = {
    "prob": be.connect.prob(near, weight=weight),
    "in_degree": be.connect.in_degree(3, weight=weight),
    "all_to_all": be.connect.all_to_all(weight=weight),
    "one_to_one": be.connect.one_to_one(weight=weight),
}


def network(source, target, connect):
    populations = dict.fromkeys(getattr(end, "population", end) for end in (source, target))
    return be.Network(list(populations), [be.Projection(source, target, connect, into="syn", delay=late)], dt=0.1)


def attributes(*ends):
    return [SimpleNamespace(x=X[numbers]) for numbers in ends]


def synapses(plan):
    found = connections(plan, plan.projections[0].name)
    return np.asarray(found.sources), np.asarray(found.targets), np.asarray(found.weights), np.asarray(found.delays)


@pytest.mark.parametrize("kind", KINDS)
def test_they_read_the_neurons_of_the_parts(kind):
    plan = build_plan(network(EXC[SOME], EXC[OTHERS], KINDS[kind]), seed=1)
    sources, targets, weights, delays = synapses(plan)
    assert set(sources) <= set(SOME)
    assert set(targets) <= set(OTHERS)
    if kind == "one_to_one":
        assert dict(zip(sources, targets, strict=True)) == dict(zip(SOME, OTHERS, strict=True))
    np.testing.assert_allclose(weights, weight(*attributes(sources, targets)), atol=2**-8)
    np.testing.assert_allclose(delays, np.maximum(np.rint(10 * late(*attributes(sources, targets))), 1) / 10)


@pytest.mark.parametrize("kind", ["prob", "in_degree", "all_to_all"])
def test_they_draw_as_populations_of_these_neurons(kind):
    some, others = np.sort(SOME), np.sort(OTHERS)
    alone = network(population("exc", X[some]), population("inh", X[others]), KINDS[kind])
    projection = alone.projections[0]
    named = be.Projection(projection.source, projection.target, KINDS[kind], into="syn", delay=late, name="own")
    again = be.Projection(EXC[SOME], EXC[OTHERS], KINDS[kind], into="syn", delay=late, name="own")
    own = synapses(build_plan(be.Network(list(alone.populations), [named], dt=0.1), seed=1))
    sources, targets, *_ = synapses(build_plan(be.Network([EXC], [again], dt=0.1), seed=1))
    assert set(zip(sources, targets, strict=True)) == set(zip(some[own[0]], others[own[1]], strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [(SOME, OTHERS), (slice(5, 17), slice(20, 40)), (slice(None), OTHERS)])
def test_devices_draw_the_same(kind, parts):
    if kind == "one_to_one" and isinstance(parts[0], slice):
        parts = (slice(5, 17), slice(20, 32))
    host, device = both(network(EXC[parts[0]], EXC[parts[1]], KINDS[kind]), seed=2)
    for found, expected in zip(rows_of(device, 3), rows_of(host, 3), strict=True):
        assert np.array_equal(found, expected) if isinstance(found, np.ndarray) else found == expected


def test_errors_name_neurons_of_the_population():
    with pytest.raises(NetworkError, match=r"the probability from neuron 3 to neuron 2 is 2.*pre\.x="):
        build_plan(network(EXC[[3, 7]], EXC[[9, 2]], be.connect.prob(lambda pre, post: 2 + 0 * pre.x)))
    with pytest.raises(NetworkError, match="share some neurons, but are not the same"):
        build_plan(network(EXC[:5], EXC[3:], be.connect.prob(near, self_connections=False)))
