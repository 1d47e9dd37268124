# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: networks fire as they should, and their spikes stay on the device until they are asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from benchmarks.operators.coba import COBA
from benchmarks.operators.cuba import CUBA
from benchmarks.operators.network import DT

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

NETWORKS = pytest.mark.parametrize(
    ("network", "low", "high"), [(COBA, 20.1, 23.0), (CUBA, 5.4, 5.9)], ids=["coba", "cuba"]
)


@NETWORKS
def test_networks_fire_as_they_should(network, low, high):
    found = [network.simulate(seed=seed, unroll=10).rates().mean() for seed in range(5)]
    assert low <= np.mean(found) <= high, found


@NETWORKS
def test_the_kernel_does_what_the_formula_says(network, low, high):
    keys = jax.random.split(jax.random.key(0), 3)
    v, exc, inh, _ = network.start(keys[0], 5000)
    state = (v + 4, exc, inh, jax.random.randint(keys[1], 5000, -2, 3).astype(float))
    arrived = jax.random.poisson(keys[2], 1.0, (10_000,)).astype(float)
    before = [np.asarray(x) for x in state]
    found, expected = (network.update(*state, arrived, **network.weights, backend=b) for b in ("nvrtc", "reference"))
    decided = np.abs(np.asarray(expected[0]) + 50) > 1e-3  # rounding decides on others
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one)[decided], np.asarray(other)[decided], rtol=1e-4)
    for x, earlier in zip(state, before, strict=True):
        np.testing.assert_array_equal(x, earlier)


def test_spikes_stay_on_the_device():
    state, synapses = COBA.prepare(1000)
    with jax.transfer_guard_device_to_host("disallow"):
        _, spikes = jax.block_until_ready(brainevent.record(COBA.step, state, 500, synapses, dt=DT))
    assert spikes.bits.devices().pop().platform == "gpu"
    assert spikes.counts.sum() == int(jnp.sum(spikes.todense()))
