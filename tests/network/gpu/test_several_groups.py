# SPDX-License-Identifier: Apache-2.0
"""Areas that have blocks of their own on pretend GPUs: the same bits, and rows that are listed until they are due."""

import dataclasses
import itertools

import numpy as np
import pytest
import test_network_in_jax as in_jax
import test_several_gpus as several
from beside_interpreter import as_tree, equal, goes_on_in
from gpu_on_cpu import PretendDevice
from lanes_on_cpu import LanePeer
from ptx import ptx_of
from several_in_jax import built
from several_on_cpu import PretendPeer, several_of
from test_several_placed import alike, areas, drawn, spikes_of
from undrawn import shared_out, undrawn_plan

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition, shape, sums
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several import part
from brainevent.network.gpu.several import rows as several_rows
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.several.placement import grouped, placement_for
from brainevent.network.gpu.structs import COMPACT, PADDED, PARTED
from brainevent.network.gpu.text import step_text
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from examples.networks import areas as full_areas

ROOM = 48 * 1024  # of a block: sums of few steps have room there


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch):
    """Small networks are placed, though rows of their neurons are short, and registers have no room for states."""
    monkeypatch.setattr(part, "_LONG_ROW", 0)
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)


def network(sizes=(1300, 1000, 900, 1200), inputs=60, **more):
    """Return areas of so many neurons that blocks have more than threads."""
    more = {"weight": 0.15, "current": (150, 420), "spread": 0} | more
    return areas(sizes=sizes, inputs=inputs, **more)


def in_groups(plan, gpus=2, blocks=2, shared_bytes=ROOM, **more):
    """Return an engine whose GPUs have areas on blocks of their own."""
    engine = several_of(plan, gpus, blocks, shared_bytes=shared_bytes, **more)
    assert engine._parts[0].rows.layout == PARTED
    return engine


def structure_of(engine):
    return engine._parts[0].shape.structure


# ---- the same bits


@pytest.mark.parametrize(("shared_bytes", "constants"), [(ROOM, 800), (ROOM, 0), (110 * 1024, 800)])
def test_areas_have_the_bits_of_a_cpu(monkeypatch, shared_bytes, constants):
    """With what is recorded of neurons and of populations, whatever the blocks.

    What the neurons of a population share is passed with a launch, or there is no room for that.
    """
    monkeypatch.setattr(partition, "_MOST_CONSTANTS", constants)
    one = network()
    names = tuple(p.name for p in one.populations)
    sample = Sample("inh", "v", 3, np.array([7, 0, 7, 1038]))
    engine = in_groups(drawn(one), shared_bytes=shared_bytes)
    assert (structure_of(engine).message, structure_of(engine).groups) == (1, 2)
    assert structure_of(engine).many == (0 if constants else 2)
    assert 4 <= structure_of(engine).near < 20
    record = alike(engine, one, (1, 2, 60, 40), Wanted(names, names, names, {"v": sample}))
    assert record["spikes"]["exc"][0].size > 20


def test_populations_that_are_not_in_all_areas():
    """Areas on one and on two blocks, whose populations have other places."""
    labels = np.repeat(np.arange(3), (2700, 1500, 1300))
    exc = be.models.lif_delta("exc", labels.size, current=be.uniform(150, 420), at={"area": labels})
    some = labels[(labels != 1) & (np.arange(labels.size) % 4 == 0)]
    inh = be.models.lif_delta("inh", some.size, current=be.uniform(150, 420), at={"area": some})
    own, links = np.eye(3, dtype=int), []
    for source, target in ((exc, exc), (exc, inh), (inh, inh), (inh, exc)):
        there = np.ones((3, 3), int)
        if source is inh:
            there[:, 1] = 0
        if target is inh:
            there[1] = 0
        for table, delay in ((40 * own * there, be.uniform(0.1, 2.0)), (5 * (1 - own) * there, be.uniform(0.5, 3.0))):
            how = be.connect.in_degree(table, by="area", weight=0.2 if source is exc else -0.4)
            name = f"{source.name}->{target.name} {table.max()}"
            links.append(be.Projection(source, target, how, into="syn", delay=delay, name=name))
    one = be.Network([exc, inh], links, dt=0.1)
    plan = drawn(one)
    engine = in_groups(plan)
    assert [[group.blocks for group in part.partition.parts] for part in engine._parts] == [[2], [1, 1]]
    alike(engine, one, (1, 70), spikes_of(one))


@pytest.mark.parametrize(("inputs", "quads"), [(15, 400), (35, 930), (40, None)])
def test_few_neurons_that_have_most_synapses(inputs, quads):
    """Long rows beside short ones: the longest ones leave room for few warps where rows are sorted, or are too long."""
    which = np.repeat(np.arange(4), 1100)
    exc = be.models.lif_delta("exc", which.size, current=be.uniform(150, 420), at={"area": which})
    few = be.models.lif_delta("few", 40, current=be.uniform(300, 420), at={"area": np.repeat(np.arange(4), 10)})
    own, links = np.eye(4, dtype=int), []
    for source, target, number, weight in ((exc, exc, 20, 0.15), (exc, few, 20, 0.15), (few, exc, inputs, -0.2)):
        for table, delay in ((number * own, be.uniform(0.1, 2.0)), (1 - own, be.uniform(0.5, 3.0))):
            how = be.connect.in_degree(table, by="area", weight=weight)
            name = f"{source.name}->{target.name} {table.max()}"
            links.append(be.Projection(source, target, how, into="syn", delay=delay, name=name))
    one = be.Network([exc, few], links, dt=0.1)
    if quads is None:
        engine = several_of(drawn(one), 2, 2, shared_bytes=ROOM)
        assert engine._parts[0].rows.layout != PARTED
    else:
        engine = in_groups(drawn(one))
        starts = engine._parts[0].rows.starts.download(np.uint64, 2 * engine._parts[0].partition.sources)
        assert (((starts >> np.uint64(32)) & 0xFFF) > quads).sum() > 10
    record = alike(engine, one, (1, 60), spikes_of(one))
    assert record["spikes"]["few"][0].size > 5


def test_delays_of_two_steps_within_areas():
    """Spikes of the own GPU are read later, too."""
    one = network(late=0.5, soon=0.2)
    engine = in_groups(drawn(one))
    assert [structure_of(engine).lag, structure_of(engine).extra] == [1, 2]
    alike(engine, one, (1, 3, 70), spikes_of(one))


@pytest.mark.parametrize("due", [0, 2, 32])
def test_lists_of_rows_that_are_full(monkeypatch, due):
    """Rows that have no room there are added to sums in memory."""
    monkeypatch.setattr(sums, "_ROWS_DUE", due)
    one = network(current=(300, 900))
    engine = in_groups(drawn(one))
    assert structure_of(engine).pile_room == 2 * due
    alike(engine, one, (1, 60, 30), spikes_of(one))


def test_more_spikes_than_are_queued(monkeypatch):
    monkeypatch.setattr(shape, "_SMALL", (32, 24))
    one = network(current=(2000, 9000))
    record = alike(in_groups(drawn(one)), one, (50,), spikes_of(one))
    assert np.bincount(record["spikes"]["exc"][0]).max() > 200


def test_all_warps_deliver(monkeypatch):
    monkeypatch.setattr(shape, "_MANY_NEAR", 0)
    one = network()
    engine = in_groups(drawn(one))
    assert structure_of(engine).helping
    alike(engine, one, (1, 60), spikes_of(one))


def test_sums_that_leave_16_bits():
    """Weights of 12 000 quanta, and of one."""
    one, fine = network(weight=6.0, current=(300, 900)), []
    for link in one.projections:
        if link.name.endswith("between"):
            weight = 0.0005 if link.source.name == "exc" else -0.0005
            how = be.connect.in_degree(1 - np.eye(4, dtype=int), by="area", weight=weight)
            link = be.Projection(link.source, link.target, how, "syn", be.uniform(0.5, 3.0), name=link.name)  # noqa: PLW2901
        fine.append(link)
    one = be.Network(one.populations, fine, dt=0.1)
    engine = in_groups(drawn(one))
    assert not structure_of(engine).certain
    record = alike(engine, one, (1, 60), spikes_of(one))
    assert record["spikes"]["exc"][0].size > 200


def test_weights_that_are_set_and_have_more_than_16_bits():
    """Then rows are others, and no sums have 16 bits; with smaller weights all is as before."""

    def of_weights(within, between):
        one, links, own = network(), [], np.eye(4, dtype=int)
        for link in one.projections:
            table, weight = (60 * own, within) if link.name.endswith("within") else (1 - own, between)
            how = be.connect.in_degree(table, by="area", weight=weight)
            delay = be.uniform(0.1 if weight == within else 0.5, 1.5)
            links.append(be.Projection(link.source, link.target, how, "syn", delay, name=link.name))
        return be.Network(one.populations, links, dt=0.1)

    networks = [of_weights(*weights) for weights in ((0.1, 0.2), (5.0, 1e-4), (0.2, 0.1))]
    ours, theirs = in_groups(drawn(networks[0]), shared_bytes=40 * 1024), NumbaEngine(build_plan(networks[0], seed=3))
    for one, bits in zip(networks, (3, 17, 3), strict=True):
        for engine, plan in ((ours, drawn(one)), (theirs, build_plan(one, seed=3))):
            engine.set_weights(plan, dataclasses.replace(engine.state, quanta=plan.quanta))
            engine.run(30, Wanted(), {})
        rows = ours._parts[0].rows
        assert (rows.entry.weight_bits, rows.entry.wide, rows.layout == PARTED) == (bits, False, bits < 17)
        assert (structure_of(ours).near > 0) == (bits < 17)
        equal(ours.state, theirs.state)


@pytest.mark.parametrize("helping", [False, True])
def test_lanes_in_any_order(monkeypatch, helping):
    monkeypatch.setattr(shape, "_MANY_NEAR", 0 if helping else 2**18)
    one = network((1100, 1050, 1080, 1040), inputs=24)
    engine = SeveralEngine(drawn(one), devices=[LanePeer(k) for k in range(2)], blocks=2, shared_bytes=ROOM)
    assert (engine._parts[0].rows.layout, structure_of(engine).helping) == (PARTED, helping)
    alike(engine, one, (1, 12), spikes_of(one))


def test_the_last_steps_of_a_simulation():
    one = network()
    several.last_steps(in_groups(drawn(one)), NumbaEngine(build_plan(one, seed=3)), spikes_of(one))


def test_a_run_that_is_stopped_goes_on_elsewhere(monkeypatch):
    """Of rows that were listed, other engines see sums alone."""
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    one = network()
    plan, wanted, looks = drawn(one), spikes_of(one), iter([False, True])
    ours, theirs = in_groups(plan), NumbaEngine(build_plan(one, seed=3))
    record = ours.run(500, wanted, {}, lambda: next(looks))
    assert 0 < record.steps < 500
    equal(as_tree(record), as_tree(theirs.run(record.steps, wanted, {})))
    goes_on_in(ours.state, (CudaEngine(plan, blocks=4, device=PretendDevice()), several_of(plan, 4, 1), ours), theirs)


def test_one_digest_for_any_number_of_gpus(tmp_path):
    """Recordings, inputs, parameters that are set, and files that go from one to the other."""
    one = network()
    plan = drawn(one)
    engines = {0: NumbaEngine(build_plan(one, seed=3)), 2: in_groups(plan), 4: several_of(plan, 4, 1)}
    several.check_digests(one, 1, engines, ((2, 4, 2), (4, 2, 0)), tmp_path)


def test_a_program_of_jax():
    plan = drawn(network())
    sim = built(plan, 2, 2, ROOM)
    assert sim.engine._parts[0].rows.layout == PARTED
    in_jax.compare(sim, [30, 9], Wanted(("exc", "inh"), ("inh",)))


# ---- which networks have groups, and how these lie


def test_rows_are_sorted_and_as_long_for_all_blocks_of_an_area():
    engine = in_groups(drawn(network()))
    for one in engine._parts:
        partition, own = one.partition, one.rows
        starts = own.starts.download(np.uint64, (partition.sources, len(partition.parts)))
        words = own.synapses.download(np.uint32, own.synapses.nbytes // 4)
        begins, quads = (starts & 0xFFFFFFFF).astype(int), (starts >> np.uint64(32)).astype(int) & 0xFFF
        least = 0xFFF - (starts >> np.uint64(44)).astype(int)
        assert (quads > 0).any(axis=0).all()
        seen = 0
        for source in range(0, partition.sources, 97):
            for k, group in enumerate(partition.parts):
                n = quads[source, k]
                found = words[4 * begins[source, k] :][: 4 * n * group.blocks].reshape(group.blocks, 4 * n)
                there = [row[row > 0] for row in found]
                seen += sum(row.size for row in there)
                delays = [(row >> own.entry.delay_shift).astype(int) for row in there]
                assert all((np.diff(steps) >= 0).all() for steps in delays)
                assert all((row[: own_row.size] > 0).all() for row, own_row in zip(found, there, strict=True))
                assert -(-max((row.size for row in there), default=0) // 4) == n
                if n:
                    assert min(row[0] >> own.entry.delay_shift for row in there if row.size) == least[source, k]
        assert seen > 100


@pytest.mark.parametrize(("limit", "value", "layout"), [("_QUADS", 8, PADDED), ("_MOST_PADDING", 0.5, COMPACT)])
def test_areas_with_rows_that_are_too_long(monkeypatch, limit, value, layout):
    """They have blocks of their own, and other rows; so it is if rows as long for all blocks would have many gaps."""
    monkeypatch.setattr(several_rows, limit, value)
    one = network()
    engine = several_of(drawn(one), 2, 2, shared_bytes=ROOM)
    assert engine._parts[0].rows.layout == layout
    assert structure_of(engine).groups == 2
    alike(engine, one, (1, 60), spikes_of(one))


@pytest.mark.parametrize(
    ("make", "blocks", "is_grouped"),
    [
        (network, 2, True),
        (network, 8, True),
        (network, 1, False),  # fewer blocks than areas
        (lambda: network((1300, 1300, 500, 1900)), 3, False),  # a block would have much more work
        (lambda: network(inputs=2), 2, False),  # most synapses are between areas
    ],
)
def test_which_areas_have_blocks_of_their_own(make, blocks, is_grouped):
    plan = drawn(make())
    own = placement_for(plan, 2)
    found = grouped(plan, own, blocks)
    assert (found is not None) == is_grouped
    if found:
        for ranges, groups in zip(own.ranges, found.groups, strict=True):
            assert sum(group.blocks for group in groups) == blocks
            assert [group.first for group in groups] == np.cumsum([0, *(g.blocks for g in groups[:-1])]).tolist()
            for name, (low, high) in ranges.items():
                edges = [group.ranges[name] for group in groups]
                assert (edges[0][0], edges[-1][1]) == (low, high)
                assert all(one[1] == other[0] for one, other in itertools.pairwise(edges))


def test_areas_that_are_on_several_gpus_have_no_blocks_of_their_own():
    """Whole populations are placed, each with some neurons of all areas."""
    which, links = np.repeat(np.arange(2), (1300, 1200)), []
    cells = [be.models.lif_delta(f"cells{k}", 2500, current=be.uniform(150, 420), at={"area": which}) for k in range(2)]
    own = np.eye(2, dtype=int)
    for source, target in itertools.product(cells, cells):
        tables = (60 * own, 1 - own) if source is target else (2 * own + 1,)
        for table in tables:
            how = be.connect.in_degree(table, by="area", weight=0.15)
            delay = be.uniform(0.1 if source is target else 0.5, 3.0)
            name = f"{source.name}->{target.name} {table.max()}"
            links.append(be.Projection(source, target, how, into="syn", delay=delay, name=name))
    one = be.Network(cells, links, dt=0.1)
    plan = drawn(one)
    placed = placement_for(plan, 2)
    assert placed.sizes == [{"cells0": 2500, "cells1": 0}, {"cells0": 0, "cells1": 2500}]
    assert grouped(plan, placed, 2) is None
    alike(several_of(plan, 2, 2, shared_bytes=ROOM), one, (1, 40), spikes_of(one))


@pytest.mark.parametrize(("scale", "gpus", "groups"), [(1.0, 4, 6), (0.5, 2, 13), (0.3, 2, 0)])
def test_areas_of_full_size(monkeypatch, scale, gpus, groups):
    """As they were measured; and neurons that have room in shared memory."""
    monkeypatch.undo()
    owned, room = shared_out(undrawn_plan(full_areas.network(scale), 28), gpus)
    assert owned.placement is not None
    assert len(owned.parts) == groups
    assert owned.on_chip == (scale == 0.3)
    if groups:
        assert sum(group.blocks for group in owned.parts) == owned.here
        assert (room.words_in_block, room.sums.near, room.sums.mixed) == (3, 4, True)


def test_blocks_with_room_for_states_in_registers_are_not_grouped(monkeypatch):
    """Nor if those are in shared memory, since threads would take more turns with registers."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 16)
    plan = drawn(network())
    for turns in (99, 0):
        monkeypatch.setattr(shape, "_MORE_TURNS", turns)
        engine = several_of(plan, 2, 2, shared_bytes=ROOM if turns else 110 * 1024)
        assert bool(structure_of(engine).cells) == (not engine._parts[0].partition.on_chip) == (turns > 0)
        assert structure_of(engine).groups == 0


def test_blocks_with_room_for_all_sums_are_not_grouped():
    engine = several_of(drawn(network()), 2, 2, shared_bytes=227 * 1024, multiprocessors=9)
    assert structure_of(engine).groups == 0


def test_the_report_says_which_blocks_areas_have():
    plan = drawn(network())
    engine = in_groups(plan)
    said = engine.placement
    assert "rows of parts" in said
    assert "area 0 on block 0, area 1 on block 1" in said
    assert "area 2 on block 2, area 3 on block 3" in said
    assert "are in one group, so spikes of other groups are read 3 steps after theirs" in said


def test_areas_with_short_delays_between_them_wait_for_each_other():
    """Areas of a GPU that exchange spikes at once have blocks of their own, too."""
    which = np.repeat(np.arange(4), 1400)
    cells = be.models.lif_delta("cells", which.size, current=be.uniform(150, 420), at={"area": which})
    more = be.models.lif_delta("more", 700, current=be.uniform(150, 420), at={"area": which[::8]})
    own, pairs = np.eye(4, dtype=int), np.kron(np.eye(2, dtype=int), np.ones((2, 2), int))
    links = [
        be.Projection(
            source, target, be.connect.in_degree(table, by="area", weight=0.1), "syn", delay, name=f"{name} {k}"
        )
        for name, source, target in (("cc", cells, cells), ("cm", cells, more), ("mc", more, cells))
        for k, (table, delay) in enumerate(
            ((40 * own, be.uniform(0.1, 2.0)), (6 * (pairs - own), be.uniform(0.1, 3.0)), (3 * (1 - pairs), 0.9))
        )
    ]
    one = be.Network([cells, more], links, dt=0.1)
    engine = in_groups(drawn(one))
    assert (structure_of(engine).groups, structure_of(engine).groups_apart) == (2, False)
    assert "are on one GPU, so spikes of other GPUs" in engine.placement
    alike(engine, one, (1, 60), spikes_of(one))


def test_the_text_compiles_for_gpus():
    engine = in_groups(drawn(network()))._parts[0]
    for certain in (False, True):
        structure = dataclasses.replace(engine.shape.structure, certain=certain)
        ptx = ptx_of(step_text(engine.kinds, structure), "--std=c++17", capability=90)
        assert ".relaxed.sys" in ptx
        assert ".local" not in ptx


# ---- faults


@pytest.mark.parametrize("fault", ["never", "late"])
def test_a_gpu_that_is_missing_or_late(monkeypatch, fault):
    one, devices = network(), [PretendPeer(k) for k in range(2)]
    engine = SeveralEngine(drawn(one), devices=devices, blocks=2, shared_bytes=ROOM)
    assert engine._parts[0].rows.layout == PARTED
    begun = engine.state
    devices[1].fault = fault
    if fault != "late":
        monkeypatch.setattr(part, "PATIENCE", 1_000_000)
        engine._parts[0].net["patience"] = engine._parts[1].net["patience"] = 1_000_000
        with pytest.raises(be.errors.NetworkError, match=r"run: GPU 1 \(a pretend GPU\) sent no spikes"):
            engine.run(40, Wanted(), {})
        engine.load(begun)
    alike(engine, one, (40,), spikes_of(one))
