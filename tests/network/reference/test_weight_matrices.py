# SPDX-License-Identifier: Apache-2.0
"""Weights as matrices (sources, targets): those of the synapses, with any backend, and in any order of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError, ShapeError

F = np.float32
NAME = "a->b.syn"


def leaky(s, arriving, p):
    v = 0.9 * s.v + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def silent(s, arriving, p):
    v = 0.9 * s.v + arriving.syn
    return s.replace(v=v), False


MASK = np.random.default_rng(5).random((37, 21)) < 0.3
GIVEN = np.where(MASK, np.random.default_rng(6).normal(0.1, 0.3, (37, 21)), 0).astype(F)
INPUTS = np.random.default_rng(7).normal(0.2, 0.3, (20, 37)).astype(F)


def built(how, backend="jax", delay=None, **options):
    a, b = (be.Population(name, size, rule, {"v": 0.0}) for name, size, rule in (("a", 37, leaky), ("b", 21, silent)))
    joined = be.Projection(a, b, how, into="syn", delay=delay)
    return be.Network([a, b], [joined], dt=1.0).build(seed=0, backend=backend, quantum=2**-20, **options)


def potentials(sim, weights):
    return be.simulate(sim, sim.state.with_floats(), {NAME: weights}, 20, {"a.syn": INPUTS}, "b.v")[1]["b.v"]


DELAYS = np.random.default_rng(8).integers(1, 6, (37, 21)).astype(F)
BUILDS = {"jax": {}, "numba": {"backend": "numba"}, "two threads": {"backend": "numba", "threads": 2}}


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("connect", [GIVEN, be.connect.all_to_all(weight=GIVEN)], ids=["masked", "all"])
def test_a_matrix_is_the_weights_of_its_synapses(connect, name):
    """Also where synapses are ordered by thread and delay."""
    sim = built(connect, delay=DELAYS, **BUILDS[name])
    expected = potentials(built(connect, delay=DELAYS), built(connect, delay=DELAYS).params[NAME])
    found = jax.jit(lambda w: potentials(sim, w))(GIVEN)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(potentials(sim, GIVEN), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda w: potentials(sim, w))(sim.params[NAME]), expected, rtol=1e-4, atol=1e-5)
    many = jax.vmap(lambda w: potentials(sim, w))(jnp.stack([GIVEN, 2 * GIVEN]))
    np.testing.assert_allclose(many[0], expected, rtol=1e-4, atol=1e-5)
    slopes = jax.grad(lambda w: (potentials(sim, w) ** 2).sum())(GIVEN)
    assert slopes.shape == GIVEN.shape
    others = np.asarray(slopes)[~MASK]
    assert (others != 0).mean() > 0.5 if isinstance(connect, be.connect.Connect) else not others.any()


def test_learning_by_traces_takes_the_order_of_connections():
    """E-prop, too, of a network that threads share."""
    a, b, out = (
        be.Population(x, n, rule, {"v": 0.0}) for x, n, rule in (("a", 37, leaky), ("b", 21, leaky), ("c", 2, silent))
    )
    read = be.Projection(b, out, be.connect.all_to_all(weight=be.normal(0, 1)), into="syn")
    network = be.Network([a, b, out], [be.Projection(a, b, GIVEN, into="syn", delay=DELAYS), read], dt=1.0)
    plain, shared = (network.build(seed=0, quantum=2**-20, **BUILDS[name]) for name in ("jax", "two threads"))

    def slopes(sim, weights):
        loss = lambda step, y: (y**2).sum()
        return be.eprop(sim, sim.state, {NAME: weights}, 20, loss, "c.v", {"a.syn": INPUTS})[1][NAME]

    order = np.nonzero(GIVEN)
    by_synapse = np.zeros((37, 21), F)
    synapses = plain.connections(NAME)
    by_synapse[synapses.sources, synapses.targets] = slopes(plain, plain.params[NAME])
    assert not np.array_equal(synapses.targets, order[1])
    of_shared = slopes(shared, shared.params[NAME])
    np.testing.assert_allclose(of_shared, by_synapse[synapses.sources, synapses.targets], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(slopes(shared, GIVEN), by_synapse, rtol=1e-3, atol=1e-4)


def test_a_simulation_takes_a_matrix():
    sim, other = built(GIVEN, "numba"), built(GIVEN, "numba")
    sim.set(NAME, weights=2 * GIVEN)
    synapses = other.connections(NAME)
    other.set(NAME, weights=2 * GIVEN[synapses.sources, synapses.targets])
    np.testing.assert_array_equal(sim.params[NAME], other.params[NAME])
    swept = other.sweep(20, "b.v", {NAME: {"weights": np.stack([GIVEN, 2 * GIVEN])}}, {"a.syn": INPUTS[None]})
    np.testing.assert_array_equal(swept[1]["b.v"], sim.run(20, "b.v", {"a.syn": INPUTS})["b.v"])


@pytest.mark.parametrize("backend", ["jax", "numba"])
def test_numbers_without_a_synapse_are_refused(backend):
    sim = built(GIVEN, backend)
    place = tuple(int(k) for k in np.argwhere(~MASK)[3])
    wrong = GIVEN.copy()
    wrong[place] = 0.5
    words = (
        r"element \(\d+, \d+\) is 0.5, but there is no synapse; pass 0 there; zeros of a matrix in a description are"
    )
    with pytest.raises(NetworkError, match=words):
        potentials(sim, wrong)
    with pytest.raises(NetworkError, match=words):
        sim.set(NAME, weights=wrong)
    wrong[place] = np.nan
    assert np.isnan(jax.jit(lambda w: potentials(sim, w))(wrong)).all()
    assert np.isfinite(jax.jit(lambda w: potentials(sim, w))(GIVEN)).all()
    run = jax.vmap(jax.jit(lambda w: potentials(sim, w)))
    found = run(jnp.stack([GIVEN, GIVEN + 0.5 * (np.arange(21) == place[1])]))
    assert [bool(np.isnan(x).all()) for x in found] == [False, True]


def test_arrays_of_other_shapes_are_refused_with_what_to_do():
    sim, entries = built(GIVEN), int(MASK.sum())
    shapes = rf"pass \(\), \(1,\), \({entries},\) in the order of connections, or a matrix \(37, 21\)"
    with pytest.raises(
        ShapeError, match=shapes + r"; zeros of .*: connect.all_to_all\(weight=matrix\) makes one of each"
    ):
        potentials(sim, GIVEN.reshape(-1))
    with pytest.raises(ShapeError, match=shapes + "$"):
        potentials(sim, np.ones((37, 20)))
    with pytest.raises(NetworkError, match=rf"pass a number, or an array \({entries},\) in the order .*or a matrix"):
        sim.set(NAME, weights=np.ones((21, 36)))
    twice = built(be.connect.total(900, weight=0.1))
    words = (
        r"a->b.syn has several synapses from neuron \d+ to neuron \d+, .*; pass one weight for each synapse, \(900,\)"
    )
    with pytest.raises(NetworkError, match=words):
        potentials(twice, np.ones((37, 21)))
