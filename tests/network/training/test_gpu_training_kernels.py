# SPDX-License-Identifier: Apache-2.0
"""Kernels of training on a real GPU: the bits of the interpreter forward, and the gradients of JAX backward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trained import (
    adaptive,
    check_doubtful_samples,
    check_largest_sums,
    cotangents_of,
    differences,
    equal,
    inputs_of,
    interpreted,
    layer_of,
    layers_of,
    leaky,
    noisy,
    readout,
    run_layers,
    synapse,
)

from brainevent.network.surrogate import fast_sigmoid
from brainevent.network.training.gpu.device import gpu
from brainevent.network.training.gpu.halves import times

pytestmark = pytest.mark.gpu

CASES = [
    (leaky, 256, 32, {}),
    (leaky, 100, 7, {}),
    (leaky, 384, 20, {}),
    (leaky, 512, 64, {"wanted": []}),
    (leaky, 1024, 32, {"wanted": []}),
    (leaky, 1024, 256, {}),
    (leaky, 1200, 16, {"wanted": []}),
    (adaptive, 200, 9, {"delay": 3, "shown": ("v", "a")}),
    (adaptive, 640, 40, {}),
    (synapse, 512, 32, {}),
    (noisy, 300, 10, {}),
    (readout, 20, 256, {"into": None, "shown": ("v",)}),
]


@pytest.mark.parametrize(("rule", "neurons", "batch", "how"), CASES)
def test_steps_have_the_bits_of_the_interpreter_and_gradients_are_those_of_jax(rule, neurons, batch, how):
    layer = layer_of(rule, neurons, **how)
    inputs = inputs_of(layer, 20, batch)
    found, expected, angles = differences(layer, gpu(), inputs, cotangents_of(layer, inputs))
    equal(found, interpreted(layer, inputs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.spikes, theirs.spikes)
    assert max(angles.values()) < 1e-6, angles


# Populations, links and samples; and whether gradients are precise.
TOGETHER = {
    "delays and receptors": ([(synapse, 200, {})], [(0, 0, "syn", 1), (0, 0, "other", 3), (0, 0, "syn", 2)], 20, False),
    "five delays": ([(leaky, 256, {"wanted": []})], [(0, 0, "syn", delay) for delay in range(1, 6)], 16, True),
    "excitation and inhibition": (
        [(synapse, 768, {}), (synapse, 192, {})],
        [(0, 0, "syn", 1), (0, 1, "syn", 1), (1, 0, "other", 1), (1, 1, "other", 1)], 32, False,
    ),
    "three populations": (
        [(leaky, 150, {}), (noisy, 64, {"wanted": []}), (synapse, 70, {"shown": ("pause", "i")})],
        [(0, 1, "syn", 1), (1, 2, "other", 3), (2, 0, "syn", 1), (2, 2, "syn", 2), (0, 0, "syn", 2)], 40, False,
    ),
    "precise": ([(adaptive, 256, {})], [(0, 0, "syn", 1)], 9, True),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_delays_receptors_and_populations_run_together(name):
    populations, links, batch, precise = TOGETHER[name]
    layers = layers_of(populations, links, precise=precise)
    inputs = inputs_of(layers, 10, batch, drive=0.6)
    found, expected, angles = differences(layers, gpu(), inputs, cotangents_of(layers, inputs))
    equal(found, interpreted(layers, inputs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.spikes, theirs.spikes)
        assert 0.01 < np.mean(ours.spikes) < 0.5
    assert max(angles.values()) < (1e-9 if precise else 1e-6), angles


def test_sums_of_the_largest_weights_of_three_planes_are_rounded_once():
    check_largest_sums(gpu())


@pytest.mark.parametrize(("neurons", "batch"), [(256, 256), (1024, 33)])
def test_spikes_of_doubtful_samples_are_nan(neurons, batch):
    check_doubtful_samples(gpu(), neurons, batch)


@pytest.mark.parametrize(("neurons", "batch"), [(256, 256), (1024, 256), (1024, 32)])
def test_two_runs_have_the_same_bits(neurons, batch):
    layer = layer_of(adaptive, neurons)
    inputs = jax.tree.map(jnp.asarray, inputs_of(layer, 20, batch))
    cotangents = cotangents_of(layer, inputs)
    runs = [jax.vjp(lambda inputs: run_layers(layer, gpu(), inputs), inputs)[1](cotangents) for _ in range(2)]
    equal(*runs)


def test_adjoints_beyond_16_bits_become_nan():
    surrogate = fast_sigmoid(1e-3)
    layer = layer_of(leaky, 256, surrogate=surrogate)
    inputs = inputs_of(layer, 80, 4, strength=1.5)
    given = jax.tree.map(jnp.asarray, inputs)
    found = jax.vjp(lambda inputs: run_layers(layer, gpu(), inputs), given)[1](cotangents_of(layer, inputs))[0]
    currents = found.layers[0].currents[0]
    finite = np.isfinite(currents).all((0, 2))
    assert finite[-1]
    assert np.isnan(currents[:, 0]).all()
    assert (np.diff(finite.astype(int)) >= 0).all()
    assert np.isnan(found.weights[0]).any()


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e20])
@pytest.mark.parametrize("delay", [0, 2])
def test_products_of_spikes_have_the_digits_that_jax_keeps(size, delay):
    """Weights of any unit, of 700 sources: rows that are no whole number of 16 bytes."""
    random = np.random.default_rng(0)
    spikes = (random.random((5, 30, 700)) < 0.1).astype(np.float32)
    matrix = (size * random.normal(size=(700, 33))).astype(np.float32)
    run = lambda matrix: jax.vmap(lambda one: times(one, matrix, delay))(spikes)
    found, back = jax.jit(lambda matrix: jax.vjp(run, matrix))(matrix)
    before = np.pad(spikes[:, : 30 - delay], ((0, 0), (delay, 0), (0, 0))).astype(np.float64)
    np.testing.assert_allclose(found, before @ matrix, rtol=0, atol=20 * size * 2.0**-9)
    of_sums = (random.normal(size=found.shape) * 10.0 ** random.integers(-9, 9, 33)).astype(np.float32)
    (slopes,) = jax.jit(back)(of_sums)
    expected = np.einsum("bti,btj->ij", before, of_sums.astype(np.float64))
    angles = 1 - (slopes * expected).sum(0) / np.linalg.norm(slopes, axis=0) / np.linalg.norm(expected, axis=0)
    assert np.abs(angles).max() < 1e-6
