# SPDX-License-Identifier: Apache-2.0
"""Parts of a network that are placed on pretend GPUs: the same bits, and which networks are placed."""

import dataclasses
import re

import numpy as np
import pytest
import test_several_gpus as several
from beside_interpreter import as_tree, equal, goes_on_in
from gpu_on_cpu import PretendDevice
from ptx import ptx_of
from several_on_cpu import PretendPeer, several_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several import exchange, part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.several.placement import placement_for
from brainevent.network.gpu.structs import COMPACT, PADDED, SHORT, SLOTS
from brainevent.network.gpu.text import step_text
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation

SMALL = several.SMALL


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch):
    """Small networks are placed, though rows of their neurons are short, and send messages, however these lie."""
    monkeypatch.setattr(part, "_LONG_ROW", 0)
    monkeypatch.setattr(part, "_BETWEEN", 1)
    monkeypatch.setattr(exchange, "_MESSAGES", True)


def areas(
    late=0.5, soon=0.1, sizes=(30, 26, 34, 28), inputs=6, current=(100, 420), labels=None, weight=0.8, spread=0.2
):
    """Return two populations in areas, between which delays are longer than within."""
    which = np.repeat(np.arange(len(sizes)), sizes) if labels is None else labels
    exc, inh = (
        be.models.lif_delta(name, which[::step].size, current=be.uniform(*current), at={"area": which[::step]})
        for name, step in (("exc", 1), ("inh", 3))
    )
    links, own = [], np.eye(len(sizes), dtype=int)
    for source, law in ((exc, be.normal(weight, spread * weight) if spread else weight), (inh, -weight)):
        for target in (exc, inh):
            for table, delay in ((inputs * own, be.uniform(soon, 2.0)), (1 - own, be.uniform(late, 3.0))):
                how = be.connect.in_degree(table, by="area", weight=law)
                name = f"{source.name}->{target.name} {'within' if table[0, 0] else 'between'}"
                links.append(be.Projection(source, target, how, into="syn", delay=delay, name=name))
    return be.Network([exc, inh], links, dt=0.1)


def ring(late=0.4, sizes=(40, 40, 40, 40), inputs=7):
    """Return populations with synapses within each, and from each to the next one."""
    cells = [be.models.lif_delta(f"cells{k}", size, current=be.uniform(100, 420)) for k, size in enumerate(sizes)]
    links = []
    for one, other in zip(cells, [*cells[1:], cells[0]], strict=True):
        for target, delay in ((one, be.uniform(0.1, 1.0)), (other, be.uniform(late, 2.0))):
            how = be.connect.in_degree(inputs, replace=True, weight=be.normal(0.8, 0.2))
            links.append(be.Projection(one, target, how, into="syn", delay=delay, name=f"{one.name}->{target.name}"))
    return be.Network(cells, links, dt=0.1)


NETWORKS = {"areas": areas, "ring": ring}


def drawn(network):
    """Return the plan of a network whose synapses are drawn on devices."""
    return build_plan(network, seed=3, measure=Drawing(PretendDevice()))


def placed(plan, gpus, blocks=2, **more):
    """Return an engine whose GPUs have parts of a network."""
    engine = several_of(plan, gpus, blocks, **more)
    assert engine._parts[0].partition.placement is not None
    return engine


def alike(engine, network, pieces, wanted):
    """Run an engine and the CPU in the same pieces; return what the last one recorded."""
    theirs = NumbaEngine(build_plan(network, seed=3))
    for steps in pieces:
        expected = as_tree(theirs.run(steps, wanted, {}))
        equal(as_tree(engine.run(steps, wanted, {})), expected)
        equal(engine.state, theirs.state)
    return expected


def spikes_of(network):
    return Wanted(tuple(one.name for one in network.populations))


# ---- the same bits


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_placed_network_has_the_bits_of_a_cpu(name, gpus, shared_bytes):
    network = NETWORKS[name]()
    names = tuple(one.name for one in network.populations)
    sample = Sample(names[1], "v", 3, np.array([7, 0, 7, 38]))
    record = alike(
        placed(drawn(network), gpus, shared_bytes=shared_bytes),
        network,
        (1, 2, 130, 40),
        Wanted(names, names, names, {"v": sample}),
    )
    assert record["spikes"][names[0]][0].size > 20


def test_synapses_that_are_drawn_on_the_host():
    network = ring()
    alike(placed(build_plan(network, seed=3), 2), network, (90,), spikes_of(network))


@pytest.mark.parametrize("gpus", [2, 3])
def test_populations_of_other_sizes(gpus):
    """Places of a GPU that have no neurons; populations that are not there."""
    network = ring(sizes=(31, 70, 33, 72, 36, 68) if gpus == 3 else (60, 21, 20, 62))
    engine = placed(drawn(network), gpus)
    assert any(low == high for own in engine._parts[0].partition.placement.ranges for low, high in own.values())
    alike(engine, network, (1, 80), spikes_of(network))


@pytest.mark.parametrize(
    ("inputs", "late", "shared_bytes", "layout"),
    [(20, 0.2, None, PADDED), (2, 0.3, None, SHORT), (2, 0.3, SMALL, SLOTS), (24, 0.5, SMALL, COMPACT)],
)
def test_messages_between_parts(monkeypatch, inputs, late, shared_bytes, layout):
    """Spikes of which a message has no room, in launches of any length: each GPU has padded rows of its own."""
    monkeypatch.setattr("brainevent.network.gpu.run._NANOSECONDS", 1)
    monkeypatch.setattr(exchange, "_MESSAGE", 1)
    monkeypatch.setattr("brainevent.network.gpu.several.rows._MOST_PADDING", 0.5 if layout == COMPACT else 4)
    spread = 0 if layout == SLOTS else 0.2  # slots have no weights of a word of their own
    network = areas(late, inputs=inputs, sizes=(90, 110, 100, 80), current=(100, 800), spread=spread)
    engine = placed(drawn(network), 2, 3, shared_bytes=shared_bytes)
    structure = engine._parts[0].shape.structure
    assert engine._parts[0].rows.layout == layout
    assert (structure.lag, structure.extra) == (0, min(3, round(late * 10) - 1))
    assert structure.message == (0 if structure.direct else 1)
    assert structure.apart == (layout == PADDED)
    record = alike(engine, network, (1, 2, 90, 20), spikes_of(network))
    assert np.bincount(record["spikes"]["exc"][0]).max() > 6


def test_delays_of_two_steps_within_parts(monkeypatch):
    """Spikes of the own GPU are read later, too."""
    network = areas(late=0.4, soon=0.2)
    engine = placed(drawn(network), 2)
    assert [engine._parts[0].shape.structure.lag, engine._parts[0].shape.structure.extra] == [1, 2]
    alike(engine, network, (1, 3, 90), spikes_of(network))


def test_parts_without_synapses_between_them(monkeypatch):
    monkeypatch.setattr(exchange, "_MESSAGE", 2)
    network = areas()
    network = be.Network(network.populations, [one for one in network.projections if "within" in one.name], dt=0.1)
    engine = placed(drawn(network), 2, 3, shared_bytes=SMALL)
    assert engine._parts[0].shape.structure.message == 2
    alike(engine, network, (1, 3, 90), spikes_of(network))


@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, most):
    """In registers, several a thread, or in memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    network = areas(sizes=(1300, 1200, 900, 1000), inputs=30)
    engine = placed(drawn(network), 2, 1)
    assert bool(engine._parts[0].shape.structure.cells) == (most > 0)
    alike(engine, network, (4, 25), Wanted(("exc", "inh"), ("inh",)))


def test_tags_of_steps_begin_again():
    network = areas()
    engine, theirs = placed(drawn(network), 2), NumbaEngine(build_plan(network, seed=3))
    for one in (engine, theirs):
        one.load(dataclasses.replace(theirs.state, step=np.uint32(0xFFFA)))
        one.run(9, Wanted(), {})
    equal(engine.state, theirs.state)


def test_a_list_of_spikes_that_becomes_full():
    """It ends the launch in time on all GPUs, and the next one has more room."""
    network = areas(current=(4000, 9000))
    engine = placed(drawn(network), 2, 1)
    alike(engine, network, (1500,), spikes_of(network))
    assert engine._parts[0]._spikes.capacity > 4096


@pytest.mark.parametrize("messages", [False, True])
def test_a_run_that_is_stopped_goes_on_elsewhere(monkeypatch, messages):
    """All GPUs end after the same step, though they hear of it at other times."""
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    monkeypatch.setattr(exchange, "_MESSAGE", 2 if messages else 99)
    network = areas()
    plan, wanted, looks = drawn(network), spikes_of(network), iter([False, True])
    ours, theirs = placed(plan, 2, 3, shared_bytes=SMALL), NumbaEngine(build_plan(network, seed=3))
    assert (ours._parts[0].shape.structure.message > 0) == messages
    record = ours.run(500, wanted, {}, lambda: next(looks))
    assert 0 < record.steps < 500
    equal(as_tree(record), as_tree(theirs.run(record.steps, wanted, {})))
    goes_on_in(ours.state, (CudaEngine(plan, blocks=2, device=PretendDevice()), several_of(plan, 4, 1), ours), theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_digest_for_any_number_of_gpus(name, tmp_path):
    """Recordings, inputs, parameters that are set, and files that go from one to the other."""
    network = NETWORKS[name]()
    plan = drawn(network)
    engines = {
        0: NumbaEngine(build_plan(network, seed=3)),
        1: CudaEngine(plan, blocks=4, device=PretendDevice()),
        2: placed(plan, 2),
        4: placed(plan, 4, 1),
    }
    several.check_digests(network, 1, engines, ((1, 2, 4), (4, 0, 2)), tmp_path)


def test_weights_are_replaced():
    network = ring()
    ours, theirs = placed(build_plan(network, seed=3), 2), NumbaEngine(build_plan(network, seed=3))
    for factor in (1, -2):
        synapses = tuple(dataclasses.replace(one, weights=one.weights * factor) for one in theirs.plan.synapses)
        for engine in (ours, theirs):
            engine.set_weights(dataclasses.replace(theirs.plan, synapses=synapses), engine.state)
            engine.run(30, Wanted(), {})
        equal(ours.state, theirs.state)


# ---- which networks are placed, and where


@pytest.mark.parametrize(
    ("make", "gpus", "is_placed"),
    [
        (areas, 2, True),
        (areas, 4, True),
        (lambda: areas(late=0.2), 4, True),
        (lambda: areas(late=0.1), 4, False),  # delays between areas are as short as within
        (lambda: areas(soon=0.4), 4, False),  # all delays are long
        (areas, 3, False),  # of four areas
        (lambda: areas(sizes=(90, 10, 10, 10)), 2, False),  # one of them is most of the network
        (lambda: areas(labels=np.tile(np.arange(4), 30)), 2, False),  # not in order
        (ring, 4, True),
        (lambda: ring(late=0.1), 4, False),
        (lambda: ring(sizes=(90, 10, 10, 10)), 2, False),
    ],
)
def test_which_networks_are_placed(make, gpus, is_placed):
    assert (placement_for(drawn(make()), gpus) is not None) == is_placed


def test_networks_with_short_rows_are_not_placed(monkeypatch):
    """A block has few synapses of each neuron: more blocks deliver them side by side. Nor do they send messages."""
    monkeypatch.setattr(part, "_LONG_ROW", 6)
    monkeypatch.setattr(exchange, "_MESSAGES", False)
    monkeypatch.setattr(exchange, "_MESSAGE", 1)
    for inputs, is_placed in ((8, False), (30, True)):
        one = several_of(drawn(areas(inputs=inputs)), 2, 2, shared_bytes=SMALL)._parts[0]
        assert (one.partition.placement is not None) == is_placed
        assert one.shape.structure.message == is_placed == (one.rows.number_of is not None)


def test_networks_with_many_synapses_between_gpus_are_not_placed(monkeypatch):
    """Half of the synapses in a ring are from the population before."""
    plan = drawn(ring(inputs=12))
    assert placement_for(plan, 4).between == pytest.approx(0.5)
    assert placement_for(plan, 2).between in (pytest.approx(0.25), pytest.approx(0.5))
    assert placement_for(drawn(areas(inputs=12)), 4).between == pytest.approx(3 / 15)
    for most in (0.4, 0.6):
        monkeypatch.setattr(part, "_BETWEEN", most)
        assert (several_of(plan, 4)._parts[0].partition.placement is not None) == (most > 0.5)


def test_networks_that_need_spikes_at_once_are_not_placed():
    plan = drawn(areas())
    assert placement_for(plan, 2) is not None
    assert placement_for(dataclasses.replace(plan, check_finite=True), 2) is None
    assert placement_for(plan, 1) is None


def test_gpus_have_alike_work():
    """Areas that follow each other, of any sizes: work is neurons, and synapses that end there."""
    sizes = np.random.default_rng(0).integers(10, 40, 24)
    plan = drawn(areas(sizes=tuple(sizes), inputs=3))
    found = placement_for(plan, 4)
    neurons = [sum(own.values()) for own in found.sizes]
    assert sum(neurons) == sum(p.size for p in plan.populations)
    assert max(neurons) < 1.15 * np.mean(neurons)
    edges = {0, *np.cumsum(sizes).tolist()}
    assert all(set(own["exc"]) <= edges for own in found.ranges)


def test_areas_with_short_delays_between_them_stay_together():
    """Of six areas, the first two exchange spikes at once, and so do the third and the fourth, and the others."""
    which = np.repeat(np.arange(6), 20)
    cells = be.models.lif_delta("cells", 120, current=300.0, at={"area": which})
    same = np.arange(6)[:, None] // 2 == np.arange(6)[None] // 2
    links = [
        be.Projection(
            cells, cells, be.connect.in_degree(table * 3, by="area", weight=0.5), "syn", delay, name=str(delay)
        )
        for table, delay in ((same, 0.1), (~same, 0.5))
    ]
    plan = drawn(be.Network([cells], links, dt=0.1))
    assert [own["cells"] for own in placement_for(plan, 3).ranges] == [(0, 40), (40, 80), (80, 120)]
    assert placement_for(plan, 2) is None
    assert placement_for(plan, 6) is None


def test_the_report_says_what_is_where():
    plan = drawn(areas())
    engine = placed(plan, 2)
    engine.run(5, Wanted(), {})
    report = Simulation(plan, engine).report()
    assert re.search(r"GPU 0 \(a pretend GPU\): blocks 0 to 1 of 4, .*, exc\[0:56\], inh\[0:19\]\n", report)
    assert re.search(r"GPU 1 \(a pretend GPU\): blocks 2 to 3 of 4, .*, exc\[56:118\], inh\[19:40\]\n", report)
    assert "so spikes of other GPUs are read 3 steps after theirs" in report
    plan = drawn(ring(late=0.2))
    report = placed(plan, 4).placement
    assert re.search(r"GPU 3 \(a pretend GPU\): .*, cells\d\n", report)
    assert "so spikes of other GPUs are read 1 step after theirs" in report


# ---- faults


@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize("fault", ["never", "ended", "late"])
def test_a_gpu_that_is_missing_or_late(monkeypatch, fault, messages):
    monkeypatch.setattr(exchange, "_MESSAGE", 2 if messages else 99)
    network, devices = areas(), [PretendPeer(k) for k in range(2)]
    engine = SeveralEngine(drawn(network), devices=devices, blocks=3, shared_bytes=SMALL)
    assert engine._parts[0].partition.placement is not None
    assert (engine._parts[0].shape.structure.message > 0) == messages
    begun = engine.state
    devices[1].fault = fault
    if fault != "late":
        monkeypatch.setattr(part, "PATIENCE", 1_000_000)
        engine._parts[0].net["patience"] = engine._parts[1].net["patience"] = 1_000_000
        with pytest.raises(NetworkError, match=r"run: GPU 1 \(a pretend GPU\) sent no spikes"):
            engine.run(40, Wanted(), {})
        engine.load(begun)
    alike(engine, network, (40,), spikes_of(network))


@pytest.mark.parametrize("messages", [False, True])
def test_the_text_compiles_for_gpus(monkeypatch, messages):
    monkeypatch.setattr(exchange, "_MESSAGE", 2 if messages else 99)
    engine = placed(drawn(areas(inputs=20)), 2, 3, shared_bytes=SMALL)._parts[0]
    assert engine.shape.structure.apart == messages
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure), "--std=c++17", capability=75)
    assert ".relaxed.sys" in ptx
    assert ".local" not in ptx
