# SPDX-License-Identifier: Apache-2.0
"""Where neurons of full-size networks lie on real GPUs: in registers, in shared memory side by side, or in memory."""

import functools

import numpy as np
import pytest
import test_near_sums as near
import test_several_placed as placing
from beside_interpreter import as_tree, equal
from several_on_cpu import several_of
from undrawn import shared_out, undrawn_plan

import brainevent as be
from benchmarks.probes.network_large import copies, late_cuba
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition, shape
from brainevent.network.gpu.several import part
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from examples.networks import areas, cuba

REGISTERS, SEVERAL, SHARED, FOURS = "one a thread", "several a thread", "shared memory", "fours"


@functools.cache
def plan_named(name):
    """Return a plan without synapses: circuits, or one of the others."""
    made = {
        "CUBA 4 million": lambda: cuba.network(4_000_000),
        "CUBA 200 000": lambda: cuba.network(200_000),
        "CUBA late": lambda: late_cuba(1.0),
        "areas": lambda: areas.network(0.1),
    }
    return undrawn_plan(made[name]() if name in made else copies(int(name.split()[0]), 1.0))


def place_of(owned, room):
    if owned.fours:
        return FOURS
    if owned.threads:
        return SEVERAL
    return REGISTERS if room.in_registers else SHARED if room.words_in_block == 3 else None


@pytest.mark.parametrize(
    ("circuits", "gpus", "where", "placed", "near"),
    [  # with a GPU a circuit, each is in registers
        (1, 1, REGISTERS, False, 0),
        (1, 2, REGISTERS, False, 0),
        (1, 4, REGISTERS, False, 0),
        (2, 1, SHARED, False, 57),
        (2, 2, REGISTERS, True, 0),
        (3, 1, SHARED, False, 47),
        (3, 2, REGISTERS, False, 57),  # of three circuits, none is on both GPUs
        (3, 3, REGISTERS, True, 0),
        (4, 1, SHARED, False, 33),
        (4, 2, SHARED, True, 57),
        (4, 4, REGISTERS, True, 0),
        (5, 2, SHARED, False, 57),
        (6, 1, SHARED, False, 19),  # 48 populations: no launch can pass what their neurons share
        (6, 2, SHARED, True, 46),
        (6, 3, SHARED, True, 57),
        (8, 4, SHARED, True, 57),
    ],
)
def test_circuits_of_eight_populations(circuits, gpus, where, placed, near):
    """In registers, the neurons of a thread would be of 16 populations if a GPU has two: most threads have none.

    Sums of all steps are in shared memory in 32 bits (`near` is 0), or those of so many of 57 steps in 16.
    """
    owned, room = shared_out(plan_named(f"{circuits} circuits"), gpus)
    assert place_of(owned, room) == where
    assert ((owned.placement is not None), room.sums.near) == (placed, near)
    assert room.ring_in_block == (near == 0)
    assert room.sums.mixed == (where == SHARED)
    assert not owned.pushed


@pytest.mark.parametrize(
    ("name", "gpus", "where"),
    [
        ("CUBA 200 000", 1, SEVERAL),  # five neurons of two populations, in most threads
        ("CUBA 200 000", 2, REGISTERS),
        ("CUBA 4 million", 1, FOURS),
        ("CUBA 4 million", 2, FOURS),
        ("CUBA 4 million", 4, FOURS),
        ("CUBA late", 2, FOURS),
        ("areas", 1, SHARED),  # in registers, a thread would take eleven turns, and not four
        ("areas", 2, SHARED),
        ("areas", 4, REGISTERS),
    ],
)
def test_other_networks(name, gpus, where):
    owned, room = shared_out(plan_named(name), gpus)
    assert place_of(owned, room) == where
    assert owned.pushed == (where == FOURS)
    assert room.sums.mixed == (where == SHARED)


@pytest.mark.parametrize(("blocks", "where"), [(32, SHARED), (64, SHARED), (96, REGISTERS)])
def test_eight_populations_on_fewer_blocks(blocks, where):
    """In registers, threads would take eight or nine turns for 1 206 or 2 412 neurons, and not two or three."""
    owned, room = shared_out(plan_named("1 circuits"), 1, blocks)
    assert place_of(owned, room) == where
    assert owned.on_chip == room.sums.mixed == (where == SHARED)


def test_four_populations_on_fewer_blocks():
    """Four turns of threads are not many more than two."""
    whole = copies(1, 1.0)
    names = {one.name for one in whole.populations[:4]}
    links = [one for one in whole.projections if {one.source.name, one.target.name} <= names]
    plan = undrawn_plan(be.Network(whole.populations[:4], links, dt=0.1))
    owned, room = shared_out(plan, 1, 50)
    assert place_of(owned, room) == SEVERAL
    assert len(owned.cells_of) == 4


def test_many_empty_places_do_not_make_blocks_push(monkeypatch):
    """Half a million places are not half a million neurons."""
    monkeypatch.setattr(shape, "_MORE_TURNS", 99)
    owned, _ = shared_out(plan_named("2 circuits"), 1)
    assert owned.sources > shape._MANY
    assert owned.threads
    assert not owned.pushed


# ---- the same bits


@pytest.fixture
def _placed(monkeypatch):
    """Small networks are placed, though rows of their neurons are short."""
    monkeypatch.setattr(part, "_LONG_ROW", 0)
    monkeypatch.setattr(part, "_BETWEEN", 1)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize(("turns", "constants"), [(2.4, 800), (2.4, 0), (99, 800)])
@pytest.mark.usefixtures("_placed")
def test_small_populations_have_the_bits_of_a_cpu(monkeypatch, gpus, turns, constants):
    """Side by side in shared memory, or several a thread: states, sums, samples and spikes are those of a CPU.

    What the neurons of a population share is passed with a launch, or there is no room for that.
    """
    monkeypatch.setattr(shape, "_MORE_TURNS", turns)
    monkeypatch.setattr(partition, "_MOST_CONSTANTS", constants)
    network = placing.ring(sizes=(220,) * (5 * gpus), inputs=40)
    plan = placing.drawn(network)
    engine = (
        several_of(plan, gpus, 1) if gpus > 1 else placing.CudaEngine(plan, blocks=1, device=placing.PretendDevice())
    )
    one = engine._parts[0] if gpus > 1 else engine
    assert one.shape.structure.mixed == (turns < 99) == (not one.partition.threads)
    assert one.shape.structure.many == (0 if constants else 5 * gpus)
    assert (one.partition.placement is not None) == (gpus > 1)
    names = tuple(p.name for p in network.populations)
    sample = Sample(names[1], "v", 3, np.array([7, 0, 7, 38]))
    record = placing.alike(engine, network, (1, 30, 9), Wanted(names, names, names, {"v": sample}))
    assert record["spikes"][names[0]][0].size > 5


@pytest.mark.parametrize("more", [21_120, 150_000])
def test_more_populations_than_a_launch_can_pass(monkeypatch, more):
    """Random numbers by tables in shared memory, which parameters that are set make anew; then in a program of JAX."""
    monkeypatch.setattr(partition, "_MOST_CONSTANTS", 0)
    plan, wanted = near.of_small_populations([0.0, 3, 12, 3, 30, 12]), Wanted(("p0", "p5"), ("p2",), ("p1",))
    engine, theirs = near.engine_of(plan, 1, near.DESK + near.KNOWN + more), Interpreted(plan)
    assert (engine.shape.structure.mixed, engine.shape.structure.many) == (True, 6)
    for population, rate in (("p1", 3), ("p0", 50), ("p5", 63)):
        for one in (engine, theirs):
            one.set(population, "rate", np.float32(rate))
        equal(*(as_tree(one.run(7, wanted, {})) for one in (engine, theirs)))
        equal(engine.state, theirs.state)
    sim = near.in_jax.built(plan, 1, None)
    assert sim.engine.shape.structure.many == 6
    near.in_jax.compare(sim, [12], Wanted(("p0", "p5"), ("p2",)))


@pytest.mark.usefixtures("_placed")
def test_more_populations_than_a_launch_can_pass_of_which_gpus_have_parts(monkeypatch):
    """Neurons of a population on the second GPU do not begin with its first one."""
    monkeypatch.setattr(partition, "_MOST_CONSTANTS", 0)
    network = placing.areas(sizes=(900, 900), inputs=20)
    engine = several_of(placing.drawn(network), 2, 1)
    assert all(one.shape.structure.many == 2 for one in engine._parts)
    assert engine._parts[1].partition.share("exc", 1800) == (0, 900, 900)
    theirs, drive = NumbaEngine(build_plan(network, seed=3)), np.random.default_rng(0)
    for steps in (1, 20, 5):
        inputs = {("exc", "syn"): drive.uniform(0, 2, (steps, 1800)).astype(np.float32)}
        equal(*(as_tree(one.run(steps, Wanted(("exc", "inh"), ("inh",)), inputs)) for one in (engine, theirs)))
        equal(engine.state, theirs.state)
