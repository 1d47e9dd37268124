# SPDX-License-Identifier: Apache-2.0
"""Areas whose synapses follow from tables: on pretended and on real GPUs, the same bits as on a CPU."""

import numpy as np
import pytest
from gpu_on_cpu import PretendDevice
from several_on_cpu import several_of
from test_network_grouped import joined

import brainevent as be
from brainevent.network.gpu.cuda_device import cuda_device, number_of_gpus
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from examples.networks import areas

RECORD = [f"{name}.counts" for name in areas.NAMES]


@pytest.fixture(scope="module")
def small():
    """Return a small network of areas, and how often each neuron spikes on a CPU."""
    network = areas.network(0.002)
    return network, network.build(seed=3, backend="numba").run(500, record=RECORD)


@pytest.mark.thorough
@pytest.mark.parametrize("count", [2, 4])
def test_pretended_gpus_have_the_bits_of_a_cpu(small, count):
    network, expected = small
    plan = build_plan(network, seed=3, measure=Drawing(PretendDevice()))
    found = several_of(plan, count, 2).run(500, Wanted(counts=areas.NAMES), {})
    for name in areas.NAMES:
        np.testing.assert_array_equal(found.counts[name], expected[f"{name}.counts"])


@pytest.mark.gpu
@pytest.mark.parametrize("delay", [0.7, be.normal(1.5, 0.75), lambda pre, post: 0.1 + pre.x / 9])
def test_a_gpu_draws_what_the_host_draws(delay):
    network = joined(weight=be.normal(87.8, 8.78, low=0), delay=delay)
    theirs, ours = build_plan(network, seed=5), build_plan(network, seed=5, measure=Drawing(cuda_device(0)))
    assert ours.projections == theirs.projections
    assert ours.loads == theirs.loads


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 2, 4])
def test_gpus_have_the_bits_of_a_cpu(small, count):
    if number_of_gpus() < count:
        pytest.skip(f"it needs {count} GPUs")
    network, expected = small
    found = network.build(seed=3, backend="cuda", devices=count).run(500, record=RECORD)
    for name in RECORD:
        np.testing.assert_array_equal(found[name], expected[name])
