# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses on a real GPU, beside the interpreter and the CPU, bit for bit."""

import dataclasses

import numpy as np
import pytest
import synapse_rules
import test_plastic_network_gpu as pretended
from beside_interpreter import as_tree, compare, equal
from hypothesis import given, settings
from hypothesis import strategies as st
from plastic_networks import ALL, both_places, mixed, network, triplet

import brainevent as be
from benchmarks.probes.network_plastic import network as of_pairs
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from examples.networks.reward import network as rewarded

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

SMALL = pretended.SMALL


@pytest.mark.parametrize("part", range(8))  # each takes minutes: compilers run for every rule
@settings(max_examples=5, deadline=None)
@given(synapse_rules.networks(), st.sampled_from([1, 3, 16, 132]), st.sampled_from([None, SMALL]), st.data())
def test_random_rules(part, net, blocks, shared_bytes, data):
    plan = synapse_rules.plan_of(net, 1)
    wanted, inputs = data.draw(synapse_rules.wishes(plan, 24))
    compare(CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes), (5, 19), wanted, inputs)


@pytest.mark.parametrize("blocks", [1, 3, 16, 132])
@pytest.mark.parametrize("delay", [None, 0.2, be.uniform(0.4, 0.9), be.uniform(0.1, 0.9)])
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_all_that_rules_may_use(where, delay, blocks):
    plan = synapse_rules.plan_of(network(triplet(where), delay, (300, 200), 0.1), 1)
    samples = {"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5]), of_synapses=True)}
    compare(CudaEngine(plan, blocks=blocks), (1, 9, 190), dataclasses.replace(ALL, samples=samples))


@pytest.mark.parametrize(("where", "blocks"), [("axon", 3), ("dendrite", 1)])
def test_graded_spikes_and_couplings_beside(where, blocks):
    """All three into one receptor, and from and to neurons whose spikes have values."""
    engine = CudaEngine(synapse_rules.plan_of(mixed(where), 1), blocks=blocks)
    before = engine.state.synapses
    compare(engine, (1, 9, 40), Wanted(("a", "b", "c"), (), (), {}))
    for name, synapses in engine.state.synapses.items():
        assert np.mean(before[name]["w"] != synapses["w"]) > 0.5


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("delay", [0.1, 0.7])
def test_delays_at_both_places(delay, blocks):
    compare(CudaEngine(synapse_rules.plan_of(both_places(delay), 1), blocks=blocks), (1, 59), ALL)


@pytest.mark.parametrize(("n", "fan", "steps"), [(1_000, 100, 20_000), (10_000, 1_000, 2_000), (100_000, 100, 1_000)])
def test_pairs_equal_the_cpu(n, fan, steps):
    """Over numbers of blocks, splits of a run, and a state that goes to the CPU and back."""
    plans = [build_plan(of_pairs(n, fan, plastic=True), seed=1, parts=parts, warn=False) for parts in (1, 2)]
    cpu, wanted = NumbaEngine(plans[1]), Wanted(("cells",), ("cells",))
    expected = as_tree(cpu.run(steps, wanted, {}))
    assert expected["spikes"]["cells"][0].size > 3 * n * steps * 1e-4
    for blocks in (132, 100):
        gpu = CudaEngine(plans[0], blocks=blocks)
        equal(as_tree(gpu.run(steps, wanted, {})), expected)
        equal(gpu.state, cpu.state)
    part = steps // 3
    first, second, third = CudaEngine(plans[0]), NumbaEngine(plans[1]), CudaEngine(plans[0], blocks=64)
    first.run(part, Wanted(), {})
    second.load(first.state)
    second.run(part, Wanted(), {})
    third.load(second.state)
    for steps_of_chunk in (1, 7, steps - 2 * part - 8):
        third.run(steps_of_chunk, Wanted(), {})
    equal(third.state, cpu.state)


def test_late_rewards_equal_the_cpu():
    """In one cluster of blocks, with inputs, over parts of a run and many launches."""
    plan, steps = build_plan(rewarded(), seed=1, parts=2, warn=False), 20_000
    rewards = np.zeros((steps, 1), np.float32)
    rewards[::5_000] = 0.5
    given = {("exc", "reward"): rewards, ("inh", "reward"): rewards}
    cpu, gpu, wanted = NumbaEngine(plan), CudaEngine(plan), Wanted(("exc", "inh"), ("exc",))
    assert gpu.units == "one cluster of 16 blocks"
    for _ in range(2):
        equal(as_tree(gpu.run(steps, wanted, given)), as_tree(cpu.run(steps, wanted, given)))
        equal(gpu.state, cpu.state)


def test_a_simulation_is_built_saved_and_swept(tmp_path):
    nets = [of_pairs(2_000, 200, plastic=True).build(seed=1, backend=backend) for backend in ("cuda", "numba")]
    for sim in nets:
        sim.run(500)
        sim.set("cc", plus=0.0)
        sim.run(500)
    equal(nets[0].state, nets[1].state)
    nets[0].save(tmp_path / "day.npz")
    nets[1].load(tmp_path / "day.npz")
    equal(nets[0].state, nets[1].state)
    rates = [sim.sweep(300, "cells.counts", {"cc": {"plus": [0.0, 0.002]}}) for sim in nets]
    for ours, theirs in zip(*rates, strict=True):
        np.testing.assert_array_equal(ours["cells.counts"], theirs["cells.counts"])
    assert "bytes a plastic synapse" in nets[0].report()
