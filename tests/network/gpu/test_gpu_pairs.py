# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: synapses that functions of both neurons decide, the same as on a CPU."""

import jax.numpy as jnp
import numpy as np
import pytest
import test_network_pairs as described
from laid_rows import rows_of

import brainevent as be
from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.plan.build import build_plan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning"),
]
pytest.importorskip("cuda.bindings.nvrtc")
VALUES = list(zip(described.WEIGHTS, [*described.DELAYS, None], strict=True))
CASES = [*((kind, *VALUES[2]) for kind in described.KINDS), *(("near", *values) for values in VALUES)]


@pytest.mark.parametrize(("kind", "weight", "delay"), CASES)
def test_the_gpu_draws_what_the_host_draws(kind, weight, delay):
    size = 90 if kind == "all_to_all" else 3000
    cells = described.population("cells", size)
    how = described.KINDS[kind](weight=weight, self_connections=False)
    network = described.between(cells, cells, how, delay=delay)
    theirs = build_plan(network, seed=7)
    ours = build_plan(network, seed=7, measure=Drawing(cuda_device()))
    assert ours.projections == theirs.projections
    (how_ours, found), (how_theirs, expected) = (rows_of(plan, 3, cuda_device()) for plan in (ours, theirs))
    assert how_ours == how_theirs
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["p > 1", "NaN", "late", "NaN weight", "NaN delay"])
def test_values_that_are_wrong_name_the_pair(name):
    changed, message = described.WRONG[name]
    network = described.wrong_network(changed)
    assert message in described.failing(network, measure=Drawing(cuda_device()))


def test_a_network_runs_as_on_the_cpu():
    spikes = []
    for backend in ("numba", "cuda"):
        cells = described.population("cells", 20_000)
        near = lambda pre, post: jnp.where(described.squared(pre, post) < 0.001, 0.1, 0)
        late = lambda pre, post: 1 + jnp.sqrt(described.squared(pre, post)) / 0.02
        network = described.between(cells, cells, be.connect.prob(near, weight=1.2), delay=late)
        sim = network.build(seed=5, backend=backend)
        kick = np.zeros((1, 20_000), np.float32)
        kick[0, :200] = 2
        sim.run(1, inputs={"cells.syn": kick})
        result = sim.run(60, record=["cells.spikes", "cells.v"])
        spikes.append((result["cells.spikes"].counts, result["cells.v"]))
    assert spikes[0][0].sum() > 1000
    for cpu, gpu in zip(*spikes, strict=True):
        np.testing.assert_array_equal(cpu, gpu)
