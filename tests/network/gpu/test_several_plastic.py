# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses on several pretend GPUs: the bits of one GPU and of the interpreter, for any number."""

import dataclasses
import re

import numpy as np
import pytest
import synapse_rules
import test_plastic_deferred as deferred
import test_plastic_network_gpu as one_gpu
from beside_interpreter import as_tree, compare, equal
from gpu_on_cpu import PretendDevice
from plastic_networks import (
    ALL,
    both_places,
    check_all_that_rules_use,
    check_that_a_state_goes_on,
    check_that_a_synapse_is_named,
    mixed,
    network,
    triplet,
)
from ptx import AS_WRITTEN, ptx_of
from several_on_cpu import PretendPeer, several_of
from test_plastic_drawing import STATES, both
from test_plastic_drawing import network as drawn_network
from test_plastic_drawing import rules as drawn_rules

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition, plastic_deferred
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.plastic_layout import plastic_rows_text
from brainevent.network.gpu.several import part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import begun_state, initial_state

SMALL = one_gpu.SMALL


def plan_of(net, parts=1, **more):
    return synapse_rules.plan_of(net, parts, **more)


@pytest.fixture
def _small_networks_defer(monkeypatch):
    monkeypatch.setattr(plastic_deferred, "_INDEX", 10**6)
    monkeypatch.setattr(plastic_deferred, "_LEAST_ROW", 0)


# ---- the same bits


@pytest.mark.parametrize(
    ("where", "delay", "gpus", "blocks", "lag"),
    [  # at once; lists released with the packet of the next step; packets that are read later; both places of delays
        ("axon", be.uniform(0.1, 0.9), 2, 2, 0),
        ("axon", be.uniform(0.4, 0.9), 3, 1, 0),
        ("axon", 1.5, 4, 1, 3),
        ("dendrite", be.uniform(0.1, 0.9), 2, 2, 0),
    ],
)
def test_all_that_rules_may_use(where, delay, gpus, blocks, lag):
    engine = several_of(plan_of(network(triplet(where), delay)), gpus, blocks)
    structure = engine._parts[0].shape.structure
    assert (structure.gpus, structure.lag, structure.lag == engine._parts[0].plastic.text.lag) == (gpus, lag, True)
    check_all_that_rules_use(engine)


@pytest.mark.thorough  # each one compiles a kernel
@pytest.mark.parametrize(("where", "delay", "blocks", "flags"), one_gpu.CASES)
def test_whatever_is_done_while_packets_are_on_their_way(where, delay, blocks, flags):
    engine = several_of(plan_of(network(triplet(where), delay)), 2 + blocks % 3, 2)
    text = engine._parts[0].plastic.text
    assert [name for name, is_so in text.flags.items() if is_so] + [str(text.lag), str(text.fenced)] == flags.split()
    check_all_that_rules_use(engine)


@pytest.mark.parametrize("where", ["axon", pytest.param("dendrite", marks=pytest.mark.thorough)])
def test_graded_spikes_and_couplings_beside(where):
    engine = several_of(plan_of(mixed(where)), 2, 2)
    before = engine.state.synapses
    compare(engine, (1, 9, 40), Wanted(("a", "b", "c"), (), (), {}))
    for name, synapses in engine.state.synapses.items():
        assert np.mean(before[name]["w"] != synapses["w"]) > 0.5


def test_delays_at_both_places():
    (record,) = compare(several_of(plan_of(both_places(0.7)), 3, 1), (60,), ALL)
    assert record.spikes["a"][0].size > 20


@pytest.mark.usefixtures("_small_networks_defer")
@pytest.mark.parametrize(
    ("where", "delay", "gpus", "behind"),
    [
        ("axon", be.uniform(0.5, 0.9), 2, 0),
        ("dendrite", 1.5, 3, 15),
        *(
            pytest.param(where, delay, 2 + blocks % 3, behind, marks=pytest.mark.thorough)
            for where, delay, blocks, behind in deferred.CASES
        ),
    ],
)
def test_calls_wait(where, delay, gpus, behind):
    """They are made on all GPUs before synapses are read, and before parameters of rules change."""
    plan = deferred.plan_of(deferred.pairs(where), delay)
    engine, theirs = several_of(plan, gpus, 2), Interpreted(plan)
    assert [one.plastic.layouts["ab"].deferred for one in engine._parts] == [True] * gpus
    assert engine._parts[0].plastic.text.behind == behind
    compare(engine, (1, 2, 17, 150), dataclasses.replace(ALL, samples=deferred.SAMPLES))
    engine.load(theirs.state)
    for one in (engine, theirs):
        one.run(20, ALL, {})
        one.set("ab", "eta", np.float32(0.5))
        one.run(20, ALL, {})
    equal(engine.state, theirs.state)


@pytest.mark.usefixtures("_small_networks_defer")
def test_a_launch_ends_before_a_list_is_full():
    """Neurons spike in each second step, all at once; the list of one target ends the launch of all GPUs."""

    def often(s, arriving, p):
        return s.replace(n=s.n + 1, v=s.v + arriving.syn, u=s.v), s.n % 2 == 1

    cells = be.Population("a", 70, often, {"n": 0, "v": 0.0, "u": 0.5})
    connect = be.connect.prob(0.2, weight=be.uniform(0, 0.3))
    links = [be.Projection(cells, cells, connect, "syn", 1.2, "aa", deferred.pairs("axon"))]
    engine = several_of(plan_of(be.Network([cells], links, dt=0.1)), 2, 2)
    assert engine._parts[0].plastic.layouts["aa"].deferred
    for device in engine.devices:
        device.launches.clear()
    compare(engine, (500,), dataclasses.replace(ALL, spikes=("a",)))
    for device in engine.devices:
        assert sum(launch[1] >= 768 for launch in device.launches) > 5


def at_once(size, delay, rules=None):
    """Return a network whose neurons spike in each third step, all at once."""
    cells = be.Population("a", size, one_gpu.at_once, {"n": 0, "v": 0.0})
    rules = rules or be.Plasticity(
        on_pre=lambda w, s, pre, post, p: w - 0.01 * post.y + 0.001 * post.v,
        on_post=lambda w, s, pre, post, p: w + 0.02 * pre.x * w,
        pre={"x": be.trace(20.0)},
        post={"y": be.trace(20.0)},
        high=1.0,
    )
    synapses = be.Projection(cells, cells, be.connect.total(3000, weight=be.uniform(0, 1)), "syn", delay, "aa", rules)
    fixed = be.Projection(cells, cells, be.connect.total(2000, weight=0.01), "syn", be.uniform(0.3, 0.9), "fixed")
    return be.Network([cells], [synapses, fixed], dt=0.1)


@pytest.mark.parametrize(
    ("size", "blocks", "delay", "lag"), [(2100, 1, be.uniform(0.8, 1.1), 2), (700, 1, be.uniform(0.1, 0.4), 0)]
)
def test_bursts(monkeypatch, size, blocks, delay, lag):
    """More events than a list in shared memory, a packet and the queue have room for."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    engine = several_of(plan_of(at_once(size, delay)), 2, blocks, shared_bytes=SMALL)
    assert engine._parts[0].shape.structure.lag == lag
    compare(engine, (20,), Wanted(("a",)))


# ---- states, files, and what is replaced


@pytest.mark.parametrize("where", ["axon", pytest.param("dendrite", marks=pytest.mark.thorough)])
def test_states_go_from_engine_to_engine(where):
    """What is on its way, and what traces remember, is in the state: by two GPUs, one, and three."""
    net = network(triplet(where), be.uniform(0.1, 0.9))
    plan, in_parts = plan_of(net), plan_of(net, 3)  # another order of synapses
    one = CudaEngine(in_parts, blocks=4, device=PretendDevice(8))
    check_that_a_state_goes_on(plan, ((several_of(plan, 2, 2), 13), (one, 9), (several_of(in_parts, 3, 1), 18)))


def test_weights_of_fixed_projections_and_new_synapses():
    """Quanta change with them, and a plan drawn anew has other plastic synapses; parameters stay."""
    plans = [build_plan(network(triplet("dendrite"), 0.3), seed=seed, parts=1, warn=False) for seed in (3, 4)]
    ours, theirs = several_of(plans[0], 2, 2), Interpreted(plans[0])
    for engine in (ours, theirs):
        engine.set("ab", "eta", np.float32(0.2))
        engine.run(9, ALL, {})
        engine.set_weights(dataclasses.replace(plans[1], populations=plans[0].populations), initial_state(plans[1]))
    equal(as_tree(ours.run(30, ALL, {})), as_tree(theirs.run(30, ALL, {})))
    equal(ours.state, theirs.state)


class Full(PretendPeer):
    """A GPU that has no room for weights of plastic synapses while `full` is set."""

    full = False

    def memory(self, nbytes, what):
        if self.full and self.number == 1 and "weights of plastic" in what:
            type(self).full = False
            raise NetworkError(f"build: {what} take {nbytes} bytes")
        return super().memory(nbytes, what)


@pytest.mark.parametrize("gpus", [1, 2])
def test_synapses_that_do_not_fit_leave_those_that_were_there(gpus):
    """With parameters that were set; on all GPUs, if they do not fit on one."""
    plans = [build_plan(network(triplet("axon"), 0.3), seed=seed, parts=1, warn=False) for seed in (3, 4)]
    devices = [Full(k) for k in range(2)]
    theirs = Interpreted(plans[0])
    ours = CudaEngine(plans[0], blocks=2, device=devices[1])
    if gpus == 2:
        ours = SeveralEngine(plans[0], devices=devices, blocks=2)
    for engine in (ours, theirs):
        engine.set("ab", "eta", np.float32(0.2))
        engine.run(9, ALL, {})
    state = ours.state
    Full.full = True
    with pytest.raises(NetworkError, match=r"weights of plastic synapses of ab take \d+ bytes"):
        ours.set_weights(dataclasses.replace(plans[1], populations=plans[0].populations), initial_state(plans[1]))
    assert not Full.full
    for engine in (ours, theirs):
        engine.load(state)
    equal(as_tree(ours.run(30, ALL, {})), as_tree(theirs.run(30, ALL, {})))
    equal(ours.state, theirs.state)


@pytest.mark.parametrize("gpus", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_each_gpu_draws_its_own_synapses(gpus):
    """Weights and states as the host draws them; and after a reset again, for which synapses are drawn anew."""
    connect = be.connect.in_degree(12, weight=be.uniform(0, 0.4))
    net = drawn_network(connect, delay=be.uniform(0.1, 0.9), plasticity=drawn_rules(STATES[1], "dendrite"))
    theirs, ours = both(net, seed=3)
    engine = several_of(ours, gpus, 2)
    entries = [one.plastic.layouts["ab"].entries for one in engine._parts]
    assert sum(entries) == ours.plastic[0].entries
    assert min(entries) > 50
    equal(engine.state, initial_state(theirs))
    simulation = Simulation(ours, engine)
    wanted = Wanted(("a",), samples={"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5, 359]), of_synapses=True)})
    compare(engine, (1, 40), wanted)
    changed = engine.state.synapses["ab"]["w"]
    np.testing.assert_array_equal(simulation.connections("ab").weights, changed)
    simulation.reset()
    assert not engine._given.synapses
    equal(engine.state, initial_state(theirs))
    compare(engine, (20,), wanted)
    engine.load(begun_state(ours))
    equal(engine.state, initial_state(theirs))


def test_one_digest_for_any_number_of_gpus(tmp_path):
    """Of a whole network, in one go and with files between numbers of GPUs and the CPU."""
    net = drawn_network(be.connect.in_degree(12, weight=be.uniform(0, 0.4)), 60, plasticity=drawn_rules(STATES[1]))
    on_cpu, drawn = build_plan(net, seed=3), build_plan(net, seed=3, measure=Drawing(PretendDevice()))
    engines = {
        0: NumbaEngine(on_cpu),
        1: CudaEngine(drawn, blocks=4, device=PretendDevice()),
        2: several_of(drawn, 2, 2),
        4: several_of(drawn, 4, 1),
    }
    made = {gpus: Simulation(engine.plan, engine) for gpus, engine in engines.items()}
    made[0].run(90)
    expected = made[0].state
    assert np.mean(expected.synapses["ab"]["w"] != initial_state(on_cpu).synapses["ab"]["w"]) > 0.5
    for order in ((1,), (2,), (4,), (1, 2, 4), (4, 0, 2)):
        for k, gpus in enumerate(order):
            made[gpus].reset()
            if k:
                made[gpus].load(tmp_path / "state.npz")
            made[gpus].run(90 // len(order))
            made[gpus].save(tmp_path / "state.npz")
        equal(made[order[-1]].state, expected)


# ---- errors and words


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_first_synapse_that_is_not_finite_is_named(where):
    """A run stops after the step, on all GPUs, and the state is that after it."""
    check_that_a_synapse_is_named(where, lambda plan: several_of(plan, 2, 2))


@pytest.mark.usefixtures("_small_networks_defer")
@pytest.mark.parametrize("missing", [0, 1])
def test_a_gpu_that_is_missing_ends_the_others(monkeypatch, missing):
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    plan = deferred.plan_of(deferred.pairs("axon"), be.uniform(0.5, 0.9))
    devices = [PretendPeer(k) for k in range(2)]
    engine, theirs = SeveralEngine(plan, devices=devices, blocks=2), Interpreted(plan)
    devices[missing].fault = "never"
    with pytest.raises(NetworkError, match=rf"run: GPU {missing} \(a pretend GPU\) sent no spikes"):
        engine.run(5, Wanted(), {})
    with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
        _ = engine.state
    engine.load(theirs.state)
    compare(engine, (9,), ALL)


def test_sweeps_need_one_gpu():
    net = network(triplet("axon"), be.uniform(0.1, 0.9))
    plan = plan_of(net)
    simulation = Simulation(plan, several_of(plan, 2, 2), network=net)
    with pytest.raises(
        NetworkError,
        match=r"sweep: the elements of a sweep run side by side on one GPU; build the network without devices=",
    ):
        simulation.sweep(5, "a.rate", {"ab": {"eta": [0.1, 0.2]}})


def test_no_synapses():
    """A projection that drew none runs."""
    engine = several_of(plan_of(network(triplet("axon"), 0.3, (3, 2), 1e-9)), 2, 2)
    assert not engine.state.synapses["ab"]["w"].size
    compare(engine, (20,), ALL)


def test_where_synapses_lie():
    plan = plan_of(network(triplet("axon"), be.uniform(0.1, 0.9)))
    engine = several_of(plan, 2, 2)
    one = CudaEngine(plan, blocks=4, device=PretendDevice(8))
    report = Simulation(plan, engine).report()
    said = re.search(r"plastic synapses in memory, ([\d.]+) kB, ([\d.]+) bytes a plastic synapse", report)
    assert sum(each.plastic.nbytes for each in engine._parts) / 1000 == pytest.approx(float(said[1]), rel=0.01)
    assert float(said[2]) > one.plastic.nbytes / one.plastic.entries  # each GPU has lists of all events


@pytest.mark.parametrize(
    ("where", "delay"), [("axon", 1.5), pytest.param("dendrite", be.uniform(0.1, 0.9), marks=pytest.mark.thorough)]
)
def test_the_text_compiles_for_gpus(where, delay):
    """Memory is ordered for all GPUs; nothing is fused, and no array of a thread lies in memory."""
    engine = several_of(plan_of(network(triplet(where), delay)), 2, 2)._parts[0]
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure, None, engine.plastic.text), "--std=c++17", AS_WRITTEN)
    assert ".relaxed.sys" in ptx
    for word in ("fma.", "approx", ".local", ".gpu"):
        assert word not in ptx
    assert ".entry order_rows" in ptx_of(plastic_rows_text(several=True), "--std=c++17")
