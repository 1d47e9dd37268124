# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in the engine for GPUs, on a pretend one, beside the interpreter, bit for bit."""

import dataclasses
import re

import numpy as np
import pytest
import synapse_rules
from beside_interpreter import as_tree, compare, compare_after_replacing, equal
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
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

import brainevent as be
from benchmarks.probes.network_plastic import network as of_pairs
from brainevent.network.gpu import partition
from brainevent.network.gpu.clocks import MARKS, PLASTIC_MARKS
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.text import marked, step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import initial_state

SMALL = 6000  # bytes of shared memory: enough for lists of spikes alone


def engine_of(plan, blocks=3, shared_bytes=None, largest_cluster=0):
    """Return an engine, without clusters unless these are asked for: see "test_plastic_in_cluster.py"."""
    device = PretendDevice(8, largest_cluster=largest_cluster)
    return CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes, device=device)


CASES = [  # blocks; what is done while packets are on their way, when lists are released, and how late packets are read
    ("axon", None, 1, "WINDOWED READS_TRACES 0 1"),
    ("axon", 0.2, 5, "WINDOWED AHEAD READS_TRACES 0 1"),
    ("axon", be.uniform(0.4, 0.9), 3, "WINDOWED AHEAD LAZY READS_TRACES 0 1"),
    ("axon", be.uniform(0.1, 0.9), 3, "WINDOWED READS_TRACES 0 1"),
    ("axon", be.uniform(0.5, 0.9), 5, "WINDOWED AHEAD LAZY EARLY READS_TRACES 0 1"),
    ("axon", be.uniform(0.6, 0.9), 5, "WINDOWED AHEAD LAZY EARLY READS_TRACES 1 1"),
    ("axon", 1.5, 3, "WINDOWED AHEAD LAZY EARLY READS_TRACES 3 4"),
    ("dendrite", 0.3, 2, "READS_TRACES 0 1"),
    ("dendrite", be.uniform(0.1, 0.9), 5, "READS_TRACES 0 1"),
]


@pytest.mark.parametrize(("where", "delay", "blocks", "flags"), CASES)
def test_all_that_rules_may_use(where, delay, blocks, flags):
    engine = engine_of(synapse_rules.plan_of(network(triplet(where), delay), 1), blocks)
    text = engine.plastic.text
    assert [name for name, is_so in text.flags.items() if is_so] + [str(text.lag), str(text.fenced)] == flags.split()
    check_all_that_rules_use(engine)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
@pytest.mark.parametrize(
    "rules",
    [
        {"on_pre": lambda w, s, pre, post, p: w + 0.01 * post.v},
        {"every": (0.3, lambda w, s, pre, post, p: 0.99 * w)},
        {"on_post": {"upstate": lambda w, s, pre, post, p: 0.9 * w}},
    ],
    ids=["on_pre", "every", "upstate"],
)
def test_spikes_of_the_target_that_no_rule_needs(where, rules):
    engine = engine_of(synapse_rules.plan_of(network(be.Plasticity(**rules, high=0.5, delay_at=where), 0.3), 1))
    before = engine.state.synapses["ab"]["w"]
    compare(engine, (1, 60), ALL)
    assert np.mean(before != engine.state.synapses["ab"]["w"]) > 0.5


@pytest.mark.parametrize(("where", "blocks"), [("axon", 3), ("dendrite", 1)])
def test_graded_spikes_and_couplings_beside(where, blocks):
    """All three into one receptor, and from and to neurons whose spikes have values."""
    engine = engine_of(synapse_rules.plan_of(mixed(where), 1), blocks)
    before = engine.state.synapses
    compare(engine, (1, 9, 40), Wanted(("a", "b", "c"), (), (), {}))
    for name, synapses in engine.state.synapses.items():
        assert np.mean(before[name]["w"] != synapses["w"]) > 0.5


@pytest.mark.parametrize("delay", [None, 0.2, 0.9])
def test_a_launch_ends_after_a_while(monkeypatch, delay):
    """Before spikes of the step after it arrive: the pretend clock goes on by a microsecond at each look."""
    for limit in ("_NANOSECONDS", "_RECORDED"):
        monkeypatch.setattr(f"brainevent.network.gpu.run.{limit}", 1)
    engine = engine_of(synapse_rules.plan_of(network(triplet("axon"), delay), 1), 2)
    compare(engine, (150,), ALL)
    runs = [launch for launch in engine.device.launches if launch[0] == 2 and launch[1] >= 768]
    assert len(runs) == 3


@pytest.mark.parametrize("delays", [(0.3, 0.3), (None, 0.3)])
def test_two_projections_of_one_source(delays):
    """Spikes are looked up once if the delays are the same; and a rule at intervals that reads nothing of a source."""

    def leak(w, s, pre, post, p):
        return w - 0.001 * post.v - 0.01 * s.e, s.replace(e=0.5 * s.e)

    net = network(triplet("axon", every=(0.2, leak)), delays[0])
    a, b = net.populations
    more = be.Projection(a, a, be.connect.prob(0.2, weight=0.1), "syn", delays[1], "aa", triplet("axon"))
    plan = synapse_rules.plan_of(be.Network([a, b], [*net.projections, more], dt=0.1), 1)
    engine = engine_of(plan, 3)
    assert engine.plastic.text.rules.count("reach1(net") == 1
    assert engine.plastic.text.rules.count("BE void gather1(") == (delays[0] != delays[1])
    compare(engine, (1, 60), ALL)


@pytest.mark.parametrize("delay", [0.1, 0.7])
def test_delays_at_both_places(delay):
    """Spikes that reach synapses at the end of an axon, and others in the same step at a dendrite, act once each."""
    (record,) = compare(engine_of(synapse_rules.plan_of(both_places(delay), 1), 3), (60,), ALL)
    assert record.spikes["a"][0].size > 20


def test_states_go_from_engine_to_engine():
    """What is on its way, and what traces remember, is in the state: a run in three parts by three engines."""
    for where in ("axon", "dendrite"):
        plan = synapse_rules.plan_of(network(triplet(where), be.uniform(0.1, 0.9)), 1)
        in_parts = synapse_rules.plan_of(network(triplet(where), be.uniform(0.1, 0.9)), 3)  # another order of synapses
        engines = (engine_of(plan, 3), 13), (Interpreted(in_parts), 9), (engine_of(in_parts, 5), 18)
        check_that_a_state_goes_on(plan, engines)


@settings(max_examples=1)
@given(synapse_rules.networks(), st.sampled_from([1, 3]), st.data())
def test_random_rules(net, blocks, data):
    check_random(net, blocks, None, data)


@pytest.mark.thorough  # each example compiles a kernel
@settings(max_examples=30)
@given(synapse_rules.networks(), st.sampled_from([1, 2, 5, 8]), st.sampled_from([None, SMALL]), st.data())
def test_many_random_rules(net, blocks, shared_bytes, data):
    check_random(net, blocks, shared_bytes, data)


def check_random(net, blocks, shared_bytes, data):
    plan = synapse_rules.plan_of(net, 1)
    wanted, inputs = data.draw(synapse_rules.wishes(plan, 24))
    compare(engine_of(plan, blocks, shared_bytes, data.draw(st.sampled_from([0, 8]))), (5, 19), wanted, inputs)


def at_once(s, arriving, p):
    """Spike in each third step, all at once."""
    return s.replace(n=s.n + 1, v=s.v + arriving.syn), s.n % 3 == 2


@pytest.mark.parametrize(
    ("size", "blocks", "shared_bytes", "delay", "lag"),
    [
        (40, 1, None, 0.2, 0),
        (700, 1, None, be.uniform(0.1, 0.4), 0),
        (120, 2, SMALL, 0.1, 0),
        (1300, 1, SMALL, be.uniform(0.2, 0.5), 0),
        (40, 2, None, 0.7, 2),
        (2100, 2, SMALL, be.uniform(0.8, 1.1), 2),
    ],
)
def test_spikes_in_parts_and_more_than_the_queue_holds(monkeypatch, size, blocks, shared_bytes, delay, lag):
    """Warps share out long rows; and look for all spikes again: of neurons in registers, and of those in memory.

    If there are many, there is no room either for all that are recorded in one launch. Where packets are read later,
    there are fixed synapses, too, to which many more neurons spike than a packet has room for.
    """
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    cells = be.Population("a", size, at_once, {"n": 0, "v": 0.0})
    rules = be.Plasticity(
        on_pre=lambda w, s, pre, post, p: w - 0.01 * post.y + 0.001 * post.v,
        on_post=lambda w, s, pre, post, p: w + 0.02 * pre.x * w,
        pre={"x": be.trace(20.0)},
        post={"y": be.trace(20.0)},
        high=1.0,
    )
    connect = be.connect.total(3000, weight=be.uniform(0, 1))
    synapses = be.Projection(cells, cells, connect, "syn", delay, "aa", rules)
    fixed = be.Projection(cells, cells, be.connect.total(2000, weight=0.01), "syn", be.uniform(0.3, 0.9), "fixed")
    net = be.Network([cells], [synapses, *[fixed] * (lag > 0)], dt=0.1)
    engine = engine_of(synapse_rules.plan_of(net, 1), blocks, shared_bytes)
    assert engine.plastic.text.lag == lag
    assert (engine.shape.structure.reached < size) == (size > 40)
    assert engine.shape.structure.in_registers == (size < 1024)
    compare(engine, (20,), Wanted(("a",)))
    assert (engine._spikes.capacity > 4096) == (size > 120)


def test_parameters_and_weights_are_replaced():
    """`set` and `load` act as in the interpreter."""
    plan = synapse_rules.plan_of(network(triplet("axon"), 0.3), 1)
    ours, theirs = engine_of(plan, 2), Interpreted(plan)
    compare_after_replacing(ours, theirs, (10, 20), ALL)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_first_synapse_that_is_not_finite_is_named(where):
    """A run stops after the step, in all blocks, and the state is that after it."""
    check_that_a_synapse_is_named(where, lambda plan: engine_of(plan, 2))


def test_no_synapses():
    """A projection that drew none runs, at both places of delays."""
    for where in ("axon", "dendrite"):
        engine = engine_of(synapse_rules.plan_of(network(triplet(where), 0.3, (3, 2), 1e-9), 1), 2)
        assert not engine.state.synapses["ab"]["w"].size
        compare(engine, (20,), ALL)


def test_weights_of_fixed_projections_and_new_synapses():
    """Quanta change with them, and a plan drawn anew has other plastic synapses; parameters stay."""
    plans = [build_plan(network(triplet("dendrite"), 0.3), seed=seed, parts=1, warn=False) for seed in (3, 4)]
    ours, theirs = engine_of(plans[0], 3), Interpreted(plans[0])
    for engine in (ours, theirs):
        engine.set("ab", "eta", np.float32(0.2))
        engine.run(9, ALL, {})
        engine.set_weights(dataclasses.replace(plans[1], populations=plans[0].populations), initial_state(plans[1]))
    equal(as_tree(ours.run(30, ALL, {})), as_tree(theirs.run(30, ALL, {})))
    equal(ours.state, theirs.state)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_the_text_compiles_for_gpus(where):
    """Nothing is fused, nothing approximated, and no array of a thread lies in memory."""
    plan = synapse_rules.plan_of(network(triplet(where), be.uniform(0.4, 0.9)), 1, check_finite=where == "dendrite")
    engine = engine_of(plan)
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure, None, engine.plastic.text), "--std=c++17", AS_WRITTEN)
    assert ".entry run" in ptx
    for word in ("fma.", "approx", ".local"):
        assert word not in ptx


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_synapses_in_shared_memory_and_in_memory(where, shared_bytes):
    """Weights and states of some are recorded, launches begin and end, and a state is read and written."""
    plan = synapse_rules.plan_of(network(triplet(where), be.uniform(0.1, 0.9)), 1)
    engine = engine_of(plan, 3, shared_bytes)
    assert engine.plastic.text.inside == (shared_bytes is None)
    samples = {name: Sample("ab", name, 3, np.array([5, 0, 70, 5]), of_synapses=True) for name in ("w", "e")}
    wanted = dataclasses.replace(ALL, samples=samples)
    compare(engine, (1, 7, 40), wanted)
    second, theirs = engine_of(plan, 2, shared_bytes), Interpreted(plan)
    for one in (second, theirs):
        one.load(engine.state)
    equal(as_tree(second.run(20, wanted, {})), as_tree(theirs.run(20, wanted, {})))
    equal(second.state, theirs.state)


@pytest.mark.parametrize(("fan", "where"), [(20, "shared memory"), (280, "memory")])
def test_where_synapses_lie(fan, where):
    """In the report, without rows of fixed synapses where there are none."""
    plan = build_plan(of_pairs(300, fan, plastic=True), seed=1, parts=1, warn=False)
    engine = engine_of(plan, 3)
    simulation = Simulation(plan, engine)
    expected = (
        r"at most 100 neurons each, states in registers; sums of 2 steps in shared memory; plastic synapses in "
        rf"{where}, [\d.]+ kB, [\d.]+ bytes a plastic synapse\nelements of sweeps run one after another\n"
        r"training, and all else of simulate: in plain JAX"
    )
    assert re.search(expected, simulation.report())
    assert engine.plastic.nbytes / engine.plastic.entries < (40 if where == "shared memory" else 16)


def test_clocks_say_where_the_time_of_a_step_goes():
    plan = synapse_rules.plan_of(network(triplet("axon"), 0.6), 1)
    engine = CudaEngine(plan, blocks=3, clocks=True, device=PretendDevice(8))
    compare(engine, (30,), ALL)
    cycles = engine.clocks.read()
    assert cycles.shape == (3, 8)
    assert (cycles > 0).all()
    marks = dict(re.findall(r"[:,] ([a-z ]+) after (\d+)", engine.placement))
    assert set(marks) == {*MARKS, *PLASTIC_MARKS}
    assert [int(cycles) for cycles in marks.values()] == sorted(int(cycles) for cycles in marks.values())
    order = ["neurons updated", "events of targets done", "arrivals delivered", "traces settled", "delivered"]
    assert [mark for mark in marks if mark in order] == order


def test_marked_lines():
    text = "a\n    #plastic b();\n  #static c();\nd\n"
    assert marked(text, plastic=True) == "a\n    b();\nd\n"
    assert marked(text, plastic=False) == "a\n  c();\nd\n"
