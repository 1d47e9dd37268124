# SPDX-License-Identifier: Apache-2.0
"""Sums of the next steps in shared memory in 16 bits, on pretend GPUs: never another bit, whatever is added."""

import dataclasses

import jax
import numpy as np
import pytest
import small_plans
import test_network_in_jax as in_jax
from beside_interpreter import as_tree, compare, equal, plan_of, stop_alike
from gpu_on_cpu import PretendDevice
from several_on_cpu import several_of
from test_network_gpu import SMALL, bursting, dense, engine_of
from test_several_gpus import later

import brainevent as be
from brainevent.network.gpu import partition, shape, sorter, sums
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.structs import COMPACT, PADDED
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.plan import PopulationPlan, SynapsePlan
from brainevent.network.run.recorded import Wanted
from brainevent.network.state import begun_state
from brainevent.scalar.trace import trace

DESK = 4464  # bytes of shared memory for lists of spikes
KNOWN = 4 * (6 * 10 + 512 + 8)  # for what neurons of six populations share, and tables of Poisson numbers
SPIKES = Wanted(("a",))


def room_for(cells, slots, near):
    """Return how many bytes of shared memory let sums of so many steps be there."""
    spans = 0 if near == slots else -(-slots // (4 if near > 4 else 2))
    return DESK + 4 * (spans + slots) + 4 * -(-cells // 2) * near


ROOM = room_for(30, 9, 6)  # for a block of 30 neurons


def near_of(engine):
    """Return how many steps have their sums in shared memory in 16 bits, of an engine on any number of GPUs."""
    return getattr(engine, "_parts", [engine])[0].shape.structure.near


@pytest.mark.parametrize("factor", [1, 700, 819])
@pytest.mark.parametrize("listed", [0, 2])
@pytest.mark.parametrize(("edges", "blocks"), [(1500, 2), (6000, 2), (150, 5)])  # padded and short rows
def test_it_equals_the_interpreter(monkeypatch, edges, blocks, listed, factor):
    """With sums that leave 16 bits, and lists for later steps that are full, or have no room at all."""
    monkeypatch.setattr(sums, "_LISTED", listed)
    plan = dense(edges)
    (synapses,) = plan.synapses
    plan = dataclasses.replace(
        plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * np.int16(factor)),)
    )
    engine = engine_of(plan, blocks, room_for(60 // blocks, 9, 6))
    assert near_of(engine) == 6
    (*_, record) = compare(engine, [1, 12, 1, 40], SPIKES)
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize("listed", [0, 1])
def test_lists_of_many_piles(monkeypatch, listed):
    """So that lanes count in different words, each has a pile; some of them are full."""
    monkeypatch.setattr(sums, "_LISTED", listed)
    monkeypatch.setattr(sums, "_MANY_CELLS", 0)
    monkeypatch.setattr(sums, "_PILES", 32)
    plan = later(dense(6000), 40)
    engine = engine_of(plan, 2, room_for(30, 49, 6) + 4 * 31 * 13)
    structure = engine.shape.structure
    assert (structure.near, structure.piles, structure.pile_room) == (6, 32, 4 * listed)
    (*_, record) = compare(engine, [1, 60, 1, 70], SPIKES)
    assert record.spikes["a"][0].size > 50


def arriving_at(weights, delay=2):
    """Return a plan of neurons that all spike in one step: then these weights arrive at the first ones, in one step."""

    def rule(s, arriving, p):
        return s.replace(v=s.v + arriving.syn, k=s.k + 1), s.k == 3

    entries = [(target, weight) for target, own in enumerate(weights) for weight in own]
    size = max(len(weights), len(entries))
    state = {"v": np.zeros(size, np.float32), "k": np.zeros(size, np.int32)}
    traced = trace(rule, {"v": 0.0, "k": 0}, ["syn"], {})
    a = PopulationPlan("a", size, traced, state, {}, {"syn": np.float32(1)}, (3, 17))
    starts = np.minimum(np.arange(size + 1), len(entries))
    targets, values = (np.array([entry[k] for entry in entries]) for k in (0, 1))
    joined = SynapsePlan(
        "a->a.syn", "a", "a", "syn", starts.astype(np.int64), targets.astype(np.uint16), values.astype(np.int16),
        np.array([delay], np.uint8),
    )  # fmt: skip
    return plan_of([a], [joined], 1)


LIMITS = [
    [32767],
    [32767, 1],
    [-32768],
    [-32768, -1],
    [32767, 32767, 32767, 5],
    [-32768, -32768, -32768],
    [32767, 32767, -32768, -32768, 7],
    [-1],
    [20000, 20000, -20000, -20000],
    [],
    [32767, 1, -32768],
]


@pytest.mark.parametrize("turn", range(len(LIMITS)))
@pytest.mark.parametrize("delay", [2, 9])
def test_sums_at_the_limits_of_16_bits(turn, delay):
    """Each beside each: two sums share a word, and what one of them carries must not reach the other one."""
    plan = arriving_at(LIMITS[turn:] + LIMITS[:turn], delay)
    engine = engine_of(plan, 1, room_for(plan.populations[0].size, delay + 1, min(delay + 1, 6)))
    assert near_of(engine) == min(delay + 1, 6)
    compare(engine, [1, 2, 2, 3, 8], SPIKES)
    voltages = np.unique(engine.state.neurons["a"]["v"])
    assert {sum(weights) for weights in LIMITS} == set(voltages.tolist())


@pytest.mark.parametrize("last", [[32767, 1], [-32768, -1], [20000, 20000, 20000, 20000]])
def test_the_last_sum_shares_its_word_with_none(last):
    """What it carries must not reach the first neuron in the next step."""
    plan = arriving_at([*[[]] * 44, last], 9)
    engine = engine_of(plan, 1, room_for(45, 10, 6))
    assert near_of(engine) == 6
    compare(engine, [1, 2, 7, 8], SPIKES)
    assert engine.state.neurons["a"]["v"].tolist() == [*[0] * 44, sum(last)]


@pytest.mark.parametrize(("load", "certain"), [(32767, True), (32768, False), (None, False)])
def test_sums_are_checked_unless_all_weights_fit(load, certain):
    plan = dense(1500)
    plan = dataclasses.replace(plan, loads={} if load is None else {("a", "syn"): load})
    engine = engine_of(plan, 2, ROOM)
    assert near_of(engine)
    assert engine.shape.structure.certain == certain
    compare(engine, [40], SPIKES)


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize(("more", "lag"), [(0, 0), (1, 1), (7, 3)])
def test_several_gpus(monkeypatch, gpus, more, lag):
    """Packets are read late; what the last ones bring goes to sums that no step of the launch takes."""
    monkeypatch.setattr("brainevent.network.gpu.run._NANOSECONDS", 1)
    plan = later(dense(3000, 240), more)
    engine = several_of(plan, gpus, 2, shared_bytes=room_for(120 // gpus, 9 + more, 6))
    structure = engine._parts[0].shape.structure
    assert (structure.lag, structure.near, engine._parts[0].arrays.slots) == (lag, 6, 9 + more)
    (*_, record) = compare(engine, [1, 2, 3, 70], SPIKES)
    assert record.spikes["a"][0].size > 50


def test_a_network_that_stops():
    plan = dataclasses.replace(dense(1500, 60), check_finite=True)
    (population,) = plan.populations
    drive = population.params["drive"].copy()
    drive[7] = -3e38
    params = {**population.params, "drive": drive}
    plan = dataclasses.replace(plan, populations=(dataclasses.replace(population, params=params),))
    engine = engine_of(plan, 2, ROOM)
    assert near_of(engine)
    stop_alike(plan, engine, "neuron 7", SPIKES)


def test_weights_that_leave_16_bits():
    """Then sums of all steps are in memory, in 32 bits; and back."""
    plan = dense(1500)
    (synapses,) = plan.synapses
    ours, theirs = engine_of(plan, 2, ROOM), engine_of(plan, 2)
    for factor in (1, 2**12, 2**20, 3):
        weights = synapses.weights.astype(np.int32) * factor
        new = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
        for engine in (ours, theirs):
            engine.set_weights(new, begun_state(new))
            engine.run(30, Wanted(), {})
        equal(ours.state, theirs.state)
        assert (near_of(ours) > 0) == (factor < 2**12)


def test_simulate():
    """Lists lie in memory of XLA; each launch of a program begins and ends with all sums in memory."""
    sim = in_jax.built(dense(1500), 2, ROOM)
    assert near_of(sim.engine)
    in_jax.compare(sim, [20, 13], Wanted(("a",), ("a",)))


def test_many_spikes_of_short_rows():
    """Parts of warps take one row after the other, with several on their way."""
    for edges, blocks, room in ((9000, 1, 5000), (24_000, 2, 3000)):
        plan = bursting(900)
        (population,) = plan.populations
        plan = dataclasses.replace(plan, synapses=(small_plans.synapses(population, population, edges, 1),))
        engine = engine_of(plan, blocks, SMALL + room)
        assert engine.shape.structure.together > 1
        compare(engine, [20, 7], SPIKES)


@pytest.mark.parametrize("layout", [PADDED, COMPACT])
@pytest.mark.parametrize("alone", [False, True])
def test_all_warps_deliver(monkeypatch, layout, alone):
    """Where many rows come in a step, those of warps that send and listen are delivered when they have done that."""
    for module, name in ((shape, "MANY_ROWS"), (shape, "_MANY_NEAR")):
        monkeypatch.setattr(module, name, 2**19 if alone else 100)
    monkeypatch.setattr(sorter, "_MOST_PADDING", 0.1 if layout == COMPACT else 9)
    monkeypatch.setattr(sorter, "LONG_ROW", 1)
    plan = bursting(900)
    (population,) = plan.populations
    plan = dataclasses.replace(plan, synapses=(small_plans.synapses(population, population, 24_000, 1),))
    for room in (3000, 60_000):  # with sums of the next steps in shared memory, and all
        engine = engine_of(plan, 2, SMALL + room)
        structure = engine.shape.structure
        assert (engine.rows.layout, structure.helping) == (layout, not alone)
        assert (structure.together > 1) == (not structure.ring_in_block) == (room == 3000)
        compare(engine, [20, 7], SPIKES)


def driven(s, arriving, p, random):
    """Receive spikes at random, as many as a table says."""
    return s.replace(v=s.v * 0.9 + arriving.syn + random.poisson(p.rate), k=s.k + 1), s.v > 9


def of_small_populations(rates):
    """Return a plan of a population for each rate of what drives it."""
    cells = []
    for k, rate in enumerate(rates):
        size = 210 + 17 * k
        traced = trace(driven, {"v": 0.0, "k": 0}, ["syn"], {"rate": np.float32(0.5 + k)})
        state = {"v": np.linspace(0, 9, size, dtype=np.float32), "k": np.zeros(size, np.int32)}
        params = {"rate": np.float32(rate)}
        cells.append(PopulationPlan(f"p{k}", size, traced, state, params, {"syn": np.float32(0.5)}, (k, 17)))
    joined = [small_plans.synapses(cells[k], cells[(5 * k + 1) % 6], 9000, 1, seed=k) for k in range(6)]
    joined += [small_plans.synapses(one, one, 6000, 1, seed=k, weight=-7, delay=3) for k, one in enumerate(cells)]
    return plan_of(cells, joined, 1)


@pytest.mark.parametrize(("more", "words", "drawn"), [(6_000, 0, 0), (21_120, 1, 0), (33_000, 2, 1), (150_000, 2, 1)])
def test_many_small_populations(monkeypatch, more, words, drawn):
    """Threads that follow each other have neurons of different ones; states and random numbers are in shared memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    engine = engine_of(of_small_populations(0.5 + np.arange(6) / 4), 1, DESK + KNOWN + more)
    structure = engine.shape.structure
    assert structure.mixed
    assert (structure.words_in_block, structure.drawn) == (words, drawn)
    (record, _) = compare(engine, [20, 7], Wanted(("p1", "p4"), ("p2",), ("p0",)))
    assert record.spikes["p1"][0].size > 50


def test_tables_of_poisson_numbers(monkeypatch):
    """Equal ones are there once; those of large numbers have no room in shared memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    plan = of_small_populations([0.0, 3, 12, 3, 30, 12])
    ours, theirs = engine_of(plan, 1), Interpreted(plan)
    assert ours.shape.structure.mixed
    changes = [
        ("p1", 3, True),
        ("p0", 50, True),
        ("p5", 63, True),
        ("p2", 60, True),
        ("p3", 61, False),
        ("p0", 1, True),
    ]
    for population, rate, fit in changes:
        for engine in (ours, theirs):
            engine.set(population, "rate", np.float32(rate))
        equal(*(as_tree(engine.run(5, Wanted(("p0", "p5"), ("p2",)), {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)
        assert (ours.shape.structure.table_words > 0) == fit


def test_tables_of_poisson_numbers_in_programs(monkeypatch):
    """A program of JAX has them in shared memory, too; what neurons share it has as traced values."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    sim = in_jax.built(of_small_populations([0.0, 3, 12, 3, 30, 12]), 1, None)
    assert sim.engine.shape.structure.mixed
    in_jax.compare(sim, [12], Wanted(("p0", "p5"), ("p2",)))


@pytest.mark.parametrize("rates", [[50.0, 60, 61, 62, 63, 64], [1.0, 100, 100, 100, 100, 100]])
def test_programs_after_means_were_set(monkeypatch, rates):
    """Then tables fit that did not, or populations have one text that had two; programs have those of the build."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    sim = in_jax.built(of_small_populations(rates), 1, None)
    for population in sim.plan.populations:
        sim.engine.set(population.name, "rate", np.float32(1))
    given, wanted = {one.name: dict(one.params) for one in sim.plan.populations}, Wanted(("p0", "p5"), ("p2",))
    state, out = jax.jit(lambda state: be.simulate(sim, state, given, 12, {}, wanted))(sim.state)
    in_jax.check(sim.plan, in_jax.interpreted(sim.plan), 12, wanted, {}, state, out)


def test_long_rows_among_short_ones():
    """Lanes that read two words each take turns where a row has more."""
    hub, others = small_plans.population("hub", 5, 1), small_plans.population("others", 500, 2)
    joined = [small_plans.synapses(hub, others, 5 * 300, 1), small_plans.synapses(others, others, 500 * 30, 1, seed=3)]
    engine = engine_of(plan_of([hub, others], joined, 1), 1, DESK + 9000)
    assert engine.shape.structure.two_words
    assert engine.rows.layout == PADDED
    (record,) = compare(engine, [40], Wanted(("hub", "others")))
    assert record.spikes["hub"][0].size > 10


def test_the_report_says_where_sums_are():
    text = engine_of(dense(1500), 2, ROOM).placement
    assert "sums of 9 steps in memory, those of the next 6 in shared memory in 16 bits; padded rows" in text


@pytest.mark.parametrize(("number", "certain"), [(100, True), (120, False)])
def test_sums_of_either_sign(number, certain):
    """No sum is larger than that of all weights above 0, or of all below, which follow from numbers of inputs."""
    cells = be.models.lif_delta("cells", 40)
    links = [
        be.Projection(cells, cells, be.connect.in_degree(number, weight=weight), into="syn", delay=0.1 * delay)
        for weight, delay in ((300.0, 3), (-299.0, 2))
    ]
    plan = build_plan(be.Network([cells], links, dt=0.1), seed=1, measure=Drawing(PretendDevice()))
    assert [one.weights for one in plan.projections] == [(300, 300), (-299, -299)]
    assert plan.loads["cells", "syn"] > 2**15
    structure = engine_of(plan, 1, room_for(40, 4, 4)).shape.structure
    assert structure.near
    assert structure.certain == certain
