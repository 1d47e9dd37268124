# SPDX-License-Identifier: Apache-2.0
"""Calls for events of targets that wait, and synapses that are late, on a real GPU, bit for bit."""

import dataclasses

import numpy as np
import pytest
import synapse_rules
import test_plastic_deferred as pretended
from beside_interpreter import as_tree, compare, equal
from plastic_networks import ALL, network

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import plastic_deferred
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from examples.networks import hpc

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

SAMPLED = dataclasses.replace(ALL, samples=pretended.SAMPLES)


@pytest.fixture
def small_networks_defer(monkeypatch):
    monkeypatch.setattr(plastic_deferred, "_INDEX", 10**6)
    monkeypatch.setattr(plastic_deferred, "_LEAST_ROW", 0)


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize(
    ("where", "delay", "blocks", "behind"),
    [
        ("axon", be.uniform(0.1, 0.9), 132, 0),
        ("axon", be.uniform(0.5, 0.9), 3, 0),
        ("dendrite", 0.3, 3, 0),
        ("dendrite", be.uniform(0.6, 0.9), 132, 6),
        ("dendrite", 1.5, 1, 15),
        ("dendrite", 2.5, 132, 16),
    ],
)
def test_calls_wait(where, delay, blocks, behind):
    """Rules read a state, a trace of the source and what its spike carried; launches have any length."""
    plan = synapse_rules.plan_of(network(pretended.pairs(where), delay, (300, 200), 0.1), 1)
    engine = CudaEngine(plan, blocks=blocks)
    assert (engine.plastic.layouts["ab"].deferred, engine.plastic.text.behind) == (True, behind)
    before = engine.state.synapses["ab"]
    compare(engine, (1, 2, 17, 180), SAMPLED)
    for name, after in engine.state.synapses["ab"].items():
        assert np.mean(before[name] != after) > 0.5


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_a_launch_ends_before_a_list_is_full(where):
    """Neurons spike in each second step, all at once: so warps deal with several spikes together."""
    engine = CudaEngine(synapse_rules.plan_of(pretended.spiking_often(where, 300), 1), blocks=3)
    assert engine.plastic.layouts["aa"].deferred
    compare(engine, (500,), dataclasses.replace(ALL, spikes=("a",)))


@pytest.mark.parametrize("blocks", [3, 132])
def test_synapses_are_late_whose_calls_do_not_wait(blocks):
    """Since they read a trace of the target, or come at intervals."""

    def up(w, s, pre, post, p):
        return w + 0.02 * pre.x - 0.01 * post.y

    every = (0.7, lambda w, s, pre, post, p: w - 0.01 * w * pre.x - 0.001 * post.y)
    rules = pretended.pairs("dendrite", on_post={"spike": up, "upstate": up}, every=every)
    plan = synapse_rules.plan_of(network(rules, be.uniform(0.6, 0.9), (300, 200), 0.1), 1)
    engine = CudaEngine(plan, blocks=blocks)
    assert (engine.plastic.layouts["ab"].deferred, engine.plastic.text.behind) == (False, 6)
    compare(engine, (1, 2, 17, 100), SAMPLED)


@pytest.mark.parametrize("blocks", [4, 28])
def test_powers_of_weights_equal_the_cpu(blocks):
    """Rows are so long that calls wait; a state goes to the CPU and back."""
    plans = [build_plan(hpc.network(0.1, 0.1), seed=1, parts=parts, warn=False) for parts in (1, 2)]
    gpu, cpu = CudaEngine(plans[0], blocks=blocks), NumbaEngine(plans[1])
    assert (gpu.plastic.layouts["plastic"].deferred, gpu.plastic.text.behind) == (True, 15)
    before = gpu.state.synapses["plastic"]["w"]
    for steps in (3, 997, 2_000):
        records = [as_tree(engine.run(steps, Wanted((), ("exc", "inh")), {})) for engine in (gpu, cpu)]
        equal(*records)
    equal(gpu.state, cpu.state)
    assert np.mean(gpu.state.synapses["plastic"]["w"] != before) > 0.5
    first, second = CudaEngine(plans[0], blocks=blocks + 1), NumbaEngine(plans[1])
    for engine in (first, second):
        engine.load(cpu.state)
        engine.run(100, Wanted(), {})
    equal(first.state, second.state)
