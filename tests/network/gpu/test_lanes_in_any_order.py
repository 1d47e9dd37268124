# SPDX-License-Identifier: Apache-2.0
"""Threads of a GPU that go on in any order until they meet: networks still have the bits of the interpreter."""

import dataclasses

import pytest
import small_plans
import synapse_rules
from beside_interpreter import compare
from lanes_on_cpu import LaneDevice, LanePeer
from plastic_networks import ALL, graded, mixed, network, triplet
from test_plastic_deferred import SAMPLES, pairs, spiking_often

import brainevent as be
from brainevent.network.gpu import network as gpu_network
from brainevent.network.gpu import plastic_deferred
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several.engine import SeveralEngine

MEETING = "LANES_MEET;  // one lane has written what pieces there are"
WAITING = {"axon": be.uniform(0.5, 0.9), "dendrite": 1.5}


@pytest.fixture
def small_networks_defer(monkeypatch):
    monkeypatch.setattr(plastic_deferred, "_INDEX", 10**6)
    monkeypatch.setattr(plastic_deferred, "_LEAST_ROW", 0)


def check(net, order, blocks=1, steps=(1, 2, 50), wanted=ALL):
    """Compare with the interpreter."""
    engine = CudaEngine(synapse_rules.plan_of(net, 1), blocks=blocks, device=LaneDevice(order))
    compare(engine, steps, wanted)


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("where", WAITING)
def test_calls_wait(where, order):
    samples = dataclasses.replace(ALL, samples=SAMPLES)
    check(network(pairs(where), WAITING[where]), order, wanted=samples)


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize("where", WAITING)
def test_warps_deal_with_several_spikes(where):
    check(spiking_often(where, 70), 2, steps=(130,), wanted=dataclasses.replace(ALL, spikes=("a",)))


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize("where", WAITING)
def test_lanes_that_do_not_meet_are_found(where, monkeypatch):
    """So what these tests say can be false."""
    whole = gpu_network.step_text

    def torn(*given):
        text = whole(*given)
        assert MEETING in text
        return text.replace(MEETING, "")

    monkeypatch.setattr(gpu_network, "step_text", torn)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        check(network(pairs(where), WAITING[where]), 2)


KINDS = {"all that rules use": lambda where: network(triplet(where), 0.6), "graded": lambda where: graded(where, 0.6)}
KINDS["mixed"] = mixed


@pytest.mark.parametrize("where", WAITING)
@pytest.mark.parametrize("kind", KINDS)
def test_calls_do_not_wait(kind, where):
    net = KINDS[kind](where)
    check(net, 2, steps=(1, 30), wanted=dataclasses.replace(ALL, spikes=tuple(one.name for one in net.populations)))


@pytest.mark.parametrize("blocks", [1, 2])
def test_synapses_are_fixed(blocks):
    plan = small_plans.plan(1)
    engine = CudaEngine(plan, blocks=blocks, device=LaneDevice(2))
    compare(engine, (1, 2, 40), dataclasses.replace(ALL, samples={}))


@pytest.mark.usefixtures("small_networks_defer")
@pytest.mark.parametrize("where", WAITING)
def test_several_gpus(where):
    plan = synapse_rules.plan_of(network(pairs(where), WAITING[where]), 1)
    engine = SeveralEngine(plan, devices=[LanePeer(number, largest_cluster=0) for number in range(2)], blocks=2)
    compare(engine, (1, 2, 50), ALL)
