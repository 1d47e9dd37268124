# SPDX-License-Identifier: Apache-2.0
"""Delays between two whole numbers: the weights of both, and gradients that are the difference of both."""

import jax
import jax.numpy as jnp
import numpy as np

import brainevent as be

LONGEST, STEPS = 11, 25


def spiking(s, arriving, p):
    return s, arriving.given > 0


def adding(s, arriving, p):
    return s.replace(v=0.7 * s.v + arriving.syn), False


def network(delay=None):
    """Return a network with one delay for each pair; without, with a projection for each delay."""
    a, b = be.Population("a", 5, spiking), be.Population("b", 3, adding, state={"v": 0.0})
    how = be.connect.all_to_all(weight=0.5)
    if delay is not None:
        return be.Network([a, b], [be.Projection(a, b, how, into="syn", delay=delay)], dt=1.0)
    paths = [be.Projection(a, b, how, into="syn", delay=float(k), name=f"{k}") for k in range(1, LONGEST + 1)]
    return be.Network([a, b], paths, dt=1.0)


def test_gradients_by_delays_are_differences_of_neighbours():
    rng = np.random.default_rng(0)
    inputs = {"a.given": (rng.random((STEPS, 5)) < 0.3).astype(np.float32)}
    sim, start = network().build(backend="jax"), rng.integers(2, LONGEST - 1, (5, 3))

    def total(delays):
        weights = {f"{k}": 0.5 * jnp.maximum(0, 1 - jnp.abs(delays - k)) for k in range(1, LONGEST + 1)}
        return be.simulate(sim, sim.state, weights, STEPS, inputs, "b.v")[1]["b.v"][-6:].sum()

    def exact(delays):
        built = network(np.float64(delays)).build(backend="interpreted")
        return built.run(STEPS, "b.v", inputs)["b.v"][-6:].sum()

    np.testing.assert_allclose(total(jnp.float32(start)), exact(start), rtol=1e-5)
    slopes = jax.jit(jax.grad(total))(start + np.float32(0.4))
    for i, j in ((0, 0), (2, 1), (4, 2)):
        later = start + (np.arange(5)[:, None] == i) * (np.arange(3) == j)
        np.testing.assert_allclose(slopes[i, j], exact(later) - exact(start), rtol=1e-3, atol=1e-4)
    assert np.count_nonzero(slopes) > 10
