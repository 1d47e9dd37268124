# SPDX-License-Identifier: Apache-2.0
"""Neurons in fours, with states in registers, shared memory and memory, and sums of a byte: the same bits as always."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import several_in_jax
import test_network_in_jax as in_jax
from beside_interpreter import as_tree, compare, equal
from gpu_on_cpu import PretendDevice
from several_on_cpu import several_of

import brainevent as be
from brainevent.network.gpu import partition, shape
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample, Wanted


def leaky(s, arriving, p):
    """Integrate both currents, unless it spiked a moment ago."""
    exc, inh = s.exc + arriving.exc, s.inh + arriving.inh
    v = jnp.where(s.pause > 0, s.v, s.v * 0.9 + exc * 0.4 + inh * 0.3 + p.drive)
    spike = v > 1
    pause = jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, 0.0, v), exc=exc * 0.5, inh=inh * 0.6, pause=pause), spike


def plan_of_two(exc=1700, inh=700, weights=(0.3, -0.4), delay=0.1, **how):
    """Return a plan of two populations, each with a receptor for either."""
    state = {"v": be.uniform(0, 1), "exc": 0.0, "inh": 0.0, "pause": 0}
    params = {"drive": 0.15}
    populations = [
        be.Population(name, size, leaky, state=state, params=params) for name, size in (("e", exc), ("i", inh))
    ]
    links = [
        be.Projection(source, target, be.connect.total(4 * source.size, weight=weight), into=into, delay=delay)
        for source, weight, into in zip(populations, weights, ("exc", "inh"), strict=True)
        for target in populations
    ]
    return be.Network(populations, links, dt=0.1).build(seed=2, backend="numba", **how).plan


def engine_of(plan, shared_bytes=None, **more):
    return CudaEngine(plan, blocks=2, shared_bytes=shared_bytes, device=PretendDevice(), **more)


@pytest.fixture(autouse=True)
def fours(monkeypatch):
    """Let few neurons push, by few threads."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (96,))


ALL = Wanted(
    ("e", "i"),
    ("e",),
    ("e", "i"),
    {"e.v": Sample("e", "v", 2, np.arange(0, 1700, 3)), "i.pause": Sample("i", "pause", 3, np.array([5, 699]))},
)


@pytest.mark.parametrize("kept", [0, 4, 100])
@pytest.mark.parametrize("shared", [0, 5, 100])
def test_states_in_registers_shared_memory_and_memory(monkeypatch, kept, shared):
    monkeypatch.setattr(shape, "kept_fours", lambda threads: kept)
    monkeypatch.setattr(shape, "MOST_SHARED_FOURS", shared)
    plan = plan_of_two()
    engine = engine_of(plan)
    structure = engine.shape.structure
    words = 3 * len(structure.fours)
    assert structure.fours == (0, 0, 0, 1)
    assert structure.kept_fours == min(words, kept)
    assert structure.shared_fours == min(words - min(words, kept), shared)
    (first, _) = compare(engine, [31, 9], ALL)
    assert first.spikes["e"][0].size > 200


def test_sums_of_a_byte():
    plan = plan_of_two()
    engine = engine_of(plan)
    assert engine.shape.structure.falling == (0b10, 0b10)
    assert "sums of 2 steps in memory, as bytes" in engine.placement
    compare(engine, [40], ALL)
    assert any(np.any(rows["inh"] < 0) for rows in engine.state.arriving.values())


@pytest.mark.parametrize("delay", [0.4, be.uniform(0.2, 0.9)])
def test_sums_of_a_byte_that_arrive_later(delay):
    engine = engine_of(plan_of_two(delay=delay, round_delays=True))
    assert engine.shape.structure.falling == (0b10, 0b10)
    compare(engine, [20, 9], ALL)


@pytest.mark.parametrize("reason", ["signs", "large"])
def test_sums_of_a_word(reason):
    """Where weights of a receptor have both signs, or a sum may be larger than a byte."""
    plan = plan_of_two(weights=(be.uniform(-0.1, 0.3), -0.4) if reason == "signs" else (0.3, -0.4))
    if reason == "large":
        plan = dataclasses.replace(plan, loads={**plan.loads, ("i", "exc"): 256})
    engine = engine_of(plan)
    assert engine.shape.structure.fours
    assert engine.shape.structure.falling == ()
    compare(engine, [20, 9], ALL)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("delay", "row", "sum_", "wide"),
    [(0.1, 0, 255, False), (0.1, 0, 256, True), (0.1, 0, -1, True), (0.3, 2, 255, False)]
    + [(be.uniform(0.2, 0.5), row, 252, row > 1) for row in range(4)],
)
def test_a_state_with_larger_sums(delay, row, sum_, wide, several):
    """Sums of a state that no byte holds are words, until a state is loaded whose sums fit."""
    plan = plan_of_two(delay=delay, round_delays=True)
    ours, theirs = several_of(plan, 2, 1) if several else engine_of(plan), Interpreted(plan)
    given = ours.state
    given.arriving["e"]["exc"][row, 17] = sum_
    for state, is_wide in ((given, wide), (engine_of(plan).state, False)):
        for engine in (ours, theirs):
            engine.load(state)
        for _ in range(2):
            equal(*(as_tree(engine.run(7, ALL, {})) for engine in (ours, theirs)))
            equal(ours.state, theirs.state)
            for one in ours._parts if several else [ours]:
                assert (one.shape.structure.falling == ()) == is_wide


def test_inputs_parameters_and_clocks():
    plan = plan_of_two()
    rng = np.random.default_rng(0)
    inputs = {
        ("e", "exc"): rng.normal(0, 0.1, (12, 1700)).astype(np.float32),
        ("i", "inh"): np.ones((12, 1), np.float32),
    }
    engine = engine_of(plan, clocks=True)
    compare(engine, [5, 7], ALL, inputs)
    assert engine.clocks.read().min() >= 0
    engine.set("e", "drive", np.float32(0.2))
    other = Interpreted(plan)
    other.set("e", "drive", np.float32(0.2))
    other.load(engine.state)
    equal(*(as_tree(one.run(9, ALL, {})) for one in (engine, other)))


def counting(s, arriving, p, random):
    """Count steps in several ways; spike now and then."""
    spike = random.bernoulli(0.2)
    up, mark = s.up + jnp.uint32(7), s.down < -2
    return s.replace(up=up, down=s.down - 1, step=s.step + 90, mark=mark, sum=s.sum + arriving.syn, on=spike), spike


def test_whole_numbers_that_no_byte_holds():
    """Integers and booleans lie in memory as bytes, until one is larger than 254 or below 0."""
    state = {"up": np.arange(2100, dtype=np.uint32) % 300, "down": 2, "step": be.uniform(0, 9), "mark": False}
    state |= {"sum": 0.0, "on": False, "step": 100}
    cells = be.Population("cells", 2100, counting, state=state)
    link = be.Projection(cells, cells, be.connect.total(8000, weight=2.0), into="syn")
    plan = be.Network([cells], [link], dt=0.1).build(seed=2, backend="numba").plan
    engine = engine_of(plan)
    assert engine.shape.structure.fours
    assert "memory, as bytes" in engine.placement
    names = ("up", "down", "step", "mark", "on")
    samples = {name: Sample("cells", name, 1, np.arange(0, 2100, 7)) for name in names}
    compare(engine, [1, 2, 30], Wanted(("cells",), ("cells",), (), samples))


def test_programs_of_jax_have_states_in_memory():
    """Their parameters and first step are known when they run."""
    sim = in_jax.built(plan_of_two(), 2)
    assert sim.engine.shape.structure.fours
    assert not sim.engine.resident.shape.structure.fours
    wanted = Wanted(("e", "i"), ("e",), ("i",))
    in_jax.compare(sim, [9, 4], wanted, None, {"e": {"drive": np.float32(0.2)}})


@pytest.mark.parametrize("strength", [-0.3, 90.0])
@pytest.mark.parametrize("gpus", [1, 2])
def test_programs_with_other_weights_leave_sums_as_bytes(gpus, strength):
    """Their own sums have other signs, or are words."""
    plan = plan_of_two()
    sim = several_in_jax.built(plan, 2, 1) if gpus == 2 else in_jax.built(plan, 2)
    first = sim.engine._parts[0] if gpus == 2 else sim.engine
    assert first.shape.structure.falling == (2, 2)
    theirs = Interpreted(plan)
    sim.run(9)
    theirs.run(9, Wanted(), {})
    be.simulate(sim, sim.state, {one.name: strength for one in plan.projections[:2]}, 3, record="e.counts")
    equal(sim.engine.state, theirs.state)
    sim.run(9)
    theirs.run(9, Wanted(), {})
    equal(sim.engine.state, theirs.state)
