# SPDX-License-Identifier: Apache-2.0
"""Kernels of training on a pretend GPU: the bits of the interpreter forward, and the gradients of JAX backward."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ptx import ptx_of
from trained import (
    Inputs,
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
    steep,
    synapse,
)
from training_on_cpu import PretendGpu

from brainevent.errors import NetworkError
from brainevent.network.training.gpu.calls import Kernels
from brainevent.network.training.gpu.shape import MOST_BLOCKS, layouts, shape_of
from brainevent.network.training.gpu.text import kernel_text
from brainevent.network.training.gpu.weights import (
    backward_weights,
    bits_of,
    forward_weights,
    in_quanta,
    largest_of,
    quantum_of,
)

SHARED = 227 * 1024
ANGLE = 1e-6  # 1 - cosine, at most: numbers of 16 bits are behind gradients

# A rule, neurons, samples, clusters at once, and more; g++ compiles each for some seconds.
QUICK = [
    (leaky, 40, 3, 2, {}),
    (adaptive, 150, 3, 1, {"delay": 2, "shown": ("v",)}),
    (leaky, 128, 3, 2, {}),
    (readout, 21, 5, 3, {"into": None, "shown": ("v",)}),
]
THOROUGH = [
    (leaky, 256, 5, 3, {"wanted": []}),
    (leaky, 300, 9, 1, {}),
    (leaky, 650, 4, 1, {"delay": 3}),
    (adaptive, 128, 11, 1, {"shown": ("a", "v")}),
    (synapse, 200, 3, 3, {}),
    (noisy, 70, 5, 1, {}),
    (synapse, 33, 7, 1, {"into": None}),
]


@pytest.mark.parametrize(
    ("rule", "neurons", "batch", "clusters", "how"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.thorough) for case in THOROUGH)],
)
def test_steps_have_the_bits_of_the_interpreter_and_gradients_are_those_of_jax(rule, neurons, batch, clusters, how):
    layer = layer_of(rule, neurons, **how)
    inputs = inputs_of(layer, 6, batch)
    found, expected, angles = differences(layer, PretendGpu(clusters), inputs, cotangents_of(layer, inputs))
    equal(found, interpreted(layer, inputs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.spikes, theirs.spikes)
        assert rule is readout or 0 < np.mean(ours.spikes) < 0.3
    assert max(angles.values()) < ANGLE, angles


# Populations, links, samples and clusters at once.
TOGETHER = {
    "two populations": (
        [(adaptive, 40, {"shown": ("v",)}), (synapse, 21, {"shown": ("pause", "i")})],
        [(0, 1, "syn", 2), (1, 0, "syn", 1), (0, 0, "syn", 1), (1, 1, "other", 1)], 3, 2,
    ),
}  # fmt: skip
OTHERS_TOGETHER = {
    "delays and receptors": ([(synapse, 40, {})], [(0, 0, "syn", 1), (0, 0, "other", 3), (0, 0, "syn", 2)], 3, 2),
    "several blocks": ([(synapse, 200, {})], [(0, 0, "other", 1), (0, 0, "syn", 4)], 9, 1),
    "many delays": ([(leaky, 33, {})], [(0, 0, "syn", delay) for delay in (1, 2, 3, 5, 8)], 2, 2),
    "three populations": (
        [(leaky, 150, {}), (noisy, 64, {"wanted": []}), (synapse, 70, {})],
        [(0, 1, "syn", 1), (1, 2, "other", 3), (2, 0, "syn", 1), (2, 2, "syn", 2), (0, 0, "syn", 2)], 11, 1,
    ),
    "many samples": (
        [(leaky, 90, {"shown": ("v",)}), (leaky, 30, {})],
        [(0, 0, "syn", 1), (0, 1, "syn", 1), (1, 0, "syn", 1), (1, 1, "syn", 1)], 40, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("populations", "links", "batch", "clusters"),
    [
        *(pytest.param(*case, id=name) for name, case in TOGETHER.items()),
        *(pytest.param(*case, id=name, marks=pytest.mark.thorough) for name, case in OTHERS_TOGETHER.items()),
    ],
)
def test_delays_receptors_and_populations_run_together(populations, links, batch, clusters):
    layers = layers_of(populations, links)
    inputs = inputs_of(layers, 9, batch, drive=0.8)
    found, expected, angles = differences(layers, PretendGpu(clusters), inputs, cotangents_of(layers, inputs))
    equal(found, interpreted(layers, inputs))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.spikes, theirs.spikes)
        assert 0.01 < np.mean(ours.spikes) < 0.5
    assert len(angles) >= len(links)
    assert max(angles.values()) < ANGLE, angles


PRECISE = 1e-10  # 1 - cosine: numbers of 16 bits, twice as many as in float16


@pytest.mark.parametrize(
    ("populations", "links", "batch", "clusters"),
    [
        pytest.param([(leaky, 40, {})], [(0, 0, "syn", 1)], 3, 2, id="one"),
        *(pytest.param(*case, id=name, marks=pytest.mark.thorough) for name, case in TOGETHER.items()),
        *(pytest.param(*case, id=name, marks=pytest.mark.thorough) for name, case in OTHERS_TOGETHER.items()),
    ],
)
def test_precise_gradients_are_closer_to_those_of_jax(populations, links, batch, clusters):
    layers = layers_of(populations, links, precise=True)
    inputs = inputs_of(layers, 9, batch, drive=0.8)
    found, _, angles = differences(layers, PretendGpu(clusters), inputs, cotangents_of(layers, inputs))
    equal(found, interpreted(layers, inputs))
    assert max(angles.values()) < PRECISE, angles


def small(inputs, k, factor):
    """Return inputs whose weights of one link, and the currents there, are multiplied."""
    [given] = inputs.layers
    weights = [x * factor if place == k else x for place, x in enumerate(inputs.weights)]
    return Inputs([replace(given, currents=[given.currents[0] * factor, given.currents[1]])], weights)


@pytest.mark.thorough
@pytest.mark.parametrize(("neurons", "over"), [(128, 1), (129, 0)])
def test_currents_and_cotangents_are_overwritten_unless_some_neurons_fill_a_block(neurons, over):
    layer = layer_of(leaky, neurons)
    inputs = inputs_of(layer, 3, 2)
    given, cotangents = (jax.tree.map(jnp.asarray, x) for x in (inputs, cotangents_of(layer, inputs)))
    back = lambda given: jax.vjp(lambda given: run_layers(layer, PretendGpu(2), given), given)[1](cotangents)
    calls = [e for e in jax.make_jaxpr(back)(given).eqns if e.primitive.name == "native_call"]
    assert [len(e.params["aliases"]) for e in calls] == [over, over]
    for call in calls:
        for one, other in call.params["aliases"]:
            assert call.invars[one].aval == call.params["outs"][other] == call.outvars[other].aval


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**-50])
def test_receptors_may_have_very_different_units(factor):
    """Also where cotangents of what arrives are beyond 16 bits, or weights too small to matter."""
    layers = layers_of([(steep, 40, {})], [(0, 0, "syn", 1), (0, 0, "other", 1)])
    inputs = small(inputs_of(layers, 9, 3, drive=0.5), 1, np.float32(factor))
    found, _, angles = differences(layers, PretendGpu(2), inputs, cotangents_of(layers, inputs))
    equal(found, interpreted(layers, inputs))
    assert len(angles) > 4
    assert max(angles.values()) < ANGLE, angles


def test_adjoints_beyond_16_bits_become_nan():
    layer = layer_of(leaky, 40)  # the text of the first quick case
    inputs = inputs_of(layer, 6, 3, drive=0.01, strength=2e5)  # no neuron spikes, and adjoints grow from step to step
    given = jax.tree.map(jnp.asarray, inputs)
    outputs, pull = jax.vjp(lambda inputs: run_layers(layer, PretendGpu(2), inputs), given)
    found = pull(cotangents_of(layer, inputs))[0]
    assert not np.any(outputs[0].spikes)
    [one] = found.layers
    finite = np.isfinite(one.currents[0]).all((0, 2))
    assert finite[-1]
    assert np.isnan(one.currents[0][:, 0]).all()
    assert (np.diff(finite.astype(int)) >= 0).all()
    assert np.isnan(one.states[0]).all()


def test_weights_that_are_not_finite_are_not_hidden():
    layer = layer_of(leaky, 40)
    inputs = inputs_of(layer, 6, 3)
    inputs.weights[0][3, 5] = np.nan
    [outputs] = run_layers(layer, PretendGpu(2), inputs)
    assert np.isnan(outputs.states[0]).all()


def test_spikes_of_doubtful_samples_are_nan():
    check_doubtful_samples(PretendGpu(2), 40, 3)


def test_batches_of_batches_are_as_one_after_the_other():
    layer, device = layer_of(leaky, 40), PretendGpu(2)
    several = [inputs_of(layer, 6, 3, seed) for seed in range(2)]

    def loss(inputs):
        return jnp.sum(run_layers(layer, device, inputs)[0].spikes * jnp.cos(jnp.arange(40.0)))

    stacked = jax.tree.map(lambda *x: jnp.stack(x), *several)
    found = jax.jit(jax.vmap(jax.grad(loss)))(stacked)
    expected = jax.tree.map(lambda *x: jnp.stack(x), *(jax.grad(loss)(jax.tree.map(jnp.asarray, x)) for x in several))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)  # sums over samples have any order


@pytest.mark.parametrize("neurons", [1, 20, 64, 100, 256, 300, 512, 640, 1000, 1024, 1200])
@pytest.mark.parametrize("batch", [1, 32, 256, 3000])
def test_every_size_has_a_shape(neurons, batch):
    at_once = lambda blocks: max(1, 132 // blocks - 1)
    for layer in (layer_of(leaky, neurons), layer_of(adaptive, neurons, into=None)):
        for way in ("forward", "backward"):
            shape = shape_of(layer, way, batch, at_once, SHARED)
            assert shape.wide >= neurons
            assert shape.shared(layer) <= SHARED
            assert shape.clusters(batch) * shape.samples >= batch
            assert shape.samples * shape.own % 256 == 0
            assert shape.wide % (32 * shape.parts) == 0 or not layer.has_product
            assert not layer.has_product or shape.blocks <= MOST_BLOCKS


def test_one_wave_of_clusters_is_enough_where_samples_fit():
    at_once = {1: 132, 4: 26, 16: 7}.__getitem__
    for neurons, batch, samples in [(256, 256, 2), (256, 32, 1), (1024, 256, 40), (1024, 32, 8), (512, 256, 16)]:
        shape = shape_of(layer_of(leaky, neurons, wanted=[]), "forward", batch, at_once, SHARED)
        assert shape.samples == samples
        assert shape.clusters(batch) <= at_once(shape.blocks)


def test_more_neurons_than_a_cluster_has_room_for_are_refused():
    kernels = Kernels(layer_of(leaky, 3000), 8, PretendGpu())
    words = r'one kernel has no room for 3000 neurons of leaky that project to each other; build .* backend="jax"'
    with pytest.raises(NetworkError, match=words):
        kernels.shape("forward")


@pytest.mark.parametrize(("neurons", "precise"), [(100, False), (256, True), (300, False), (1024, True)])
def test_weights_are_in_the_order_of_tensor_cores(neurons, precise):
    """And in planes of 8 bits, of which weights are the sums."""
    layer = replace(layer_of(leaky, neurons), precise=precise)
    own, [blocks] = layouts(layer, "forward")[0]
    shape = shape_of(layer, "forward", 32, lambda blocks: 8, SHARED)
    assert (shape.own, shape.blocks) == (own, blocks)
    r = np.random.default_rng(0)
    weights = jnp.float32(r.normal(0, 0.3, (neurons, neurons)))
    in_units, [quantum] = in_quanta(layer, [weights], [None])
    whole = np.zeros((shape.wide, shape.wide), np.int64)
    whole[:neurons, :neurons] = np.round(np.float64(weights) / float(quantum))
    assert 2 ** (bits_of(layer.planes) - 2) < np.abs(whole).max() <= largest_of(layer.planes)
    planes = np.asarray(forward_weights(layer, in_units, shape), np.int64)
    back = replace(shape, way="backward")
    coarse = replace(layer, precise=False)
    halves = np.asarray(backward_weights(coarse, in_units, [quantum], [jnp.float32(1)], back), np.float64)
    across, depth = own // 32, shape.wide // shape.parts
    for _ in range(200):
        row, inner = r.integers(0, shape.wide, 2)
        block, tile, part = row // own, row % own // 16, inner // depth
        warp, register = part * across + tile // 2, row % 16 // 8
        k, lane = inner % depth // 32, row % 8 * 4 + inner % 4
        byte = (register + inner % 32 // 4 % 2 * 2) * 4 + inner % 32 // 8
        digits = planes.reshape(blocks, 8, depth // 32, 2, -1, 32, 16)[block, warp, k, tile % 2, :, lane, byte]
        assert digits @ ([2**15, 2**8, 1] if precise else [2**7, 1]) == whole[inner, row]
        k, lane = inner % depth // 16, row % 8 * 4 + inner % 8 // 2
        half = (register + inner % 16 // 8 * 2) * 2 + inner % 2
        found = halves.reshape(blocks, 8, depth // 16, 2, 32, 8)[block, warp, k, tile % 2, lane, half]
        assert found == np.float16(whole[row, inner] * float(quantum))


@pytest.mark.parametrize(("planes", "most"), [(2, 16383), (3, 4194175)])
def test_the_quantum_follows_from_the_largest_weight(planes, most):
    for largest in (1.0, 0.99999, 1e-30, 3e8, most / (most + 1), (most + 1) / 2 ** bits_of(planes)):
        quantum = float(quantum_of(jnp.float32([0.0, -largest]), planes=planes))
        assert np.log2(quantum) % 1 == 0
        assert most // 4 < np.round(np.float32(largest) / quantum) <= most
    assert float(quantum_of(jnp.zeros(3))) > 0
    assert np.isnan(quantum_of(jnp.float32([1.0, np.inf])))


def test_sums_of_the_largest_weights_of_three_planes_are_rounded_once():
    """They are beyond 32 bits, which takes more than 512 neurons."""
    check_largest_sums(PretendGpu(1))


@pytest.mark.parametrize(
    "name", ["two populations", *(pytest.param(x, marks=pytest.mark.thorough) for x in OTHERS_TOGETHER)]
)
def test_the_text_of_several_pieces_compiles_for_gpus(name):
    populations, links, batch, _ = (TOGETHER | OTHERS_TOGETHER)[name]
    layers = layers_of(populations, links, precise=name != "two populations")
    for way in ("forward", "backward"):
        shape = shape_of(layers, way, batch, lambda blocks: 132 // blocks - (blocks > 1), SHARED)
        ptx = ptx_of(kernel_text(layers, shape), "--std=c++17", capability="90a")
        assert ptx.count(".entry") == 1
        assert ("bf16.bf16" in ptx) == (layers.precise and way == "backward")


@pytest.mark.parametrize(
    ("rule", "neurons", "batch", "how"),
    [
        (leaky, 256, 256, {"wanted": []}),
        (adaptive, 1024, 256, {"shown": ("a",)}),
        pytest.param(synapse, 512, 32, {"delay": 2}, marks=pytest.mark.thorough),
        pytest.param(noisy, 1200, 16, {}, marks=pytest.mark.thorough),
        pytest.param(readout, 20, 256, {"into": None, "shown": ("v",)}, marks=pytest.mark.thorough),
    ],
)
def test_the_text_compiles_for_gpus(rule, neurons, batch, how):
    layer = layer_of(rule, neurons, **how)
    at_once = lambda blocks: 132 // blocks - (blocks > 1)
    for way in ("forward", "backward"):
        shape = shape_of(layer, way, batch, at_once, SHARED)
        ptx = ptx_of(kernel_text(layer, shape), "--std=c++17", capability="90a")
        assert f".entry {way}" in ptx
        assert ("mma.sync" in ptx) == layer.has_product
        assert ("multicast::cluster" in ptx) == shape.multicast
