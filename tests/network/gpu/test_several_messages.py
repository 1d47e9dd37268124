# SPDX-License-Identifier: Apache-2.0
"""One message from a GPU to each other one, on pretend GPUs: the same bits, any number of spikes, and what fails."""

import dataclasses
import re

import numpy as np
import pytest
import small_plans
import test_network_gpu as one_gpu
from beside_interpreter import ALL, as_tree, compare, equal, goes_on_in
from gpu_on_cpu import PretendDevice
from ptx import ptx_of
from several_on_cpu import PretendPeer, several_of
from test_several_gpus import later, with_delays

from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several import exchange, part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.structs import COMPACT, PADDED, SHORT, SLOTS
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation

SMALL = one_gpu.SMALL


@pytest.fixture(autouse=True)
def _short_messages(monkeypatch):
    """Few blocks gain from messages of few units: of two, six rows."""
    monkeypatch.setattr(exchange, "_MESSAGE", 2)
    monkeypatch.setattr(exchange, "_MESSAGES", True)


def told(plan, gpus=2, blocks=3, **more):
    """Return an engine whose GPUs send messages."""
    engine = several_of(plan, gpus, blocks, **more)
    assert engine._parts[0].shape.structure.message == exchange._MESSAGE
    return engine


@pytest.mark.parametrize(("gpus", "more", "lag"), [(2, 1, 1), (4, 7, 3)])
def test_a_busy_network(monkeypatch, gpus, more, lag):
    """In pieces, and in launches that end in the midst of one."""
    monkeypatch.setattr("brainevent.network.gpu.run._NANOSECONDS", 1)
    engine = told(later(small_plans.plan(), more), gpus, shared_bytes=SMALL)
    assert engine._parts[0].shape.structure.lag == lag
    (*_, record) = compare(engine, [1, 2, 3, 150], ALL)
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize(
    ("edges", "weight", "shared_bytes", "layout"),
    [
        (20_000, "int16", None, PADDED),
        (400, "int16", SMALL, SLOTS),
        (400, "int32", SMALL, SHORT),  # slots have no weights of a word of their own
        (780_000, "int16", None, COMPACT),
    ],
)
def test_every_layout_of_rows(edges, weight, shared_bytes, layout):
    """Numbers in a message are those that packets have, or follow from them and from their block."""
    plan = later(one_gpu.dense(edges, weight=weight), 2)
    (synapses,) = plan.synapses
    factor = 2**20 if weight == "int32" else 1
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * factor),))
    engine = told(plan, shared_bytes=shared_bytes)
    assert engine._parts[0].rows.layout == layout
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize(("most", "edges", "units"), [(32, 400_000, 1), (50, 10_000, 2), (50, 400_000, 1)])
def test_any_number_of_spikes(monkeypatch, most, edges, units):
    """In a unit of a packet, in several, and in a list; in a message, and in a list of the rows of a GPU."""
    monkeypatch.setattr(exchange, "_MESSAGE", units)
    engine = told(later(one_gpu.one_after_another(most, 6, edges), 2), shared_bytes=SMALL)
    assert engine._parts[0].shape.structure.units == (1 if most == 32 else 4)
    compare(engine, [most + 12], Wanted(("a",)))


@pytest.mark.parametrize("size", [700, 2600])
def test_all_neurons_at_once(size):
    """More rows than a courier has room for in shared memory."""
    engine = told(later(one_gpu.bursting(size), 2), shared_bytes=SMALL)
    assert (size / 2 > 2 * engine._parts[0].shape.structure.queue) == (size == 2600)
    (record, _) = compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size > size * 5


def test_tags_of_steps_begin_again():
    plan = later(small_plans.plan(), 2)
    ours, theirs = told(plan, shared_bytes=SMALL), Interpreted(plan)
    for one in (ours, theirs):
        one.load(dataclasses.replace(theirs.state, step=np.uint32(0xFFFB)))
        one.run(9, Wanted(), {})
    equal(ours.state, theirs.state)


@pytest.mark.parametrize("gpus", [2, 3])
def test_a_run_that_is_stopped_goes_on_elsewhere(monkeypatch, gpus):
    """All GPUs end after the same step, as do their couriers; the state goes to one GPU, and back to several."""
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    plan, looks = later(small_plans.plan(), 2), iter([False, True])
    ours, theirs = told(plan, gpus, shared_bytes=SMALL), Interpreted(plan)
    record = ours.run(500, ALL, {}, lambda: next(looks))
    assert 0 < record.steps < 500
    equal(as_tree(record), as_tree(theirs.run(record.steps, ALL, {})))
    goes_on_in(ours.state, (CudaEngine(plan, blocks=2, device=PretendDevice()), ours), theirs)


def test_a_whole_network_has_one_state():
    """On the CPU, on one GPU, and on two and four that send messages; synapses are drawn on each."""
    network = with_delays()
    drawn = build_plan(network, seed=3, measure=Drawing(PretendDevice()))
    engines = [
        NumbaEngine(build_plan(network, seed=3)),
        CudaEngine(drawn, blocks=4, device=PretendDevice()),
        *(told(drawn, gpus, shared_bytes=SMALL) for gpus in (2, 4)),
    ]
    found = [as_tree(engine.run(300, Wanted(("cells",)), {})) for engine in engines]
    assert found[0]["spikes"]["cells"][0].size > 20
    for record, engine in zip(found[1:], engines[1:], strict=True):
        equal(record, found[0])
        equal(engine.state, engines[0].state)


# ---- which networks


def test_which_networks_send_messages(monkeypatch):
    """Where fewer listen to them than to blocks, spikes may take longer, and a multiprocessor is spare."""

    def message(plan, blocks, **more):
        return several_of(plan, 2, blocks, **more)._parts[0].shape.structure.message

    late = later(one_gpu.dense(20_000), 2)
    assert message(late, 3) == 2
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_MESSAGES", False)
        assert message(late, 3) == 0  # rows lie at one place on both GPUs
    assert message(late, 2) == 0  # of two blocks, two units
    assert message(late, 8) == 0  # of eight multiprocessors
    assert message(one_gpu.dense(20_000), 3) == 0  # a delay of one step
    assert message(small_plans.graded(late), 3) == 0
    assert message(dataclasses.replace(late, check_finite=True), 3) == 0
    assert message(later(small_plans.plan(), 2), 3) == 0  # all rows in shared memory
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    assert message(later(one_gpu.bursting(7000), 2), 3) == 0  # blocks push


def test_a_multiprocessor_is_spare():
    plan = later(one_gpu.dense(20_000), 2)
    engine = told(plan)
    part_of = engine._parts[0].partition
    whole = dataclasses.replace(part_of, blocks=4 * 128, own=128)
    assert exchange.exchange_structure(whole, plan, 132)["message"] == 2
    assert exchange.exchange_structure(whole, plan, 128)["message"] == 0


def test_the_report_says_so():
    plan = later(one_gpu.dense(20_000), 2)
    engine = told(plan)
    engine.run(5, Wanted(), {})
    report = Simulation(plan, engine).report()
    assert re.search(r"a spare block of each GPU sends the spikes of a step to each other GPU\n", report)


# ---- faults


@pytest.mark.parametrize("fault", ["never", "ended"])
@pytest.mark.parametrize("number", [0, 2])
def test_a_gpu_that_is_missing_ends_the_others(monkeypatch, fault, number):
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    plan = later(small_plans.plan(), 2)
    devices = [PretendPeer(k) for k in range(3)]
    engine, theirs = SeveralEngine(plan, devices=devices, blocks=3, shared_bytes=SMALL), Interpreted(plan)
    assert engine._parts[0].shape.structure.message == 2
    engine.run(5, Wanted(), {})
    devices[number].fault = fault
    with pytest.raises(NetworkError, match=rf"run: GPU {number} \(a pretend GPU\) sent no spikes"):
        engine.run(40, ALL, {})
    engine.load(theirs.state)
    compare(engine, [9], ALL)


def test_a_gpu_that_is_late_is_waited_for():
    devices = [PretendPeer(k) for k in range(3)]
    plan = later(small_plans.plan(), 2)
    engine = SeveralEngine(plan, devices=devices, blocks=3, shared_bytes=SMALL)
    devices[1].fault = "late"
    compare(engine, [30], ALL)
    assert devices[1].fault is None


@pytest.mark.parametrize("size", [700, pytest.param(2600, marks=pytest.mark.thorough)])
def test_the_text_compiles_for_gpus(size):
    """Memory is ordered for all GPUs; no array of a thread lies in memory."""
    engine = told(later(one_gpu.bursting(size), 2), shared_bytes=SMALL)._parts[0]
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure), "--std=c++17", capability=75)
    assert ".relaxed.sys" in ptx
    assert ".gpu" not in ptx
    assert ".local" not in ptx
