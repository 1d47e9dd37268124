# SPDX-License-Identifier: Apache-2.0
"""Spikes with values through plastic synapses in the engine for GPUs, on a pretend one: the bits of the interpreter."""

import jax.numpy as jnp
import mixed_networks
import numpy as np
import pytest
import synapse_rules
import test_plastic_network_gpu as pretended
from beside_interpreter import compare, equal, stop_alike
from hypothesis import given, settings
from hypothesis import strategies as st
from plastic_networks import graded, network, triplet
from ptx import AS_WRITTEN, ptx_of

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Wanted

engine_of, SMALL = pretended.engine_of, pretended.SMALL
WANTED = Wanted(("a", "b"), (), ("b",), {})
CASES = [  # blocks; and whether there are fixed synapses, too
    ("axon", None, 1, False),
    ("axon", be.uniform(0.1, 0.9), 3, True),
    ("axon", 1.5, 5, True),
    ("dendrite", be.uniform(0.1, 0.9), 3, True),
]


@pytest.mark.parametrize(("where", "delay", "blocks", "fixed"), CASES)
def test_it_equals_the_interpreter(where, delay, blocks, fixed):
    engine = engine_of(synapse_rules.plan_of(graded(where, delay, fixed=fixed), 1), blocks)
    before = engine.state.synapses["ab"]["w"]
    records = compare(engine, (1, 9, 60), WANTED)
    assert sum(record.spikes["a"][0].size for record in records) > 20
    assert np.mean(before != engine.state.synapses["ab"]["w"]) > 0.5


@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, most):
    """In registers, several a thread, or in memory; spikes reach more synapses than the queue holds."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    net = graded("axon", 0.2, (1500, 15))
    engine = engine_of(synapse_rules.plan_of(net, 1), 1, SMALL if most == 0 else None)
    assert bool(engine.shape.structure.cells) == (most > 0)
    assert not engine.shape.structure.in_registers
    compare(engine, (12,), WANTED)


def test_a_state_goes_from_engine_to_engine():
    """Values that are on their way are in the state."""
    for where in ("axon", "dendrite"):
        plans = [synapse_rules.plan_of(graded(where, be.uniform(0.1, 0.9)), parts) for parts in (1, 3)]
        whole, state = Interpreted(plans[0]), Interpreted(plans[0]).state
        whole.run(40, WANTED, {})
        for engine, steps in ((engine_of(plans[0], 3), 13), (NumbaEngine(plans[1]), 9), (engine_of(plans[0], 2), 18)):
            engine.load(state)
            engine.run(steps, WANTED, {})
            state = engine.state
        equal(state, whole.state)


def healing(s, arriving, p):
    """Send a value that is out of range once, after which states are finite again."""
    n = s.n + 1
    return s.replace(n=n, u=1.0), {"spike": n % 3 == 1, "value": jnp.where(n == 7, 5.0, 0.5)}


def check_value_out_of_range(delay, engine_of):
    """Check that a run stops after the step of such a value, and that the state is that after it."""
    net = network(triplet("axon"), delay)
    a, c = net.populations[0], be.Population("c", 3, healing, {"n": 0, "u": 0.0}, value_range=(0.0, 1.0))
    own = be.Projection(c, a, be.connect.prob(1.0, weight=0.1), "syn", delay, "ca", triplet("axon"))
    plan = synapse_rules.plan_of(be.Network([*net.populations, c], [*net.projections, own], dt=0.1), 1)
    stop_alike(plan, engine_of(plan), "after step 6; either its spike had a value outside", WANTED)


@pytest.mark.parametrize("delay", [0.2, 1.5])
def test_a_value_out_of_range_stops_the_run_after_its_step(delay):
    """However late spikes arrive, and though nothing is wrong any more a step later."""
    check_value_out_of_range(delay, engine_of)


@pytest.mark.thorough  # each example compiles a kernel
@settings(max_examples=30)
@given(mixed_networks.networks(), st.sampled_from([1, 2, 5, 8]), st.sampled_from([None, SMALL]), st.data())
def test_many_random_networks(net, blocks, shared_bytes, data):
    plan = synapse_rules.plan_of(net, 1)
    wanted, inputs = data.draw(mixed_networks.wishes(plan, 24))
    compare(engine_of(plan, blocks, shared_bytes), (5, 19), wanted, inputs)


def test_the_text_compiles_for_gpus():
    plan = synapse_rules.plan_of(graded("axon", be.uniform(0.4, 0.9)), 1)
    engine = engine_of(plan)
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure, None, engine.plastic.text), "--std=c++17", AS_WRITTEN)
    for word in ("fma.", "approx", ".local"):
        assert word not in ptx
