# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses whose blocks are one cluster and hand each other spikes, on a pretend GPU, bit for bit."""

import dataclasses

import numpy as np
import pytest
import synapse_rules
from beside_interpreter import compare, compare_after_replacing
from gpu_on_cpu import PretendDevice
from lanes_on_cpu import LaneDevice
from plastic_networks import (
    ALL,
    both_places,
    check_all_that_rules_use,
    check_that_a_state_goes_on,
    check_that_a_synapse_is_named,
    network,
    triplet,
)
from ptx import AS_WRITTEN, ptx_of

import brainevent as be
from brainevent.network.gpu import plastic, shape
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from examples.networks.reward import network as rewarded

DELAYS = [None, 0.3, be.uniform(0.1, 0.9)]


def engine_of(plan, blocks=4, device=None, **options):
    return CudaEngine(plan, blocks=blocks, device=device or PretendDevice(16), **options)


def clustered(plan, blocks=4, **options):
    engine = engine_of(plan, blocks, **options)
    assert engine.is_clustered
    assert engine.shape.structure.cluster == blocks
    return engine


def traced(where, *, of_target=False):
    """Return rules that read traces, and perhaps a state of the target."""
    return be.Plasticity(
        on_pre=lambda w, s, pre, post, p: (
            w - 0.03 * post.y + (0.001 * post.v if of_target else 0),
            s.replace(e=0.9 * s.e),
        ),
        on_post=lambda w, s, pre, post, p: (w + 0.02 * pre.x + 0.01 * s.e, s.replace(e=s.e + 0.1)),
        every=(0.7, lambda w, s, pre, post, p: (w - 0.001 * post.v, s)),
        state={"e": 0.0},
        pre={"x": be.trace(20.0)},
        post={"y": be.trace(15.0)},
        low=-0.2,
        high=0.5,
        delay_at=where,
    )


@pytest.mark.parametrize("blocks", [1, 4, 16])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_all_that_rules_may_use(where, delay, blocks):
    """States travel with spikes, so these are read in memory."""
    engine = clustered(synapse_rules.plan_of(network(triplet(where), delay), 1), blocks)
    assert engine.plastic.text.whole == 0
    check_all_that_rules_use(engine)


@pytest.mark.parametrize("of_target", [False, True])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_spikes_are_handed_on_whole(where, delay, of_target):
    """Up to three of a block and step; those that change synapses by traces alone are delivered before they do."""
    engine = clustered(synapse_rules.plan_of(network(traced(where, of_target=of_target), delay, (60, 30)), 1))
    text = engine.plastic.text
    assert (text.whole, text.splits, text.inside) == (3, where == "axon" and not of_target, True)
    samples = {name: Sample("ab", name, 3, np.array([5, 0, 70, 5]), of_synapses=True) for name in ("w", "e")}
    records = compare(engine, (1, 9, 60), dataclasses.replace(ALL, samples=samples))
    assert sum(record.spikes["a"][0].size for record in records) > 100


def often(s, arriving, p):
    """Spike in each third step, all at once, or seldom."""
    return s.replace(n=s.n + 1, v=s.v + arriving.syn), (s.n % 3 == 2) | (s.v > 3)


@pytest.mark.parametrize("size", [20, 700])
@pytest.mark.parametrize("delay", [0.1, 0.2, be.uniform(0.2, 0.9)])
def test_more_spikes_than_are_handed_on(size, delay):
    """Others lie in memory, as do rows for which packets have no room."""
    cells = be.Population("a", size, often, {"n": 0, "v": 0.0})
    links = [be.connect.total(3000, weight=be.uniform(0, 0.1)), be.connect.total(1000, weight=0.01)]
    learning = [
        be.Projection(cells, cells, links[0], "syn", delay, where, traced(where)) for where in ("axon", "dendrite")
    ]
    net = be.Network([cells], [*learning, be.Projection(cells, cells, links[1], "syn", 0.2, "fixed")], dt=0.1)
    (record,) = compare(clustered(synapse_rules.plan_of(net, 1)), (30,), Wanted(("a",), ("a",)))
    assert record.spikes["a"][0].size >= 10 * size


@pytest.mark.parametrize("delay", [0.1, 0.7])
def test_delays_at_both_places(delay):
    compare(clustered(synapse_rules.plan_of(both_places(delay), 1)), (60,), ALL)


def test_two_projections_of_one_source():
    net = network(traced("axon"), 0.1)
    a, b = net.populations
    more = be.Projection(a, a, be.connect.prob(0.2, weight=0.1), "syn", 0.3, "aa", traced("axon"))
    net = be.Network([a, b], [*net.projections, more], dt=0.1)
    compare(clustered(synapse_rules.plan_of(net, 1), 8), (1, 60), ALL)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_states_go_from_engine_to_engine(where):
    """What is on its way is in the state: in a cluster, in blocks without one, and in the interpreter."""
    plan = synapse_rules.plan_of(network(traced(where), be.uniform(0.1, 0.9)), 1)
    without = engine_of(plan, 4, PretendDevice(8, largest_cluster=0))
    engines = (
        (clustered(plan), 13),
        (Interpreted(plan), 9),
        (clustered(plan, 8), 18),
        (without, 19),
        (clustered(plan), 11),
    )
    check_that_a_state_goes_on(plan, engines)


@pytest.mark.parametrize("delay", [None, 0.2, 0.9])
def test_a_launch_ends_after_a_while(monkeypatch, delay):
    """What was handed on is there in the next one."""
    for limit in ("_NANOSECONDS", "_RECORDED"):
        monkeypatch.setattr(f"brainevent.network.gpu.run.{limit}", 1)
    engine = clustered(synapse_rules.plan_of(network(traced("axon"), delay), 1), 2)
    compare(engine, (150,), ALL)
    assert len([launch for launch in engine.device.launches if launch[0] == 2 and launch[1] >= 512]) == 3


def test_parameters_and_weights_are_replaced():
    plan = synapse_rules.plan_of(network(triplet("axon"), 0.3), 1)
    compare_after_replacing(clustered(plan, 2), Interpreted(plan), (10, 20), ALL)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_first_synapse_that_is_not_finite_is_named(where):
    check_that_a_synapse_is_named(where, lambda plan: clustered(plan, 2))


def test_a_gpu_without_room_for_the_cluster():
    """Then blocks send packets through memory, and read lists there."""
    for where in ("axon", "dendrite"):
        plan = synapse_rules.plan_of(network(traced(where), be.uniform(0.1, 0.9)), 1)
        engine = engine_of(plan, 4, PretendDevice(8, largest_cluster=2))
        assert not engine.is_clustered
        assert engine.plastic.clustered
        compare(engine, (1, 9, 40), ALL)


def test_longer_delays_than_are_handed_on(monkeypatch):
    monkeypatch.setattr(plastic, "_MOST_HANDED", 1000)
    plan = synapse_rules.plan_of(network(traced("axon"), be.uniform(0.1, 2.0)), 1)
    engine = engine_of(plan)
    assert not engine.is_clustered
    assert engine.plastic.handed_bytes == 0
    compare(engine, (40,), ALL)


def test_which_networks_are_clusters():
    """Those with room in shared memory; a sweep of blocks is asked for, so others may be, too."""
    small = build_plan(rewarded(), seed=1, parts=1, warn=False)
    assert shape.suits_cluster(small, 227 * 1024)
    engine = CudaEngine(small, device=PretendDevice(132))
    assert engine.units == "one cluster of 16 blocks"
    assert engine.plastic.block_bytes
    assert not shape.suits_cluster(small, 100 * 1024)
    assert not engine_of(small, 3).is_clustered


def test_an_hour_of_late_rewards_begins_as_in_the_interpreter():
    plan = build_plan(rewarded(), seed=1, parts=1, warn=False)
    rewards = np.zeros((60, 1), np.float32)
    rewards[[7, 30]] = 0.5
    engine = CudaEngine(plan, device=PretendDevice(132))
    wanted = Wanted(("exc", "inh"), ("exc",))
    compare(engine, (1, 59), wanted, {("exc", "reward"): rewards, ("inh", "reward"): rewards})


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(("where", "delay"), [("axon", 0.1), ("axon", be.uniform(0.2, 0.9)), ("dendrite", 0.2)])
def test_threads_go_on_in_any_order(where, delay, order):
    plan = synapse_rules.plan_of(network(traced(where), delay), 1)
    engine = clustered(plan, 2, device=LaneDevice(order, largest_cluster=16))
    compare(engine, (1, 2, 40), ALL)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_text_compiles_for_gpus(where):
    engine = clustered(synapse_rules.plan_of(network(traced(where), be.uniform(0.1, 0.9)), 1))
    text = step_text(engine.kinds, engine.shape.structure, None, engine.plastic.text)
    assert ".entry run" in ptx_of(text, "--std=c++17", AS_WRITTEN, capability=90)
