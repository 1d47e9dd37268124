# SPDX-License-Identifier: Apache-2.0
"""Delays that are drawn for the synapses of a matrix: by the seed, the same for every format, engine and thread."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from beside_interpreter import compare
from gpu_on_cpu import PretendDevice
from quantities import u

import brainevent as be
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted

SHAPE = (30, 20)
DENSE = np.where(np.random.default_rng(0).random(SHAPE) < 0.4, 0.25, 0.0)
MATRICES = {
    "dense": DENSE,
    "SciPy CSR": scipy.sparse.csr_matrix(DENSE),
    "SciPy COO": scipy.sparse.coo_matrix(DENSE),
    "CSR": be.CSR.fromdense(jnp.asarray(DENSE, jnp.float32)),
    "COO": be.COO.fromdense(jnp.asarray(DENSE, jnp.float32)),
    "Dense": be.Dense(jnp.asarray(DENSE, jnp.float32)),
}


def relay(s, arriving, p, random):
    return s, random.bernoulli(0.1) | (arriving.given > 0)


def leaky(s, arriving, p):
    v = 0.9 * s.v + arriving.syn
    return s.replace(v=v), v > 0.4


def described(matrix, delay, dt=0.1):
    a, b = be.Population("a", SHAPE[0], relay), be.Population("b", SHAPE[1], leaky, {"v": 0.0})
    return be.Network([a, b], [be.Projection(a, b, matrix, into="syn", delay=delay)], dt=dt)


def built(matrix=DENSE, delay=None, seed=1, **how):
    delay = be.uniform(1, 3) if delay is None else delay
    return described(matrix, delay).build(seed=seed, **{"backend": "interpreted", **how})


def delays_of(sim):
    """Return the delays as a matrix, in steps; 0 where there is no synapse."""
    found, delays = sim.connections("a->b.syn"), np.zeros(SHAPE)
    delays[found.sources, found.targets] = found.delays / 0.1
    return np.rint(delays).astype(int)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
@pytest.mark.parametrize("name", MATRICES)
def test_each_synapse_of_a_matrix_gets_a_delay(name, backend):
    delays = delays_of(built(MATRICES[name], backend=backend))
    assert np.array_equal(delays > 0, DENSE > 0)
    assert delays[delays > 0].min() >= 10
    assert delays.max() <= 30
    assert len(np.unique(delays)) == 22
    assert np.array_equal(delays, delays_of(built()))


def test_delays_are_those_of_the_seed():
    one, same, other = (delays_of(built(seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert (one != other).sum() > 200


def test_delays_of_many_synapses_follow_their_law():
    a = be.Population("a", 200, relay)
    ones = be.Projection(a, a, np.ones((200, 200)), into="given", delay=be.normal(5.0, 1.0))
    delays = be.Network([a], [ones]).build(seed=3, backend="interpreted").connections("a->a.given").delays
    assert delays.mean() == pytest.approx(5, abs=0.03)
    assert delays.std() == pytest.approx(1, abs=0.03)
    by_source = delays.reshape(200, 200).mean(1)
    assert by_source.std() == pytest.approx(1 / np.sqrt(200), rel=0.3)


@pytest.mark.parametrize("threads", [1, 3])
def test_runs_of_all_engines_are_equal(threads):
    record = ["a.spikes", "b.spikes", "b.v"]
    expected = built().run(80, record)
    found = built(backend="numba", threads=threads).run(80, record)
    rough = built(backend="jax").run(80, record)
    assert len(expected["b.spikes"].times) > 20
    for name in record[:2]:
        for other in (found, rough):
            assert np.array_equal(other[name].times, expected[name].times)
            assert np.array_equal(other[name].neurons, expected[name].neurons)
    assert np.array_equal(found["b.v"], expected["b.v"])
    np.testing.assert_allclose(rough["b.v"], expected["b.v"], rtol=1e-5)


@pytest.mark.parametrize("name", ["dense", "CSR"])
def test_a_device_delivers_the_same(name):
    network = described(MATRICES[name], be.uniform(1, 3))
    device = PretendDevice()
    plan, theirs = build_plan(network, seed=1), build_plan(network, seed=1, measure=Drawing(device))
    assert theirs.projections == plan.projections
    assert np.array_equal(theirs.synapses[0].delays, plan.synapses[0].delays)
    compare(CudaEngine(theirs, blocks=2, device=device), (30, 50), Wanted(("a", "b"), ("b",), ("b",), {}))


@pytest.mark.parametrize("round_delays", [False, True])
def test_delays_may_have_units_and_are_rounded_to_at_least_one_step(round_delays):
    with_unit = delays_of(built(delay=be.uniform(0.001 * u.second, 3 * u.ms), round_delays=round_delays))
    assert np.array_equal(with_unit, delays_of(built()))
    short = delays_of(built(delay=be.uniform(0.0, 0.2), round_delays=round_delays))
    assert {*np.unique(short[short > 0])} == {1, 2}


def test_long_delays_and_matrices_of_one_synapse_or_none():
    assert delays_of(built(delay=be.uniform(100, 200))).max() > 1900
    one, none = np.zeros(SHAPE), np.zeros(SHAPE)
    one[2, 3] = 1
    for backend in ("interpreted", "numba", "jax"):
        assert 10 <= delays_of(built(one, backend=backend))[2, 3] <= 30
        assert not delays_of(built(none, backend=backend)).any()


@pytest.mark.parametrize(
    "connect", [be.connect.all_to_all(weight=DENSE + 1), be.connect.one_to_one(weight=np.ones(30))]
)
def test_weights_that_are_given_in_an_array_may_have_drawn_delays(connect):
    a = be.Population("a", 30, relay)
    b = be.Population("b", 20 if connect.kind == "all_to_all" else 30, leaky, {"v": 0.0})
    network = be.Network([a, b], [be.Projection(a, b, connect, into="syn", delay=be.uniform(1, 3))])
    found = network.build(seed=1, backend="interpreted").connections("a->b.syn")
    assert 0.9 < found.delays.min() < found.delays.max() < 3.1
