# SPDX-License-Identifier: Apache-2.0
"""Spikes with values through plastic synapses on a real GPU, beside the interpreter and the CPU, bit for bit."""

import mixed_networks
import numpy as np
import pytest
import synapse_rules
import test_plastic_graded_gpu as pretended
from beside_interpreter import compare, equal
from hypothesis import given, settings
from hypothesis import strategies as st
from plastic_networks import graded

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

DELAYS = [None, 0.2, be.uniform(0.4, 0.9), be.uniform(0.1, 0.9), 1.5]


@pytest.mark.parametrize("part", range(5))
@settings(max_examples=4, deadline=None)
@given(mixed_networks.networks(), st.sampled_from([1, 3, 132]), st.sampled_from([None, pretended.SMALL]), st.data())
def test_random_networks(part, net, blocks, shared_bytes, data):
    plan = synapse_rules.plan_of(net, 1)
    wanted, inputs = data.draw(mixed_networks.wishes(plan, 24))
    compare(CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes), (5, 19), wanted, inputs)


@pytest.mark.parametrize("blocks", [1, 3, 132])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_it_equals_the_interpreter(where, delay, blocks):
    plan = synapse_rules.plan_of(graded(where, delay, (300, 200), fixed=True), 1)
    compare(CudaEngine(plan, blocks=blocks), (1, 9, 190), pretended.WANTED)


@pytest.mark.parametrize("delay", [0.2, 1.5])
def test_a_value_out_of_range_stops_the_run_after_its_step(delay):
    pretended.check_value_out_of_range(delay, lambda plan: CudaEngine(plan, blocks=3))


def test_terminals_whose_synapses_learn_equal_the_cpu():
    """Depressing terminals with plastic synapses, drawn on the GPU; a state goes to the CPU and back."""
    cells = be.models.lif_exponential("cells", 3000, v=be.uniform(-60, -50))
    terminals = be.models.tsodyks_markram("terminals", 3000, use=0.3, tau_recover=50.0, tau_facilitate=20.0)
    rules = be.plasticity.stdp(w_max=0.6)
    connect = be.connect.out_degree(100, weight=be.uniform(0.0, 0.6))
    net = be.Network(
        [cells, terminals],
        [
            be.Projection(cells, terminals, be.connect.one_to_one(weight=1.0), into="spikes"),
            be.Projection(terminals, cells, connect, "exc", be.uniform(0.3, 3.0), "learn", rules),
        ],
    )
    cpu, gpu = NumbaEngine(build_plan(net, seed=1, parts=4)), CudaEngine(build_plan(net, seed=1))
    before, wanted = gpu.state.synapses["learn"]["w"], Wanted((), ("cells", "terminals"))
    for engine in (cpu, gpu):
        engine.run(150, wanted, {})
    equal(gpu.state, cpu.state)
    gpu.load(cpu.state)
    records = [engine.run(150, wanted, {}) for engine in (cpu, gpu)]
    for name in ("cells", "terminals"):
        np.testing.assert_array_equal(*(record.counts[name] for record in records))
    equal(gpu.state, cpu.state)
    assert records[0].counts["terminals"].sum() > 500
    assert np.mean(gpu.state.synapses["learn"]["w"] != before) > 0.1
