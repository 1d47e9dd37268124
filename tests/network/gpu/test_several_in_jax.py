# SPDX-License-Identifier: Apache-2.0
"""`simulate` with a network on several pretend GPUs, each a CPU of a mesh: the interpreter's bits, and refusals."""

import dataclasses
import threading
import time

import coupled_plans
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
import test_network_gpu as one_gpu
import test_network_in_jax as one
import test_neurons_in_fours as in_fours
from beside_interpreter import ALL, DRAWN_PARAMS, DRAWN_STATE, drawing, equal, plans, single, wishes
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from several_in_jax import FAULTS, PeerInJax, built
from test_several_gpus import lag_of, later, with_delays

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu import partition, program
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.several import calls, exchange, launching, part
from brainevent.network.gpu.structs import PUSHED
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.state import copied


@settings(max_examples=4, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = data.draw(plans(1))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    sim = built(plan, *data.draw(st.sampled_from([(2, 1), (2, 2), (3, 1)])))
    params = {"b": {"decay": np.float32(data.draw(st.floats(0, 1, width=32)))}}
    one.compare(sim, [cut, 24 - cut], wanted, inputs, params)


@pytest.mark.parametrize(("gpus", "blocks"), [(2, 2), (4, 1)])
def test_a_busy_network(gpus, blocks):
    out = one.compare(built(small_plans.plan(2), gpus, blocks), [70, 33], ALL)
    assert out["b.spikes"].sum() > 50


def test_a_call_is_several_launches(monkeypatch):
    """With packets that go on from one to the next, which may be read late; and couplings."""
    monkeypatch.setattr(program, "_LAUNCH", 60)
    sim = built(later(small_plans.plan(), 3))
    assert lag_of(sim.engine) == 3
    assert program.steps_of_launch(sim.plan, 4) < 20
    one.compare(sim, [70, 33], ALL)
    one.compare(built(coupled_plans.plan()), [40, 9], coupled_plans.RECORDED)


def test_blocks_that_push(monkeypatch):
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    sim = built(one_gpu.bursting(2600), 2, 1, shared_bytes=one_gpu.SMALL)
    assert sim.engine._parts[0].rows.layout == PUSHED
    one.compare(sim, [20, 7], Wanted(("a",), ("a",), ("a",)))


@pytest.mark.parametrize(("gpus", "delay", "launch"), [(2, 0.3, 0), (3, 0.6, 60)])
def test_spikes_that_are_held(monkeypatch, gpus, delay, launch):
    """In launches of one step, and of more steps than spikes are held."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(program, "_LAUNCH", launch)
    delays = be.uniform(delay, 2.0)
    sim = built(in_fours.plan_of_two(exc=1100 * gpus, inh=500 * gpus, delay=delays, round_delays=True), gpus, 1)
    assert sim.engine._parts[0].shape.structure.hold == round(10 * delay) - (1 if delay < 0.4 else 2)
    one.compare(sim, [1, 3, 30, 5], Wanted(("e", "i"), ("e",), ("i",)))


def test_messages(monkeypatch):
    """A spare block of each GPU is part of the launch."""
    monkeypatch.setattr(exchange, "_MESSAGE", 2)
    monkeypatch.setattr(exchange, "_MESSAGES", True, raising=False)
    sim = built(later(one_gpu.bursting(700), 2), 2, 3, shared_bytes=one_gpu.SMALL)
    assert sim.engine._parts[0].shape.structure.message == 2
    one.compare(sim, [20, 7], Wanted(("a",), ("a",), ("a",)))


def test_several_kinds_of_neurons_and_more_than_threads():
    one.compare(built(one_gpu.of_several_kinds(), 2, 1), [20, 9], Wanted(("x", "y", "z"), ("y",)))
    plan, inputs = one_gpu.crowded()
    sim = built(plan, 2, 1)
    assert sim.engine._parts[0].shape.structure.cells
    params = {"a": {"decay": np.float32(0.8), "threshold": np.float32(6)}, "c": {"each": np.full(300, 1, np.float32)}}
    one.compare(sim, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs, params)


def test_spikes_with_values():
    one.compare(built(small_plans.graded(small_plans.plan(2))), [7, 20], ALL)


def test_poisson_numbers_from_tables_of_each_gpu():
    sim = built(single(drawing, DRAWN_STATE, DRAWN_PARAMS), 2, 1)
    assert sim.engine.resident.parts[1].kinds[0].drawn
    one.compare(sim, [4, 3], Wanted(("a",), ("a",)), None, {"a": {"threshold": np.float32(100)}})


def ring(late=0.4, sizes=(40, 40, 40, 40)):
    """Return populations with synapses within each, and later ones from each to the next one."""
    cells = [be.models.lif_delta(f"cells{k}", size, current=be.uniform(100, 420)) for k, size in enumerate(sizes)]
    links = []
    for cell, other in zip(cells, [*cells[1:], cells[0]], strict=True):
        for target, delay in ((cell, be.uniform(0.1, 1.0)), (other, be.uniform(late, 2.0))):
            rule = be.connect.in_degree(7, replace=True, weight=be.normal(0.8, 0.2))
            links.append(be.Projection(cell, target, rule, into="syn", delay=delay, name=f"{cell.name}->{target.name}"))
    return be.Network(cells, links, dt=0.1)


@pytest.mark.parametrize("gpus", [2, 4])
def test_populations_with_long_delays_between_them(monkeypatch, gpus):
    """Wherever their neurons are, arrays are in the order of neurons."""
    monkeypatch.setattr(part, "_LONG_ROW", 0, raising=False)
    monkeypatch.setattr(program, "_LAUNCH", 60)
    plan = build_plan(ring(), seed=3, measure=Drawing(PretendDevice()))
    names = tuple(p.name for p in plan.populations)
    wanted = Wanted(names, names, names, {"v": Sample(names[1], "v", 3, np.array([5, 0, 20, 5]))})
    out = one.compare(built(plan, gpus, 3), [50, 33], wanted)
    assert out["cells1.spikes"].sum() > 20


def test_it_runs_outside_of_jit_and_in_a_scan():
    """States come back divided among the GPUs where they can be, and are taken as they come."""
    sim, theirs = built(small_plans.plan()), Interpreted(small_plans.plan())
    state, _ = be.simulate(sim, sim.state, {}, 20, record="b.counts")
    theirs.run(20, Wanted(), {})
    equal(copied(sim.plan, state), theirs.state)

    def body(state, _):
        state, out = be.simulate(sim, state, {}, 10, record="b.rate")
        return state, out["b.rate"]

    after, rates = jax.jit(lambda state: jax.lax.scan(body, state, None, 3))(state)
    theirs.run(30, Wanted(), {})
    equal(copied(sim.plan, after), theirs.state)
    assert rates.shape == (3, 10)


def test_states_are_divided_among_gpus():
    """In a program on a mesh with the axis `gpus`; outside, wherever they lie."""
    plan = one_gpu.dense(1500)
    sim, state = built(plan), built(plan).state
    theirs = Interpreted(plan)
    theirs.run(20, Wanted(), {})

    def run(state):
        return be.simulate(sim, state, {}, 20, record="a.spikes")

    devices = np.array(jax.devices()[:2])
    for act, name in ((jax.jit(run), "gpus"), (run, "gpus"), (run, "x")):
        for spec in (PartitionSpec(name), PartitionSpec()):
            on = NamedSharding(Mesh(devices, (name,)), spec)
            neurons = {"a": {key: jax.device_put(x, on) for key, x in state.neurons["a"].items()}}
            after, out = act(dataclasses.replace(state, neurons=neurons))
            equal(copied(plan, after), theirs.state)
            half = plan.population("a").size // 2
            assert {shard.data.shape for shard in after.neurons["a"]["v"].addressable_shards} == {(half,)}
            assert {shard.data.shape for shard in out["a.spikes"].addressable_shards} == {(20, half)}


def test_inputs_and_parameters_may_be_divided(monkeypatch):
    """By neurons or by steps, on the mesh of the GPUs in a program, and on any outside."""
    network = with_delays()
    plan = build_plan(network, seed=1)
    sim, whole = built(plan), network.build(seed=1, backend="numba")
    size, devices = plan.population("cells").size, np.array(jax.devices()[:2])
    random = np.random.default_rng(0)
    given = random.uniform(100, 400, size).astype(np.float32), random.normal(0, 1, (40, size)).astype(np.float32)

    def run(sim, current, pushed):
        return be.simulate(
            sim, sim.state, {"cells": {"current": current}}, 40, {"cells.syn": pushed}, ["cells.counts", "cells.spikes"]
        )[1]

    expected = run(whole, *given)
    assert expected["cells.counts"].sum() > 50
    for act, axis, order in (
        (jax.jit(lambda *given: run(sim, *given)), "gpus", 1),
        (lambda *given: run(sim, *given), "x", -1),
    ):
        mesh = Mesh(devices[::order], (axis,))
        for specs in (("x", (None, "x")), ((), ("x",)), ("x", ())):
            named = [PartitionSpec(*(axis if one == "x" else one for one in spec)) for spec in specs]
            there = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(given, named, strict=True)]
            found = act(*there)
            equal(found, expected)
            assert {shard.data.shape for shard in found["cells.spikes"].addressable_shards} == {(40, size // 2)}


def test_arrays_whose_mesh_is_part_of_their_type():
    """As `jax.make_mesh` makes them: in a program, an error says what to do; outside, they are taken as they come."""
    sim = built(small_plans.plan())
    state = sim.state
    for mesh in (
        Mesh(np.array(jax.devices()[:2]), ("gpus",), axis_types=(AxisType.Explicit,)),
        Mesh(np.array(jax.devices()[:2]), ("x",), axis_types=(AxisType.Explicit,)),
    ):
        decay = jax.device_put(np.float32(0.9), NamedSharding(mesh, PartitionSpec()))
        words = (
            r"simulate: an array is on a mesh whose axes \(.*\) are explicit, and a network on several GPUs needs "
            r"automatic ones; make it with jax\.make_mesh\(\.\.\., axis_types=\(jax\.sharding\.AxisType\.Auto,\)\)"
        )
        run = jax.jit(lambda decay: be.simulate(sim, state, {"a": {"decay": decay}}, 5)[0])
        with pytest.raises(NetworkError, match=words):
            run(decay)
        equal(copied(sim.plan, be.simulate(sim, state, {"a": {"decay": decay}}, 5)[0]), copied(sim.plan, run(0.9)))


def test_a_network_within_a_mapped_function():
    """Each device of the map would run the network on all GPUs."""
    sim, state = built(small_plans.plan()), built(small_plans.plan()).state
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    mapped = jax.shard_map(
        lambda decay: be.simulate(sim, state, {"a": {"decay": decay[0]}}, 5)[0].neurons["a"],
        mesh=mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    words = r"simulate: a network on several GPUs runs on all of them, and not within jax\.shard_map \(of axes x\)"
    with pytest.raises(NetworkError, match=words):
        jax.jit(mapped)(np.array([0.9, 0.8], np.float32))


def test_elements_of_vmap_run_one_after_another():
    sim = built(small_plans.plan())
    decays, levels = np.array([0.9, 0.5, 0.99], np.float32), np.array([0.0, 1.5], np.float32)

    def run(decay, level):
        inputs = {"a.syn": jnp.broadcast_to(level, (12,))}
        return be.simulate(sim, sim.state, {"a": {"decay": decay}}, 12, inputs, ALL)

    found = jax.jit(jax.vmap(jax.vmap(run, (None, 0)), (0, None)))(decays, levels)
    for i, decay in enumerate(decays):
        for j, level in enumerate(levels):
            theirs = one.interpreted(sim.plan, {"a": {"decay": decay}})
            inputs = {("a", "syn"): np.full((12, 1), level, np.float32)}
            one.check(sim.plan, theirs, 12, ALL, inputs, *jax.tree.map(lambda x, i=i, j=j: x[i, j], found))


def test_other_weights_are_those_of_a_build_with_them():
    """Also outside of `jit`, where rows are operands; and those that `jax.vmap` maps over."""
    network = with_delays()
    plan = build_plan(network, seed=1)
    sim, whole = built(plan), network.build(seed=1, backend="numba")
    name = plan.projections[0].name
    record = ["cells.counts"]
    be.simulate(sim, sim.state, {}, 60, record=record)  # with the weights of the build
    for scale in (0.5, 2.0):
        expected = be.simulate(whole, whole.state, {name: scale}, 60, record=record)
        found = be.simulate(sim, sim.state, {name: scale}, 60, record=record)
        equal(found[1], expected[1])
        equal(jax.jit(lambda scale=scale: be.simulate(sim, sim.state, {name: scale}, 60, None, record)[1])(), found[1])
    each = jax.vmap(lambda w: be.simulate(sim, sim.state, {name: w}, 60, record=record)[1])(np.array([0.5, 2.0]))
    np.testing.assert_array_equal(each["cells.counts"][1], found[1]["cells.counts"])
    sim.set(name, weights=2.0)
    equal(be.simulate(sim, sim.state, {}, 60, record=record)[1], found[1])


def test_the_simulation_itself_stays_as_it_is():
    sim, theirs = built(small_plans.plan()), Interpreted(small_plans.plan())
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 9, record=ALL))
    for _ in range(2):
        run(sim.state)
        sim.run(5)
        theirs.run(5, Wanted(), {})
        equal(sim.state, theirs.state)


# ---- what fails, and what waits


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("never", r"simulate: GPU 1 \(a pretend GPU\) sent no spikes.*; call simulate again with a state"),
        (
            "failed",
            r"simulate: the kernel on GPU 1 \(a pretend GPU\) failed: .*ILLEGAL_INSTRUCTION; call simulate",
        ),
        ("refused", r"simulate: the kernel on GPU 1 \(a pretend GPU\) failed: .*LAUNCH_FAILED; call simulate"),
        ("late", None),
    ],
)
def test_a_gpu_that_fails_is_named_and_ends_the_others(monkeypatch, fault, words):
    monkeypatch.setattr(part, "PATIENCE", 50_000_000 if words else part.PATIENCE)
    sim = built(small_plans.plan())
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 30, record=ALL))
    jax.block_until_ready(run(sim.state))
    FAULTS[1] = fault
    if words:
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            jax.block_until_ready(run(sim.state))
    one.check(sim.plan, Interpreted(sim.plan), 30, ALL, {}, *run(sim.state))


def test_a_handler_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(calls, "ARRIVING", 0.2)
    sim = built(small_plans.plan())
    meeting = calls._Meeting(calls.Program(sim.engine._names, 2, shares(sim), ()), time.monotonic(), {0: 0})
    key = (1, 2)
    calls._gathering[key] = meeting
    with pytest.raises(NetworkError, match=r"GPU 1 \(a pretend GPU\) did not begin this call in 0.2 s, while others"):
        arrive(meeting.program, key, 0)
    assert key not in calls._gathering
    with pytest.raises(NetworkError, match="did not begin this call"):
        calls._met(meeting.program, key, 1, 0)


def test_calls_that_cross_are_refused_in_words(monkeypatch):
    """One waits on GPU 0, the other one on GPU 1, as if each of these GPUs had one thread that calls handlers."""
    monkeypatch.setattr(calls, "CROSSING", 0.2)
    sim = built(small_plans.plan())
    about = calls.Program(sim.engine._names, 2, shares(sim), ())
    found = []
    earlier = threading.Thread(target=lambda: found.append(calls._met(about, (7, 1), 0, 0)))
    earlier.start()
    while (7, 1) not in calls._gathering:
        time.sleep(0.01)
    with pytest.raises(NetworkError, match=r"two threads have started programs on the same GPUs.*under a lock"):
        arrive(about, (7, 2), 1)
    meeting, is_last = calls._met(about, (7, 1), 1, 0)  # the thread of GPU 1 goes on with the earlier call
    assert is_last
    meeting.errors = {0: 0, 1: 0}
    with calls._changed:
        calls._quiet[0] -= 1
        calls._changed.notify_all()
    earlier.join()
    assert found[0][0] is meeting
    with pytest.raises(NetworkError, match="two threads have started programs on the same GPUs"):
        calls._met(about, (7, 2), 0, 0)


def shares(sim):
    return [calls.Share(k, device, 4, None, (), None) for k, device in enumerate(sim.engine.devices)]


def arrive(program, key, number):
    meeting, _ = calls._met(program, key, number, 0)
    if meeting.refused:
        raise NetworkError(meeting.refused)


def test_programs_and_runs_in_threads():
    """Each of them has the GPUs for itself while it runs."""
    sims = [built(small_plans.plan()) for _ in range(3)]
    runs = [jax.jit(lambda state, sim=sim: be.simulate(sim, state, {}, 15, record="b.rate")) for sim in sims[:2]]
    found = {}

    def go(k):
        state = sims[k].state
        for _ in range(4):
            state, _ = runs[k](state)
        found[k] = copied(sims[k].plan, jax.device_get(state))

    def run():
        sims[2].run(60)
        found[2] = sims[2].state

    threads = [threading.Thread(target=act, args=at) for act, at in ((go, (0,)), (go, (1,)), (run, ()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    theirs = Interpreted(sims[0].plan)
    theirs.run(60, Wanted(), {})
    for state in found.values():
        equal(state, theirs.state)
    assert len(found) == 3


def test_a_program_waits_for_its_turn():
    """While another network has its kernels on one of the GPUs."""
    sim, done = built(small_plans.plan()), threading.Event()
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 15)[0])
    first = jax.block_until_ready(run(sim.state))

    def again():
        jax.block_until_ready(run(first))
        done.set()

    thread = threading.Thread(target=again)
    with launching.in_turn(sim.engine.devices[1:]):
        thread.start()
        assert not done.wait(1)
        assert len(launching._turns) == 2
    thread.join()
    assert done.is_set()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_calls_from_one_state_do_not_see_packets_of_each_other(steps):
    """Their steps have the same numbers, and so have their packets."""
    sim = built(small_plans.plan(2))
    run = jax.jit(lambda threshold: be.simulate(sim, sim.state, {"a": {"threshold": threshold}}, steps, record=ALL))
    spikes = []
    for threshold in (-100.0, 100.0, -100.0):
        theirs = one.interpreted(sim.plan, {"a": {"threshold": np.float32(threshold)}})
        found = run(np.float32(threshold))
        one.check(sim.plan, theirs, steps, ALL, {}, *found)
        spikes.append(int(found[1]["a.spikes"].sum()))
    assert spikes[0] == spikes[2] > spikes[1] == 0


def test_what_is_not_possible_is_said():
    sim = built(small_plans.plan())
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 5))
    with pytest.raises(NetworkError, match=r"network on several GPUs cannot be exported.* memory of this process"):
        jax.export.export(run)(sim.state)
    with pytest.raises(NetworkError, match=r"has no derivatives, since all its weights are known .* instead of 'cuda'"):
        jax.grad(
            jax.jit(
                lambda decay: be.simulate(sim, sim.state, {"a": {"decay": decay}}, 5, record="a.rate")[1][
                    "a.rate"
                ].sum()
            )
        )(0.9)
    with pytest.raises(NetworkError, match="keys is not supported by backend='cuda'"):
        be.simulate(sim, sim.state, {}, 5, keys={"a": np.zeros(2, np.uint32)})


def test_a_derivative_runs_in_plain_jax():
    network = with_delays()
    ours = built(build_plan(network, seed=1))
    theirs = network.build(seed=1, backend="jax")

    def loss(sim, current):
        out = be.simulate(sim, sim.state, {"cells": {"current": current}}, 30, record="cells.rate")[1]
        return out["cells.rate"].sum()

    current = np.float32(250)
    found, expected = (float(jax.jit(jax.grad(lambda x, sim=sim: loss(sim, x)))(current)) for sim in (ours, theirs))
    assert found == expected != 0


def test_networks_on_the_same_gpus_take_turns():
    """In the order in which they come; others need not wait."""
    both, order = [PeerInJax(number) for number in range(2)], []
    alone = both[:1]

    def come(devices, name):
        with launching.in_turn(devices), launching.in_turn(devices[:1]):
            order.append(name)

    with launching.in_turn(both[1:]):
        threads = []
        for name, devices in (("waits", both), ("waits, too", alone), ("the last", both)):
            threads.append(threading.Thread(target=come, args=(devices, name)))
            threads[-1].start()
            while len(launching._turns) < 1 + len(threads):
                time.sleep(0.001)
        assert order == []
        come(both[1:], "again")
    for thread in threads:
        thread.join()
    assert order[0] == "again"
    assert order[1:] == ["waits", "waits, too", "the last"]
    assert not launching._turns
