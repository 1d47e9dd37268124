# SPDX-License-Identifier: Apache-2.0
"""One network on the pretended GPUs of several processes, which are threads here: the bits of the interpreter."""

import dataclasses

import numpy as np
import pytest
import small_plans
import test_near_sums as near
import test_network_gpu as one_gpu
import test_neurons_in_fours as in_fours
from beside_interpreter import (
    ALL,
    DRAWN_PARAMS,
    DRAWN_STATE,
    as_tree,
    compare,
    drawing,
    equal,
    plans,
    said_of_nan,
    single,
    wishes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from joined_threads import Joined
from ptx import ptx_of
from several_on_cpu import PretendPeer

from brainevent.errors import NetworkError, NotFiniteError
from brainevent.network.gpu import partition
from brainevent.network.gpu.afar import afar_text
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT, SLOTS
from brainevent.network.gpu.text import step_text
from brainevent.network.hosts.gpu import OwnGpu
from brainevent.network.hosts.gpus import OwnOnGpus
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample, Wanted

SMALL = one_gpu.SMALL
GPUS = ([1], [1, 1], [1, 1, 1], [2], [2, 1], [1, 3], [2, 2])  # of each process


def later(plan, delay):
    """Return a plan whose synapses all have a delay of so many steps."""
    synapses = [dataclasses.replace(one, delays=np.full(1, delay, np.uint16)) for one in plan.synapses]
    return dataclasses.replace(plan, synapses=tuple(synapses))


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_several_processes_equal_the_interpreter(data):
    plan = data.draw(plans(1))
    wanted, inputs = data.draw(wishes(plan))
    cut, gpus = data.draw(st.integers(1, 23)), data.draw(st.sampled_from(GPUS))
    placed = data.draw(st.dictionaries(st.sampled_from("ab"), st.integers(0, sum(gpus) - 1)))
    engine = Joined(plan, len(gpus), gpus=gpus, placed=placed, shared_bytes=data.draw(st.sampled_from([None, SMALL])))
    compare(engine, [cut, 24 - cut], wanted, inputs)


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("gpus", [[1, 1], [1, 1, 1], [2, 2]])
def test_a_busy_network(gpus, shared_bytes):
    engine = Joined(small_plans.plan(1), len(gpus), gpus=gpus, blocks=1, shared_bytes=shared_bytes)
    (record, _) = compare(engine, [200, 57], ALL)
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize(
    ("edges", "shared_bytes", "layout", "weight"),
    [
        (3000, None, PADDED, "int16"),
        (3000, None, PADDED, "int32"),
        (150, None, SHORT, "int16"),
        (150, None, SHORT, "int32"),
        (400, SMALL, SLOTS, "int16"),
        (500_000, None, COMPACT, "int16"),
        (500_000, None, COMPACT, "int32"),
    ],
)
def test_every_layout_of_rows(edges, shared_bytes, layout, weight):
    plan = one_gpu.dense(edges, weight=weight)
    (synapses,) = plan.synapses
    if weight == "int32":
        plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * 2**20),))
    engine = Joined(plan, 2, blocks=1, shared_bytes=shared_bytes)
    assert [(one.rows.layout, one.rows.entry.wide) for one in engine.parts] == [(layout, weight == "int32")] * 2
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize(("size", "gpus"), [(40, [1, 1]), (3000, [1, 1]), (3000, [1, 2])])
def test_all_neurons_at_once(size, gpus):
    """More spikes than the first messages and lists have room for."""
    engine = Joined(one_gpu.bursting(size), 2, gpus=gpus, blocks=1, shared_bytes=SMALL)
    (record, _) = compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size == size * 14


@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, most):
    """In registers, several a thread, or in memory, where blocks push to the sums of their GPU."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = one_gpu.crowded()
    engine = Joined(plan, 2, blocks=1)
    assert bool(engine.parts[0].shape.structure.cells) == (most > 0)
    assert [one.rows.layout == PUSHED for one in engine.parts] == [most == 0] * 2
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize("delay", [0.1, 0.4])
def test_sums_of_a_byte(monkeypatch, delay):
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (96,))
    engine = Joined(in_fours.plan_of_two(exc=2400, inh=1400, delay=delay, round_delays=True), 2, blocks=1)
    assert [one.shape.structure.falling for one in engine.parts] == [(0b10, 0b10)] * 2
    compare(engine, [20, 9], in_fours.ALL)


@pytest.mark.parametrize("factor", [1, 700])
def test_sums_of_16_bits(factor):
    """With sums that leave 16 bits."""
    plan = one_gpu.dense(6000)
    (synapses,) = plan.synapses
    weights = synapses.weights * np.int16(factor)
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
    engine = Joined(plan, 2, blocks=1, shared_bytes=near.room_for(30, 9, 6))
    assert [one.shape.structure.near for one in engine.parts] == [6, 6]
    (*_, record) = compare(engine, [1, 12, 1, 40], near.SPIKES)
    assert record.spikes["a"][0].size > 50


def test_random_numbers_are_those_of_all_neurons():
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS)
    compare(Joined(plan, 2, gpus=[2, 1], blocks=1), [9, 8], Wanted(("a",), ("a",), ("a",)))


@pytest.mark.parametrize("gpus", [[1, 1], [2, 1]])
def test_launches_that_end_early(monkeypatch, gpus):
    """By the clock, and since lists of spikes are full; other processes wait for the same step."""
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    monkeypatch.setattr("brainevent.network.hosts.engine._MOST", 300)
    engine = Joined(later(small_plans.plan(1), 250), 2, gpus=gpus, blocks=1)
    assert engine.engines[0].apart == 250
    compare(engine, [400, 250, 1], ALL)
    assert engine.engines[0].processes.gathers < 80


QUIET = Wanted((), ("a", "b"), ("a",), {"v": Sample("a", "v", 7, np.arange(37))})


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("gpus", [[1, 1], [1, 1, 1], [2, 2]])
def test_exchanges_that_are_launched_ahead(gpus, delay):
    """More than one wave of them, and some steps that are left."""
    engine = Joined(later(small_plans.plan(1), delay), len(gpus), gpus=gpus, blocks=1)
    (record, *_) = compare(engine, [40 * delay, 7, 1, 16 * delay + 1], QUIET)
    assert record.counts["a"].sum() > 20


@pytest.mark.parametrize("gpus", [[1, 1], [2, 1]])
def test_exchanges_ahead_of_which_one_has_no_room(monkeypatch, gpus):
    """All neurons spike at once, now and then."""
    monkeypatch.setattr("brainevent.network.hosts.gpus._ROOM", 3)
    went, launched = [], OwnOnGpus.ahead

    def ahead(own, run, done, steps):
        went.append(launched(own, run, done, steps) - done)
        return done + went[-1]

    monkeypatch.setattr(OwnOnGpus, "ahead", ahead)
    engine = Joined(one_gpu.bursting(60), 2, gpus=gpus, blocks=1)
    (record, _) = compare(engine, [40, 27], Wanted((), ("a",), ("a",)))
    assert record.counts["a"].sum() > 60
    assert {0, 15} < set(went)
    assert engine.engines[0]._own._room == {2: 32, 3: 32}[sum(gpus)]


@pytest.mark.parametrize("gpus", [[1, 1], [2, 2]])
@pytest.mark.parametrize("step", [0, 2, 9])
def test_launches_ahead_of_which_one_ends_early(monkeypatch, step, gpus):
    """On one GPU, after a step or at once; then all have the same steps."""
    engine = Joined(later(small_plans.plan(1), 6), 2, gpus=gpus, blocks=1, largest_cluster=0)
    launch, launches = PretendPeer.launch, []

    def shorter(device, kernel, blocks, threads, shared, parameters, **how):
        if how.get("at_once") and device is engine.devices[1] and len(launches) < 12:
            launches.append(parameters[2])
            if len(launches) == step + 1:
                parameters = [*parameters[:2], np.uint32(step // 2).tobytes()]
        return launch(device, kernel, blocks, threads, shared, parameters, **how)

    monkeypatch.setattr(PretendPeer, "launch", shorter)
    compare(engine, [100, 30], QUIET)
    assert len(launches) == 12


@settings(max_examples=4, deadline=None)
@given(st.data())
def test_spikes_with_values_equal_the_interpreter(data):
    plan = small_plans.graded(data.draw(plans(1)), *data.draw(st.sampled_from(["", "a", "b"])))
    wanted, inputs = data.draw(wishes(plan))
    cut, gpus = data.draw(st.integers(1, 23)), data.draw(st.sampled_from(GPUS))
    engine = Joined(plan, len(gpus), gpus=gpus, shared_bytes=data.draw(st.sampled_from([None, SMALL])))
    compare(engine, [cut, 24 - cut], wanted, inputs)


@pytest.mark.parametrize("gpus", [[1, 1], [2, 1]])
@pytest.mark.parametrize("names", [(), ("a",)])
def test_spikes_with_values(names, gpus):
    """Of all populations, or of some, beside spikes without values; recorded and not."""
    for wanted in (ALL, QUIET):
        engine = Joined(small_plans.graded(small_plans.plan(1), *names), 2, gpus=gpus, blocks=2)
        assert engine.engines[0].apart == 1
        (record, *_) = compare(engine, [120, 7], wanted)
        assert record.counts["a"].sum() > 30


@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(("edges", "shared_bytes", "layout"), [(3000, None, PADDED), (150, None, SHORT)])
def test_spikes_with_values_in_rows(edges, shared_bytes, layout, weight):
    plan = one_gpu.dense(edges, weight=weight)
    (synapses,) = plan.synapses
    if weight == "int32":
        plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * 2**20),))
    engine = Joined(small_plans.graded(plan), 2, blocks=1, shared_bytes=shared_bytes)
    assert [(one.rows.layout, one.rows.entry.wide) for one in engine.parts] == [(layout, weight == "int32")] * 2
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


def test_values_of_all_neurons_at_once():
    """More spikes than the first messages and lists have room for."""
    engine = Joined(small_plans.graded(one_gpu.bursting(3000)), 2, gpus=[1, 2], blocks=1, shared_bytes=SMALL)
    (record, _) = compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size == 3000 * 14


@pytest.mark.parametrize("most", [16, 0])
def test_values_of_more_neurons_than_threads(monkeypatch, most):
    """In registers, several a thread, or in memory, where blocks push to the sums of their GPU."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = one_gpu.crowded()
    engine = Joined(small_plans.graded(plan, "a"), 2, blocks=1)
    assert [one.rows.layout == PUSHED for one in engine.parts] == [most == 0] * 2
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize("gpus", [[1, 1], [1, 2]])
def test_what_is_not_finite_is_named(gpus):
    plan = small_plans.plan(1, check_finite=True)
    assert said_of_nan(Joined(plan, 2, gpus=gpus, blocks=1)) == said_of_nan(Interpreted(plan))


@pytest.mark.parametrize("gpus", [[1, 1], [2, 1]])
@pytest.mark.parametrize("kind", ["checked", "graded"])
def test_what_is_not_finite_is_found_ahead_of_the_host(monkeypatch, kind, gpus):
    """In the middle of exchanges that nobody looks at, on one GPU; all have the state after that step."""
    plan = small_plans.plan(1, check_finite=True) if kind == "checked" else small_plans.graded(small_plans.plan(1))
    engine, other = Joined(plan, 2, gpus=gpus, blocks=1), Interpreted(plan)
    went, launched = [], OwnOnGpus.ahead

    def ahead(own, run, done, steps):
        went.append(launched(own, run, done, steps) - done)
        return done + went[-1]

    monkeypatch.setattr(OwnOnGpus, "ahead", ahead)
    said, given = [], np.zeros((80, 37), np.float32)
    given[20, 30:] = np.nan
    for one in (engine, other):
        one.run(3, QUIET, {})
        with pytest.raises(NotFiniteError) as error:
            one.run(80, QUIET, {("a", "syn"): given})
        said.append(str(error.value))
    assert said[0] == said[1]
    assert engine.step == other.step == 24
    assert any(0 < steps < 15 for steps in went[2:])
    equal(engine.state, other.state)


@pytest.mark.parametrize(
    ("gpus", "kind", "which"), [([1, 1], OwnOnGpus, 1), ([2, 2], OwnOnGpus, 1), ([2, 2], OwnGpu, 2)]
)
def test_weights_are_replaced_in_all_processes_or_in_none(monkeypatch, gpus, kind, which):
    """What fails is a process, or one of its GPUs."""
    plan = small_plans.plan(1)
    engine, other = Joined(plan, 2, gpus=gpus, blocks=1), Interpreted(plan)
    (first, *rest) = plan.synapses
    changed = dataclasses.replace(plan, synapses=(dataclasses.replace(first, weights=first.weights + 3), *rest))
    for one in (engine, other):
        one.run(20, ALL, {})
    name = "with_weights" if kind is OwnOnGpus else "set_weights"
    place, state = getattr(kind, name), other.state

    def failing(own, *given):
        number = own._processes.number if kind is OwnOnGpus else own.shares.number
        if number == which:
            raise NetworkError("planted")
        return place(own, *given)

    with monkeypatch.context() as planted:
        planted.setattr(kind, name, failing)
        with pytest.raises(NetworkError, match="process 1 failed: NetworkError: planted"):
            engine.set_weights(changed, state)
    equal(as_tree(engine.run(20, ALL, {})), as_tree(other.run(20, ALL, {})))
    for one in (engine, other):
        one.set_weights(changed, other.state)
    equal(as_tree(engine.run(20, ALL, {})), as_tree(other.run(20, ALL, {})))
    equal(engine.state, other.state)


@pytest.mark.parametrize("gpus", [[1, 1], [1, 2]])
def test_a_kernel_that_fails_ends_the_run_in_all_processes(gpus):
    plan = small_plans.plan(1)
    engine, other = Joined(plan, 2, gpus=gpus, blocks=1, largest_cluster=0), Interpreted(plan)
    engine.devices[-1].fault = "refused"
    with pytest.raises(NetworkError, match="run: process 1 failed: KernelLoadError"):
        engine.run(20, ALL, {})
    with pytest.raises(NetworkError, match="interrupted within a step"):
        engine.run(20, ALL, {})
    engine.load(other.state)
    equal(as_tree(engine.run(20, ALL, {})), as_tree(other.run(20, ALL, {})))


def test_the_text_compiles_for_gpus():
    assert "cvt.rni" in ptx_of(afar_text(None))  # values are rounded as in the kernel of one GPU
    engine = Joined(small_plans.graded(small_plans.plan(1)), 2, blocks=1).parts[0]
    text = step_text(engine.kinds, engine.shape.structure)
    assert "#define TELLS" in text
    ptx_of(text)
    plain = Joined(small_plans.plan(1), 2, blocks=1).parts[0]
    assert "#define TELLS" not in step_text(plain.kinds, plain.shape.structure)
