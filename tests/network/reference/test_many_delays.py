# SPDX-License-Identifier: Apache-2.0
"""A projection of many delays is the sum of projections of a few of them: forward, on its way, and in gradients."""

import jax
import jax.numpy as jnp
import numpy as np

import brainevent as be

RNG = np.random.default_rng(0)
SOURCES, TARGETS, LONGEST, STEPS = 30, 20, 40, 50
WEIGHTS = np.where(RNG.random((SOURCES, TARGETS)) < 0.3, RNG.normal(0.1, 0.4, (SOURCES, TARGETS)), 0).astype(np.float32)
DELAYS = RNG.integers(1, LONGEST + 1, WEIGHTS.shape).astype(float)
DRIVE = RNG.normal(0.3, 0.3, (STEPS + 25, SOURCES)).astype(np.float32)
FACTORS = RNG.normal(0, 1, (STEPS + 25, TARGETS)).astype(np.float32)


def leaky(s, arriving, p):
    v = 0.9 * s.v + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def found(groups):
    """Return potentials, gradients, and pending input of a build, of a projection for each group of delays."""
    a, b = (be.Population(name, size, leaky, {"v": 0.0}) for name, size in (("a", SOURCES), ("b", TARGETS)))
    some = {f"w{k}": (k <= DELAYS) & (k + groups > DELAYS) for k in range(1, LONGEST + 1, groups)}
    paths = [
        be.Projection(a, b, np.where(own, WEIGHTS, 0), into="syn", delay=DELAYS, name=name)
        for name, own in some.items()
    ]
    sim = be.Network([a, b], paths, dt=1.0).build(backend="jax", quantum=2.0**-16)

    def run(weights, drive):
        params = {name: jnp.where(own, weights, 0) for name, own in some.items()}
        state, out = be.simulate(sim, sim.state.with_floats(), params, STEPS, {"a.syn": drive[:STEPS]}, "b.v")
        _, later = be.simulate(sim, state, params, 25, {"a.syn": drive[STEPS:]}, "b.v")
        return jnp.concatenate([out["b.v"], later["b.v"]])

    def loss(weights, drive):
        return (run(weights, drive) * FACTORS).sum()

    after, built = be.simulate(sim, sim.state, {}, STEPS, {"a.syn": DRIVE[:STEPS]}, "b.v")
    values = jax.jit(run)(WEIGHTS, DRIVE), *jax.jit(jax.grad(loss, (0, 1)))(WEIGHTS, DRIVE)
    return values, (built["b.v"], after.arriving["b"]["syn"])


def test_many_delays_are_as_a_few_at_a_time():
    """Two programs with derivatives are compiled: three seconds."""
    (values, exact), (expected, expected_exact) = found(LONGEST), found(5)
    for one, other in zip(values, expected, strict=True):
        assert np.abs(other).max() > 0.1
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    for one, other in zip(exact, expected_exact, strict=True):
        assert np.any(other)
        np.testing.assert_array_equal(one, other)
