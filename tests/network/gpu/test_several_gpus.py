# SPDX-License-Identifier: Apache-2.0
"""One network on several pretend GPUs: the bits of one GPU and of the CPU, for any number; and what fails, in words."""

import dataclasses
import functools
import gc
import hashlib
import os
import re
import signal
import threading
from pathlib import Path

import coupled_plans
import numpy as np
import pytest
import small_plans
import test_network_gpu as one_gpu
import test_neurons_in_fours as in_fours
from beside_interpreter import ALL, as_tree, compare, equal, plans, said_of_nan, wishes
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import ptx_of
from several_on_cpu import RELEASED, PretendPeer, several_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.device import LAUNCHING
from brainevent.network.gpu.drawing import Drawing, drawing_text
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.kinds import kinds_of
from brainevent.network.gpu.several import launching, part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.several.meeting import together
from brainevent.network.gpu.sorter import rows_text
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT, SLOTS
from brainevent.network.gpu.text import step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from examples.networks import coba, cuba, microcircuit

SMALL = one_gpu.SMALL


# ---- the same bits


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_several_gpus_equal_the_interpreter(data):
    plan = data.draw(plans(data.draw(st.integers(1, 2))))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    gpus, blocks = data.draw(st.sampled_from([(2, 1), (2, 2), (3, 1)]))
    engine = several_of(plan, gpus, blocks, shared_bytes=data.draw(st.sampled_from([None, SMALL])))
    compare(engine, [cut, 24 - cut], wanted, inputs)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("gpus", "blocks"), [(2, 2), (3, 1), (4, 1)])
def test_a_busy_network(gpus, blocks, shared_bytes):
    engine = several_of(small_plans.plan(2), gpus, blocks, shared_bytes=shared_bytes)
    (record, _) = compare(engine, [200, 57], ALL)
    assert record.spikes["a"][0].size > 50


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(
    ("edges", "blocks", "shared_bytes", "layout"),
    [(1500, 1, None, PADDED), (150, 2, None, SHORT), (400, 2, SMALL, SLOTS), (260_000, 1, None, COMPACT)],
)
def test_every_layout_of_rows(edges, blocks, shared_bytes, layout, weight):
    """An address in a packet holds on every GPU."""
    plan = one_gpu.dense(edges, weight=weight)
    (synapses,) = plan.synapses
    if weight == "int32":
        plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * 2**20),))
        layout = SHORT if layout == SLOTS else layout  # slots have no weights of a word of their own
    engine = several_of(plan, 2, blocks, shared_bytes=shared_bytes)
    assert [(one.rows.layout, one.rows.entry.wide) for one in engine._parts] == [(layout, weight == "int32")] * 2
    assert len({one.rows.rows.tobytes() for one in engine._parts}) == 1
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize(("most", "units"), [(32, 1), (50, 4)])
def test_any_number_of_spikes_in_a_packet(edges, most, units, shared_bytes):
    """In one unit of a packet, in several, and in a list in the memory of each GPU."""
    engine = several_of(one_gpu.one_after_another(most, 4, edges), 2, shared_bytes=shared_bytes)
    assert engine._parts[0].shape.structure.units == units
    compare(engine, [most + 12], Wanted(("a",)))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("size", [700, 2600])
def test_all_neurons_at_once(size, shared_bytes):
    engine = several_of(one_gpu.bursting(size), 2, 1, shared_bytes=shared_bytes)
    (record, _) = compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size == size * 14


@pytest.mark.parametrize("most", [16, 0])
def test_more_neurons_than_threads(monkeypatch, most):
    """In registers, several a thread, or in memory, where blocks push to the sums of their GPU."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = one_gpu.crowded()
    engine = several_of(plan, 2, 1)
    assert bool(engine._parts[0].shape.structure.cells) == (most > 0)
    assert bool(engine._parts[0].shape.structure.fours) == (most == 0)
    assert [one.rows.layout == PUSHED for one in engine._parts] == [most == 0] * 2
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize(
    ("gpus", "blocks", "size", "weight"), [(2, 1, 2600, "int16"), (3, 1, 3400, "int32"), (2, 2, 4400, "int16")]
)
def test_pushed_bursts(monkeypatch, gpus, blocks, size, weight):
    """More spikes than a list in shared memory holds, told to namesakes; delays of several steps; weights of a word."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr("brainevent.network.gpu.run._NANOSECONDS", 1)
    plan = later(one_gpu.bursting(size), 3)
    (synapses,) = plan.synapses
    weights = synapses.weights.astype(weight) * (2**20 if weight == "int32" else 1)
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
    engine = several_of(plan, gpus, blocks, shared_bytes=SMALL + 1024)
    assert (engine._parts[1].rows.layout, engine._parts[1].rows.entry.wide) == (PUSHED, weight == "int32")
    assert (lag_of(engine), hold_of(engine)) == (1, 2)
    compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))


@pytest.mark.parametrize(("gpus", "shared_bytes", "units"), [(2, None, 10), (3, None, 10), (2, SMALL, 4)])
@pytest.mark.parametrize("threads", [96, 512])
def test_any_number_of_spikes_told_to_namesakes(monkeypatch, gpus, shared_bytes, units, threads):
    """In one unit of a packet, in several, and in a list; few warps push rows of more than one block."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (threads,))
    engine = several_of(one_gpu.one_after_another(66, gpus, 6000 * gpus), gpus, 1, shared_bytes=shared_bytes)
    structure = engine._parts[0].shape.structure
    assert (structure.units, structure.hold, structure.threads) == (units, 0, threads)
    assert engine._parts[0].rows.layout == PUSHED
    (record,) = compare(engine, [78], Wanted(("a",)))
    assert record.spikes["a"][0].size == gpus * 66 * 67 // 2


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("threads", [96, 512])
@pytest.mark.parametrize("gpus", [2, 3, 4])
@pytest.mark.parametrize(
    ("least", "most", "hold"), [(1, 3, 0), (2, 2, 0), (3, 3, 2), (4, 9, 2), (15, 15, 13), (20, 26, 13)]
)
def test_spikes_that_are_held(monkeypatch, gpus, least, most, hold, threads):
    """They are pushed as late as they can be, to sums of few steps; launches are shorter and longer than that.

    By few threads, each of which pushes several rows; some of these are shorter than others.
    """
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (threads,))
    delay = 0.1 * least if least == most else be.uniform(0.1 * least, 0.1 * most)
    engine = several_of(in_fours.plan_of_two(exc=3100, inh=1300, delay=delay, round_delays=True), gpus, 1)
    structure = engine._parts[0].shape.structure
    assert (structure.hold, bool(structure.fours), bool(structure.falling)) == (hold, True, True)
    (*_, last) = compare(engine, [1, 1, 2, 3, 13, 14, 15, 16, 40], in_fours.ALL)
    assert last.spikes["e"][0].size > 500


@pytest.mark.parametrize("reason", ["_NANOSECONDS", "_RECORDED"])
def test_held_spikes_of_launches_that_end_early(monkeypatch, reason):
    """Each launch ends on all GPUs after the same step, and leaves the state that the interpreter has."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(f"brainevent.network.gpu.run.{reason}", 1)
    plan = in_fours.plan_of_two(delay=be.uniform(0.5, 0.8), round_delays=True)
    ours, theirs = several_of(plan, 2, 1), Interpreted(plan)
    assert (lag_of(ours), hold_of(ours)) == (1, 3)
    looks = iter([False, True])
    record = ours.run(400, in_fours.ALL, {}, lambda: next(looks))
    assert 4 < record.steps < 400
    equal(as_tree(record), as_tree(theirs.run(record.steps, in_fours.ALL, {})))
    equal(ours.state, theirs.state)
    for other in (CudaEngine(plan, blocks=2, device=PretendDevice()), several_of(plan, 3, 1)):
        other.load(ours.state)
        equal(
            as_tree(other.run(9, in_fours.ALL, {})),
            as_tree(Interpreted.run(loaded(plan, ours.state), 9, in_fours.ALL, {})),
        )


def loaded(plan, state):
    engine = Interpreted(plan)
    engine.load(state)
    return engine


def test_a_network_that_pushes_is_stopped_and_goes_on(monkeypatch, tmp_path):
    """Launches end on all GPUs at once; a state goes from two GPUs to one, and to three."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    plan, _ = one_gpu.crowded()
    looks, wanted = iter([False, True]), Wanted(("a", "c"))
    ours, theirs = several_of(plan, 2, 1), Interpreted(plan)
    assert ours._parts[0].rows.layout == PUSHED
    record = ours.run(150, wanted, {}, lambda: next(looks))
    assert 0 < record.steps < 150
    equal(as_tree(record), as_tree(theirs.run(record.steps, wanted, {})))
    theirs.run(9, Wanted(), {})
    for other in (CudaEngine(plan, blocks=2, device=PretendDevice()), several_of(plan, 3, 1)):
        other.load(ours.state)
        other.run(9, Wanted(), {})
        equal(other.state, theirs.state)


@pytest.mark.parametrize(("missing", "held"), [(0, False), (1, False), (1, True)])
def test_a_network_that_pushes_whose_gpu_is_missing(monkeypatch, missing, held):
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    devices = [PretendPeer(k) for k in range(2)]
    plan = later(one_gpu.crowded()[0], 4 * held)
    engine = SeveralEngine(plan, devices=devices, blocks=1)
    assert bool(hold_of(engine)) == held
    assert engine._parts[0].rows.layout == PUSHED
    devices[missing].fault = "never"
    with pytest.raises(NetworkError, match=rf"run: GPU {missing} \(a pretend GPU\) sent no spikes"):
        engine.run(5, Wanted(), {})


def later(plan, steps):
    """Return a plan whose delays are longer by some steps."""
    moved = (dataclasses.replace(one, delays=one.delays + one.delays.dtype.type(steps)) for one in plan.synapses)
    return dataclasses.replace(plan, synapses=tuple(moved))


def lag_of(engine):
    return engine._parts[0].shape.structure.lag


def hold_of(engine):
    return engine._parts[0].shape.structure.hold


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("gpus", [2, 3])
@pytest.mark.parametrize(("more", "lag"), [(1, 1), (2, 2), (7, 3)])
def test_spikes_that_arrive_later_are_delivered_later(monkeypatch, more, lag, gpus, shared_bytes):
    """Also where launches end, after one step or in the midst of a run, with bursts, and for every split."""
    monkeypatch.setattr("brainevent.network.gpu.run._NANOSECONDS", 1)
    engine = several_of(later(small_plans.plan(), more), gpus, 1, shared_bytes=shared_bytes)
    assert lag_of(engine) == lag
    compare(engine, [1, 2, 70, 1, 3], ALL)
    compare(several_of(later(one_gpu.bursting(700), more), gpus, 1, shared_bytes=shared_bytes), [20, 7], Wanted(("a",)))


@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize("most", [32, 50])
def test_any_number_of_spikes_in_a_packet_that_is_read_later(most, edges):
    engine = several_of(later(one_gpu.one_after_another(most, 4, edges), 2), 2)
    assert lag_of(engine) == 2
    compare(engine, [most + 12], Wanted(("a",)))


def test_a_state_that_is_not_finite_is_that_of_its_step():
    assert lag_of(several_of(dataclasses.replace(later(small_plans.plan(), 3), check_finite=True), 2)) == 0


def test_populations_of_several_kinds():
    compare(several_of(one_gpu.of_several_kinds(), 2), [40], Wanted(("x", "y", "z"), ("y",)))


@pytest.mark.parametrize(("first", "more"), [(0xFFFA, 0), (0xFFFE, 0), (0xFFFC, 2)])
def test_tags_of_steps_begin_again(first, more):
    plan = later(small_plans.plan(), more)
    ours, theirs = several_of(plan, 2), Interpreted(plan)
    for one in (ours, theirs):
        one.load(dataclasses.replace(theirs.state, step=np.uint32(first)))
        one.run(9, Wanted(), {})
    equal(ours.state, theirs.state)


LAST = 2**32 - 1  # step of a simulation, at most


def last_steps(engine, theirs, wanted):
    """Compare in the last steps that a simulation may have: some numbers of steps behind them are too large."""
    for one in (engine, theirs):
        one.run(40, Wanted(), {})
        one.load(dataclasses.replace(one.state, step=np.uint32(LAST - 19)))
    for steps in (10, 9):
        equal(as_tree(engine.run(steps, wanted, {})), as_tree(theirs.run(steps, wanted, {})))
        equal(engine.state, theirs.state)
    assert engine.step == LAST


@pytest.mark.parametrize("delay", [0.1, 0.3, 0.5, 0.6])
def test_held_spikes_of_the_last_steps(monkeypatch, delay):
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", (96,))
    plan = in_fours.plan_of_two(exc=3100, inh=1300, delay=be.uniform(delay, 2.0), round_delays=True)
    last_steps(several_of(plan, 2, 1), Interpreted(plan), in_fours.ALL)


def test_a_launch_ends_on_all_gpus_at_once(monkeypatch):
    """The pretend clock goes on by a microsecond whenever it is looked at."""
    for limit in ("_NANOSECONDS", "_RECORDED"):
        monkeypatch.setattr(f"brainevent.network.gpu.run.{limit}", 1)
    engine, asked = several_of(small_plans.plan(), 2), []
    compare(engine, [150], ALL)
    engine.run(150, ALL, {}, lambda: asked.append("before each launch"))
    assert len(asked) == 3


def test_a_run_that_is_stopped_has_whole_steps_on_all_gpus(monkeypatch):
    monkeypatch.setattr("brainevent.network.gpu.run._RECORDED", 1)
    plan, looks = later(small_plans.plan(), 2), iter([False, True])
    ours, theirs = several_of(plan, 3, 1), Interpreted(plan)
    record = ours.run(500, ALL, {}, lambda: next(looks))
    assert 0 < record.steps < 500
    equal(as_tree(record), as_tree(theirs.run(record.steps, ALL, {})))
    equal(ours.state, theirs.state)


def test_weights_are_replaced_on_all_gpus():
    """Those of rows of another layout; what is on its way keeps the weights that it had."""
    plan = one_gpu.dense(1500)
    ours, theirs = several_of(plan, 2, 1), Interpreted(plan)
    (synapses,) = plan.synapses
    for factor in (1, 2**20, -1):
        weights = synapses.weights.astype(np.int32) * factor
        new = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
        for engine in (ours, theirs):
            engine.set_weights(new, engine.state)
            engine.run(9, Wanted(), {})
        equal(ours.state, theirs.state)


def test_what_is_not_finite_is_named():
    plan = small_plans.plan(1, check_finite=True)
    assert said_of_nan(several_of(plan, 2)) == said_of_nan(Interpreted(plan))


def test_threads_for_all_who_listen():
    """A thread listens to each block of all GPUs, beside warps that send and deliver."""
    small = one_gpu.bursting(9)
    kinds, _, _ = kinds_of(small, {"a": {}})
    plan = dataclasses.replace(small, populations=(dataclasses.replace(small.populations[0], size=2**20),))
    for blocks, least in ((132, 512), (528, 22 * 32), (800, 30 * 32)):
        threads = partition.threads_for(plan, kinds, blocks)
        assert threads >= least


# ---- values of spikes, and couplings


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("gpus", "blocks"), [(2, 2), (3, 1)])
def test_spikes_with_values(gpus, blocks, shared_bytes):
    plan = small_plans.graded(later(small_plans.plan(2), 2))
    engine = several_of(plan, gpus, blocks, shared_bytes=shared_bytes)
    assert lag_of(engine) == 0
    (record, _) = compare(engine, [60, 30], ALL)
    assert record.spikes["a"][0].size > 10


@pytest.mark.parametrize("edges", [150, 1500])
def test_values_of_spikes_in_every_layout(edges):
    compare(several_of(small_plans.graded(one_gpu.dense(edges)), 2, 1), [40], Wanted(("a",)))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("gpus", "blocks"), [(2, 2), (3, 1)])
def test_couplings(gpus, blocks, shared_bytes):
    engine = several_of(coupled_plans.plan(), gpus, blocks, shared_bytes=shared_bytes)
    compare(engine, [1, 30, 9], coupled_plans.RECORDED, coupled_plans.inputs(40))
    assert coupled_plans.lively(engine.state)


def test_a_coupled_network_whose_gpu_is_missing(monkeypatch):
    """The others wait for its states, before the first step."""
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    devices = [PretendPeer(k) for k in range(2)]
    engine = SeveralEngine(coupled_plans.plan(), devices=devices, blocks=1)
    devices[0].fault = "never"
    with pytest.raises(NetworkError, match=r"run: GPU 0 \(a pretend GPU\) sent no spikes"):
        engine.run(5, Wanted(), {})


# ---- whole networks: one digest


def with_delays():
    """Return a network whose delays are of three steps and more."""
    cells = be.models.lif_delta("cells", 90, current=be.uniform(100, 400))
    delays = (be.uniform(0.3, 2.0), 0.5)
    projections = [
        be.Projection(cells, cells, be.connect.in_degree(9, replace=True, weight=w), into="syn", delay=d, name=str(k))
        for k, (w, d) in enumerate(zip((be.normal(0.8, 0.2), -1.0), delays, strict=True))
    ]
    return be.Network([cells], projections, dt=0.1)


NETWORKS = {  # and the size of inputs
    "cuba": (lambda: cuba.network(300), 1),
    "coba": (lambda: coba.network(300), 1),
    "delays": (with_delays, 1),
    "microcircuit": (lambda: microcircuit.network(0.004), 3000),
}


def changed(network):
    """Return a population of a network, one of its parameters, and a receptor, with values for both."""
    population = network.populations[0]
    receptor = network.projections[0].into
    param = next(name for name in population.params if name in ("threshold", "v_threshold"))
    return population.name, param, f"{population.name}.{receptor}"


def told(network, size, sims):
    """Run a network in three pieces, each with the simulation that comes next, from file to file; return a digest."""
    name, param, receptor = changed(network)
    state = next(iter(network.populations[0].state))
    record = [f"{p.name}.{what}" for p in network.populations for what in ("spikes", "counts", "rate")]
    record.append(be.every(7, f"{name}.{state}", neurons=slice(0, 9)))
    digest, saved, spikes = hashlib.sha256(), None, 0
    for k, (sim, steps) in enumerate(zip(sims, (30, 45, 25), strict=True)):
        if saved is not None:
            sim.load(saved)
        if k == 1:
            sim.set(name, **{param: sim.params[name][param] - 1})
        given = np.random.default_rng(k).normal(0, size, (steps, network.populations[0].size))
        result = sim.run(steps, record, inputs={receptor: given} if k < 2 else None)
        for p in network.populations:
            trains = result[f"{p.name}.spikes"]
            spikes += trains.times.size
            for array in (trains.times, trains.neurons, result[f"{p.name}.counts"], result[f"{p.name}.rate"]):
                digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(np.ascontiguousarray(result[f"{name}.{state}"]).tobytes())
        saved = sim.saved()
    for values in (sim.state.neurons, sim.state.arriving):
        for of in values.values():
            for array in of.values():
                digest.update(array.tobytes())
    return digest.hexdigest(), spikes


@pytest.mark.parametrize(
    "of", ["cuba", "delays", *(pytest.param(of, marks=pytest.mark.thorough) for of in ("coba", "microcircuit"))]
)
def test_one_digest_for_any_number_of_gpus(of, tmp_path):
    make, size = NETWORKS[of]
    network = make()
    on_cpu = build_plan(network, seed=3)
    drawn = build_plan(network, seed=3, measure=Drawing(PretendDevice()))
    engines = {
        0: NumbaEngine(on_cpu),
        1: CudaEngine(drawn, blocks=4, device=PretendDevice()),
        2: several_of(drawn, 2, 2),
        4: several_of(drawn, 4, 1),
    }
    check_digests(network, size, engines, ((1, 2, 4), (4, 0, 2)), tmp_path)


def save(sim, path):
    sim.save(path)
    return path


def check_digests(network, size, engines, orders, folder):
    """Check that runs have one digest, whichever engines the state goes through: by numbers of GPUs, 0 for the CPU.

    So have the files that they write.
    """
    made = {gpus: Simulation(engine.plan, engine) for gpus, engine in engines.items()}
    for gpus, sim in made.items():
        sim.saved = functools.partial(save, sim, folder / f"{gpus}.npz")
    expected, spikes = told(network, size, [made[0]] * 3)
    assert spikes > 20
    written = Path(made[0].saved()).read_bytes()
    for order in orders:
        for sim in made.values():
            sim.reset()
        assert told(network, size, [made[gpus] for gpus in order]) == (expected, spikes), order
        assert Path(made[order[-1]].saved()).read_bytes() == written


# ---- faults: the others end, and the error names the GPU


def failing(plan, fault, number=1, gpus=3):
    """Run a network whose next launch on one GPU has a fault; return the engine, its devices and the error."""
    devices = [PretendPeer(k) for k in range(gpus)]
    engine = SeveralEngine(plan, devices=devices, blocks=1)
    engine.run(5, Wanted(), {})
    devices[number].fault = fault
    with pytest.raises(NetworkError) as error:
        engine.run(40, ALL, {})
    return engine, str(error.value)


NEW = "; after some errors a process cannot use a GPU any more: then do so in a new one"
INVALID = "; the state is not valid: call sim.reset(), or load a checkpoint with sim.load(...)"


@pytest.mark.parametrize(
    ("fault", "number", "words"),
    [
        ("never", 1, "run: GPU 1 (a pretend GPU) sent no spikes, not even that there are none"),
        ("ended", 2, "run: GPU 2 (a pretend GPU) sent no spikes, not even that there are none"),
        ("failed", 0, "run: the kernel on GPU 0 (a pretend GPU) failed: network on a GPU: cuStreamQuery: CUDA_ERROR_"),
        ("refused", 2, "run: the kernel on GPU 2 (a pretend GPU) failed: network on a GPU: cuLaunchCooperativeKernel"),
    ],
)
def test_a_gpu_that_is_missing_ends_the_others(monkeypatch, fault, number, words):
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)  # a thousand looks at the pretend clock
    plan = small_plans.plan()
    engine, message = failing(plan, fault, number)
    assert words in message
    assert message.removesuffix(NEW if fault == "failed" else "").endswith(INVALID)
    with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
        _ = engine.state
    with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
        engine.run(1, Wanted(), {})
    assert engine.placement.endswith(f"\n{INVALID.removeprefix('; ')}")
    for device in engine.devices:
        device._error = None
    theirs = Interpreted(plan)
    engine.load(theirs.state)
    assert "not valid" not in engine.placement
    engine.run(9, Wanted(), {})
    theirs.run(9, Wanted(), {})
    equal(engine.state, theirs.state)


def test_a_gpu_that_ends_a_step_early(monkeypatch):
    """Its last packet would be read steps later: others wait for it before they end."""
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    engine, message = failing(later(small_plans.plan(), 3), "a step early")
    assert lag_of(engine) == 3
    assert "run: GPU 1 (a pretend GPU) sent no spikes, not even that there are none" in message


def test_gpus_that_ran_other_numbers_of_steps(monkeypatch):
    engine = several_of(small_plans.plan(), 3, 1)
    ended = engine._parts[2].ended
    engine._parts[2].ended = lambda room: (ended(room)[0] - 1, 0)
    with pytest.raises(NetworkError) as error:
        engine.run(40, ALL, {})
    assert str(error.value) == f"run: GPU 2 (a pretend GPU) ended after 39 steps instead of 40{INVALID}"
    with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
        _ = engine.state


def test_a_gpu_that_does_not_end_is_named(monkeypatch):
    """The others end, since each wait has a limit; so does the run."""
    monkeypatch.setattr(part, "PATIENCE", 1_000_000)
    monkeypatch.setattr(launching, "STUCK", 0.2)
    RELEASED.clear()
    try:
        engine, message = failing(small_plans.plan(), "stuck")
        assert "run: the kernel on GPU 1 (a pretend GPU) still runs, 0.2 s after those on other GPUs" in message
        assert INVALID in message
        with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
            _ = engine.state
    finally:
        RELEASED.set()
    engine.load(Interpreted(small_plans.plan()).state)
    compare(engine, [9], ALL)


@pytest.mark.parametrize(("fault", "number"), [("refused", 2), ("failed", 1)])
def test_the_others_are_told_of_a_gpu_that_fails(monkeypatch, fault, number):
    """They end at once, not when they have waited for long."""
    monkeypatch.setattr(part, "PATIENCE", 10**18)
    found = []
    plan = small_plans.plan()
    thread = threading.Thread(target=lambda: found.append(failing(plan, fault, number)), daemon=True)
    thread.start()
    thread.join(60)
    assert len(found) == 1


def test_all_kernels_are_loaded_before_one_is_launched():
    """Also when texts follow from parameters that were set: to load a kernel may wait for those that run."""
    events = []

    class Noting(PretendPeer):
        def kernel(self, text, entry, shared):
            events.append("load")
            return super().kernel(text, entry, shared)

        def launch(self, kernel, *more, at_once=False, **how):
            events.append(self.number if at_once else "other")
            super().launch(kernel, *more, at_once=at_once, **how)

    engine = SeveralEngine(small_plans.plan(), devices=[Noting(k) for k in range(3)], blocks=1)
    for value in (1.5, 2.5):
        engine.set("a", "threshold", value)
        begin = len(events)
        engine.run(9, ALL, {})
        launched = events[begin:]
        first = launched.index(0)
        assert launched[first : first + 3] == [0, 1, 2]
    assert events.count("load") > 3


def test_a_gpu_that_is_late_is_waited_for():
    devices = [PretendPeer(k) for k in range(3)]
    engine = SeveralEngine(small_plans.plan(), devices=devices, blocks=1)
    devices[1].fault = "late"
    compare(engine, [30], ALL)
    assert devices[1].fault is None


def test_networks_that_share_gpus_run_at_the_same_time():
    """Each launch is made on all GPUs before another one is made on any."""
    devices = [PretendPeer(k) for k in range(2)]
    order = []

    class Noting(PretendPeer):
        def launch(self, kernel, *more, at_once=False, **how):
            if at_once:
                order.append((threading.get_ident(), self.number))
            super().launch(kernel, *more, at_once=at_once, **how)

    engines = [SeveralEngine(small_plans.plan(), devices=[Noting(0), Noting(1)], blocks=1) for _ in devices]
    threads = [threading.Thread(target=lambda e=e: [e.run(5, Wanted(), {}) for _ in range(5)]) for e in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(engines[0].state, engines[1].state)
    assert [number for _, number in order] == [0, 1] * 10
    assert len({thread for thread, _ in order}) == 2
    assert all(one[0] == other[0] for one, other in zip(order[::2], order[1::2], strict=True))


def test_nothing_is_freed_or_loaded_while_kernels_are_launched():
    """Either may wait for kernels that run, which wait for those that are not launched yet."""
    found = []

    class Looking(PretendPeer):
        def launch(self, kernel, *more, at_once=False, **how):
            if at_once:
                free = []
                thread = threading.Thread(target=lambda: free.append(LAUNCHING.acquire(blocking=False)))
                thread.start()
                thread.join()
                found.append((gc.isenabled(), *free))
            super().launch(kernel, *more, at_once=at_once, **how)

    engine = SeveralEngine(small_plans.plan(), devices=[Looking(k) for k in range(2)], blocks=1)
    engine.run(5, Wanted(), {})
    assert found == [(False, False)] * 2
    assert gc.isenabled()


def test_an_error_on_one_gpu_is_that_of_all():
    def act(number, meeting):
        if number == 1:
            raise NetworkError("build: it does not fit")
        return meeting.of_all(number, number)

    with pytest.raises(NetworkError, match="it does not fit") as error:
        together(["first", "second", "third"], act)
    assert error.value.__notes__ == ["on second"]


def test_memory_that_is_full_on_one_gpu():
    class Full(PretendPeer):
        def memory(self, nbytes, what):
            if self.number and "sums" in what:
                raise NetworkError(f"build: {what} take {nbytes} bytes")
            return super().memory(nbytes, what)

    with pytest.raises(NetworkError, match="sums of pending input take") as error:
        SeveralEngine(small_plans.plan(), devices=[Full(0), Full(1)])
    assert error.value.__notes__ == ["on GPU 1 (a pretend GPU)"]


def test_memory_is_given_back():
    engine = several_of(small_plans.plan(), 2)
    devices = engine.devices
    for _ in range(2):  # spikes have two rooms
        engine.run(5, ALL, {})
    held = [len(device.held) for device in devices]
    engine.run(5, ALL, {("a", "syn"): np.zeros((5, 1), np.float32)})
    engine.run(5, ALL, {})
    assert [len(device.held) for device in devices] == held
    del engine
    assert not any(device.held for device in devices)


# ---- what a user does with a run


def test_ctrl_c_loses_nothing():
    """At any moment: what ran is returned, all GPUs are after the same step, and the run goes on with the same bits."""
    network = with_delays()
    plan = build_plan(network, seed=1)
    sim, alone = Simulation(plan, several_of(plan, 2)), network.build(seed=1, backend="numba")
    record = ["cells.spikes", "cells.counts", "cells.v"]
    press = threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT))
    found = sim.run(10**7, record, callback=lambda *_: press.ident or press.start())
    press.join()
    assert found.interrupted
    assert 0 < found.steps == sim.steps < 10**7
    found = found + sim.run(20, record)
    expected = alone.run(found.steps, record)
    for name in record[1:]:
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(found["cells.spikes"].times, expected["cells.spikes"].times)
    np.testing.assert_array_equal(found["cells.spikes"].neurons, expected["cells.spikes"].neurons)
    equal(sim.state, alone.state)


def test_progress_and_chunks(capsys):
    network = with_delays()
    plan = build_plan(network, seed=1)
    sim, alone, steps = Simulation(plan, several_of(plan, 2)), network.build(seed=1, backend="numba"), []
    found = sim.run(90, "cells.rate", chunk=30, progress=True, callback=lambda sim, _: steps.append(sim.steps))
    assert steps == [30, 60, 90]
    assert "90 of 90 steps" in "".join(capsys.readouterr())
    np.testing.assert_array_equal(found["cells.rate"], alone.run(90, "cells.rate")["cells.rate"])
    step, other = (one.stepper(record="cells.rate", inputs="cells.syn") for one in (sim, alone))
    for strength in (0.0, 20.0):
        np.testing.assert_array_equal(step({"cells.syn": strength}), other({"cells.syn": strength}))
    equal(sim.state, alone.state)


# ---- words


def test_a_network_that_gains_is_not_said_to_be_too_small(monkeypatch):
    plan = one_gpu.dense(1500)
    for least, is_said in ((1500, False), (1501, True)):
        monkeypatch.setattr("brainevent.network.gpu.several.engine._GAINS", least)
        assert ("one GPU runs a network of" in several_of(plan, 2).placement) == is_said


def test_the_report_draws_the_partition():
    plan = one_gpu.dense(1500)
    engine = several_of(plan, 2, 2, clocks=True)
    engine.run(5, Wanted(), {})
    report = Simulation(plan, engine).report()
    assert "backend cuda, 2 GPUs with 2 blocks each; " in report
    assert re.search(r"padded rows, ([\d.]+) kB, [\d.]+ bytes a synapse; cycles of a step, mean of 5 steps", report)
    for number, blocks in enumerate(("0 to 1", "2 to 3")):
        assert re.search(rf"GPU {number} \(a pretend GPU\): blocks {blocks} of 4, synapses take [\d.]+ kB\n", report)
    assert "one GPU runs a network of 1500 synapses at least as fast, if they fit there" in report
    assert "sweeps need one GPU" in report
    assert "elements of sweeps" not in report


def test_a_sweep_needs_one_gpu():
    network = with_delays()
    plan = build_plan(network, seed=1)
    sim = Simulation(plan, several_of(plan, 2), network=network)
    words = "sweep: the elements of a sweep run side by side on one GPU; build the network without devices="
    with pytest.raises(NetworkError, match=words):
        sim.sweep(5, "cells.rate", {"cells": {"current": [1.0, 2.0]}})


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: later(small_plans.plan(), 3), 16),
        (lambda: one_gpu.bursting(2600), 16),
        (lambda: one_gpu.bursting(2600), 0),
        (lambda: later(one_gpu.bursting(2600), 15), 0),
        (lambda: small_plans.graded(coupled_plans.plan()), 16),
    ],
)
def test_the_text_compiles_for_gpus(monkeypatch, make, most):
    """Memory is ordered for all GPUs, but for sums, which one pushes to; no array of a thread lies in memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    engine = several_of(make(), 2, 1)._parts[0]
    assert (engine.rows.layout == PUSHED) == (most == 0)
    ptx = ptx_of(step_text(engine.kinds, engine.shape.structure), "--std=c++17", capability=75)
    assert ".entry run" in ptx
    assert ".relaxed.sys" in ptx
    assert set(re.findall(r"\S*\.gpu\S*", ptx)) == ({"fence.acq_rel.gpu;"} if most == 0 else set())
    assert ".local" not in ptx
    assert ("red.global.add" in ptx) == (most == 0)  # an addition to sums in memory returns nothing


def test_other_texts_compile_for_gpus():
    assert ".entry place_rows" in ptx_of(rows_text(None, several=True), "--std=c++17")
    assert ".entry draw_rows" in ptx_of(drawing_text(several=True), "--std=c++17")
