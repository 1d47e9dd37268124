# SPDX-License-Identifier: Apache-2.0
"""Training with a batch that `jax.shard_map` divides among devices: the gradients of the whole batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import brainevent as be

STEPS, SIZE, BATCH = 12, 6, 4
DRIVE = np.random.default_rng(1).uniform(0, 0.8, (BATCH, STEPS, SIZE)).astype(np.float32)
MESH = Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))


def cell(s, arriving, p):
    v = p.keep * s.v + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def built(backend, plastic=False):
    r = np.random.default_rng(0)
    a, b = (be.Population(name, SIZE, cell, state={"v": 0.0}, params={"keep": 0.9}) for name in "ab")
    hebbian = be.Plasticity(on_post=lambda w, s, pre, post, p: w + 0.01 * pre.x, pre={"x": be.trace(20.0)}, high=2.0)
    rule = {"plasticity": hebbian} if plastic else {}
    projections = [
        be.Projection(a, b, r.uniform(0.1, 0.8, (SIZE, SIZE)), into="syn", delay=2.0, **rule),
        be.Projection(b, b, r.uniform(0, 0.3, (SIZE, SIZE)), into="syn"),
    ]
    return be.Network([a, b], projections, dt=1.0).build(backend=backend, seed=0)


CASES = [("jax", False), pytest.param("jax", True, marks=pytest.mark.thorough), ("numba", False)]
CHUNK = 5  # steps: of a loop over chunks, and of the rest


@pytest.mark.parametrize(("backend", "plastic"), CASES)
def test_a_batch_on_two_devices_has_the_gradient_of_the_whole(backend, plastic):
    sim = built(backend, plastic)
    params = {"b->b.syn": jnp.asarray(sim.params["b->b.syn"]), "b": {"keep": jnp.float32(0.9)}}

    def loss(params, drive):
        def of(x):
            record = ["b.v", "b.counts", "b.spikes"]
            out = be.simulate(sim, sim.state, params, STEPS, {"a.syn": x}, record, checkpoint_every=CHUNK)[1]
            return (out["b.v"] ** 2).mean() + 0.1 * out["b.counts"].sum()

        return jax.vmap(of)(drive).mean()

    parted = jax.shard_map(
        lambda *given: jax.lax.pmean(loss(*given), "batch"), mesh=MESH, in_specs=(P(), P("batch")), out_specs=P()
    )
    expected = jax.jit(jax.value_and_grad(loss))(params, DRIVE)
    found = jax.jit(jax.value_and_grad(parted))(params, DRIVE)
    assert np.abs(expected[1]["b->b.syn"]).max() > 1e-3
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7), found, expected)
