# SPDX-License-Identifier: Apache-2.0
"""Threads of a GPU that go on in any order until they meet: networks still have the bits of the interpreter."""

import dataclasses

import numpy as np
import pytest
import small_plans
import synapse_rules
import test_neurons_in_fours as in_fours
from beside_interpreter import compare
from lanes_on_cpu import LaneDevice, LanePeer
from plastic_networks import ALL, graded, mixed, network, triplet
from test_plastic_deferred import SAMPLES, pairs, spiking_often

import brainevent as be
from brainevent.network.gpu import network as gpu_network
from brainevent.network.gpu import partition, plastic_deferred
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.structs import PUSHED

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


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("gpus", "delay"), [(2, 0.1), (4, 0.1), (3, 0.5)])
def test_blocks_that_push_on_several_gpus(monkeypatch, gpus, delay, order):
    """At once or held; three warps push the rows of up to four blocks."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (96,))
    plan = in_fours.plan_of_two(exc=850 * gpus, inh=350 * gpus, delay=delay)
    monkeypatch.setattr(LanePeer, "order", order)
    devices = [LanePeer(number, largest_cluster=0) for number in range(gpus)]
    engine = SeveralEngine(plan, devices=devices, blocks=1)
    assert engine._parts[0].rows.layout == PUSHED
    (*_, last) = compare(engine, (1, 2, 30), in_fours.ALL)
    assert last.spikes["e"][0].size > 100


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


ONCE = "desk.fired[e * MEETS_ONCE]"  # one of two lists of spikes that are recorded


def compare_held(monkeypatch, order=2, threads=192):
    """Of two pretend GPUs whose blocks hold spikes, and meet once in a step."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (threads,))
    plan = in_fours.plan_of_two(exc=3600, inh=1500, delay=0.6, round_delays=True)
    peers = [LanePeer(number, largest_cluster=0) for number in range(2)]
    for peer in peers:
        peer.order = order
    engine = SeveralEngine(plan, devices=peers, blocks=2)
    assert engine._parts[0].shape.structure.hold == 4
    compare(engine, (1, 3, 4, 5, 40), in_fours.ALL)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_blocks_that_meet_once_in_a_step(order, monkeypatch):
    compare_held(monkeypatch, order)


def test_what_two_steps_share_is_found(monkeypatch):
    """Spikes that are recorded have two lists, since one warp still sends those of the step before."""
    whole = gpu_network.step_text

    def torn(*given):
        text = whole(*given)
        assert text.count(ONCE) == 2
        return text.replace(ONCE, "desk.fired[0]")

    monkeypatch.setattr(gpu_network, "step_text", torn)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        compare_held(monkeypatch)


PUSHES_LATE = "if (MEETS_ONCE) push_rows_of(net, desk, held_ring(net, ring, t, false), block, warp, t, nullptr);"
# One block of a GPU waits, before sums that it moves are gone from where they were, for what the other one adds there.
SLOW = {
    "BE void move_sums(": "static u32 added[GPUS];\nstatic thread_local bool waits_here;\nBE void move_sums(",
    "move_sums(net, ring, own_cells, tid, t, !lives);": """
        waits_here = lives && steps == HOLD + 1 && block_here == 0;
        move_sums(net, ring, own_cells, tid, t, !lives);""",
    "if (!x) continue;": """if (!x) continue;
        for (u32 n = 0; waits_here && k > 4 && n < 20000 && added[net.gpu] < THREADS; ++n) rest();""",
    PUSHES_LATE: f"""if (MEETS_ONCE) {{ {PUSHES_LATE}
        if (turn == HOLD + 1 && block_here == 1) {{
            LANES_DO
                __atomic_fetch_add(&added[net.gpu], 1u, __ATOMIC_SEQ_CST);
            LANES_END
        }}
    }}""",
}


def test_sums_that_move_while_others_add_to_them(monkeypatch):
    """A block whose last step moves its sums is behind one that pushes after its last step: nothing is lost."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (192,))
    whole = gpu_network.step_text

    def slowed(*given):
        text = whole(*given)
        for old, new in SLOW.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        return text

    monkeypatch.setattr(gpu_network, "step_text", slowed)
    plan = in_fours.plan_of_two(exc=3600, inh=1500, delay=be.uniform(0.6, 2.4), round_delays=True)
    engine = SeveralEngine(plan, devices=[LanePeer(number, largest_cluster=0) for number in range(2)], blocks=2)
    hold = engine._parts[0].shape.structure.hold
    assert hold == 4
    driven = {("e", "exc"): np.random.default_rng(0).normal(0.3, 0.5, (40 + hold + 1, 3600)).astype(np.float32)}
    compare(engine, (40, hold + 1), in_fours.ALL, driven)
