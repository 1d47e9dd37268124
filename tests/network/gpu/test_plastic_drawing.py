# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses that a pretend GPU draws and lays out: those of the host, to the last bit."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from beside_interpreter import as_tree, compare, equal
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import AS_WRITTEN, ptx_of

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu import plastic_order
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine, drawing_on_gpu
from brainevent.network.gpu.partition import Partition
from brainevent.network.gpu.plastic_layout import laid_out, plastic_rows_text
from brainevent.network.gpu.plastic_order import PlasticOrder
from brainevent.network.plan.build import build_plan, redrawn_plan, wirings_of
from brainevent.network.plan.plastic import PlasticPlan, PlasticSynapses
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import begun_state, initial_state
from brainevent.scalar.form import Name

KINDS = {
    "total": lambda n, **how: be.connect.total(9 * n, **how),
    "in_degree": lambda n, **how: be.connect.in_degree(n, replace=True, **how),
    "out_degree": lambda n, **how: be.connect.out_degree(n, replace=True, **how),
    "in_degree, distinct": lambda n, **how: be.connect.in_degree(n, replace=False, **how),
    "out_degree, distinct": lambda n, **how: be.connect.out_degree(n, replace=False, **how),
    "prob": lambda n, **how: be.connect.prob(n / 100, **how),
    "all_to_all": lambda n, **how: be.connect.all_to_all(**how),
    "one_to_one": lambda n, **how: be.connect.one_to_one(weight=how["weight"]),
}
WEIGHTS = [0.3, be.uniform(0, 1), be.normal(0.5, 0.2, low=0.1, high=1), be.lognormal(0.05, 0.5, high=1), 0.0]
DELAYS = [0.3, be.uniform(0.1, 0.9), be.integers(1, 3)]
ALL_OF_A = Wanted(("a",))
STATES = [{}, {"c": 0.25, "e": be.normal(0, 1)}]


def cell(s, arriving, p):
    """Spike often, at different times."""
    v = 0.6 * s.v + 3 * arriving.syn + p.drive
    return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1


def down(w, s, pre, post, p):
    return w - 0.01 * post.y


def up(w, s, pre, post, p):
    return w + 0.02 * pre.x


def up_with_states(w, s, pre, post, p):
    return w + 0.02 * pre.x * s.c, s.replace(c=0.9 * s.c + 0.01 * s.e, e=s.e + pre.x)


def with_param(w, s, pre, post, p):
    return w - p.unused * post.y


def rules(states=None, delay_at="axon", **more):
    states = states or {}
    how = {"pre": {"x": be.trace(5.0)}, "post": {"y": be.trace(4.0)}, "high": 1.0, "delay_at": delay_at}
    how |= {"on_pre": down, "on_post": up_with_states if states else up}
    return be.Plasticity(state=states, **how | more)


def network(connect, sources=30, targets=None, *, delay=0.3, plasticity=None):
    """Return sources and targets, or one population, with a plastic projection."""
    given = {"v": be.uniform(0, 1)}, {"drive": 0.45}
    a = be.Population("a", sources, cell, *given)
    b = a if targets is None else be.Population("b", targets, cell, *given)
    projection = be.Projection(a, b, connect, "syn", delay, "ab", plasticity or rules())
    return be.Network([a] if a is b else [a, b], [projection], dt=0.1)


def both(net, **how):
    """Return the plan of a network that the host draws, and one that a device draws."""
    return build_plan(net, **how), build_plan(net, measure=Drawing(PretendDevice()), **how)


def expected_layout(plastic, partition):
    """Return a layout that NumPy sorts."""
    synapses, blocks, begin = plastic.synapses, partition.blocks, partition.begins[plastic.target]
    numbers = synapses.targets.astype(np.int64) + begin
    order = np.argsort(numbers % blocks, kind="stable")
    block, source, which = (x[order] for x in (numbers % blocks, synapses.sources, synapses.which))
    place = numbers[order] // blocks - (begin + blocks - 1 - block) // blocks
    lines = np.bincount(block * plastic.sizes[0] + source, minlength=blocks * plastic.sizes[0])
    starts = np.zeros((blocks, plastic.sizes[0] + 1), np.int64)
    starts[:, 1:] = lines.reshape(blocks, -1).cumsum(1)
    bases = np.concatenate([[0], starts[:, -1].cumsum()])
    found = {"bases": bases, "starts": starts.reshape(-1), "targets": place}
    if plastic.distinct.size > 1:
        found["which"] = which
    rows, places = plastic.post_rows, -(-plastic.sizes[1] // blocks)
    line = (block * places + place) * rows + (0 if rows == 1 else which)
    into = np.zeros((blocks, places * rows + 1), np.int64)
    into[:, 1:] = np.bincount(line, minlength=blocks * places * rows).reshape(blocks, -1).cumsum(1)
    entries = np.argsort(line, kind="stable")
    bits = max(1, int(np.diff(bases).max() - 1).bit_length())
    words = (entries - bases[block[entries]]) | source[entries].astype(np.int64) << bits
    return found | {"into": into.reshape(-1), "incoming": words & 0xFFFFFFFF}, words, order


def downloaded(layout):
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    return {
        name: array.memory.download(kinds[array.itemsize], array.memory.nbytes // array.itemsize)
        for name, array in layout.arrays.items()
    }


@settings(max_examples=25, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**64 - 1))
def test_a_device_draws_and_sorts_what_the_host_draws(data, kind, seed):
    sources = data.draw(st.integers(2, 70))
    targets = None if data.draw(st.booleans()) else sources if kind == "one_to_one" else data.draw(st.integers(2, 70))
    own = data.draw(st.booleans())
    most = min(sources, targets or sources) - (not own) if "distinct" in kind else 99
    weight, delay = data.draw(st.sampled_from(WEIGHTS)), data.draw(st.sampled_from(DELAYS))
    connect = KINDS[kind](data.draw(st.integers(0, most)), weight=weight, self_connections=own)
    plasticity = rules(data.draw(st.sampled_from(STATES)), data.draw(st.sampled_from(["axon", "dendrite"])))
    net = network(connect, sources, targets, delay=delay, plasticity=plasticity)
    theirs, ours = both(net, seed=seed, round_delays=True)
    check_alike(ours, theirs, data.draw(st.sampled_from([1, 3, 8])))


def check_alike(ours, theirs, blocks):
    """Plans, and what lies on a device: also where the host gives the synapses that it drew."""
    one, other = ours.plastic[0], theirs.plastic[0]
    assert (ours.fingerprint, ours.loads, one.entries) == (theirs.fingerprint, theirs.loads, other.entries)
    assert one.drawn is not None
    assert other.drawn is None
    np.testing.assert_array_equal(one.distinct, other.distinct)
    np.testing.assert_array_equal(one.degrees, other.degrees)
    engines = [CudaEngine(plan, blocks=blocks, device=PretendDevice()) for plan in (ours, theirs)]
    expected, _, order = expected_layout(other, engines[0].partition)
    for engine in engines:
        layout = engine.plastic.layouts["ab"]
        assert layout.more is None
        found = downloaded(layout)
        indexed = {"into", "incoming"} if layout.deferred else set()
        assert found.keys() == (expected.keys() - indexed if one.entries else found.keys())
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
    weights = engines[0].plastic._weights["ab"].download(np.float32, one.entries)
    np.testing.assert_array_equal(weights, other.synapses.weights[order])
    equal(engines[0].state, initial_state(theirs))
    equal(initial_state(ours), initial_state(theirs))


@pytest.mark.parametrize(("delay_at", "delay"), [("axon", 0.3), ("dendrite", be.uniform(0.1, 0.9))])
def test_runs_and_resets(delay_at, delay):
    """As in the interpreter; and after a reset again, for which synapses are drawn anew."""
    connect = be.connect.in_degree(12, weight=be.uniform(0, 0.4))
    plan = both(network(connect, delay=delay, plasticity=rules(STATES[1], delay_at)), seed=3)[1]
    engine = CudaEngine(plan, blocks=3, device=PretendDevice())
    simulation = Simulation(plan, engine)
    samples = {"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5, 359]), of_synapses=True)}
    wanted = dataclasses.replace(ALL_OF_A, samples=samples)
    before = engine.state
    compare(engine, (1, 9, 40), wanted)
    changed = engine.state.synapses["ab"]
    assert np.mean(changed["w"] != before.synapses["ab"]["w"]) > 0.5
    np.testing.assert_array_equal(simulation.connections("ab").weights, changed["w"])
    simulation.reset()
    assert not engine._given.synapses
    equal(engine.state, before)
    compare(engine, (20,), wanted)
    simulation.reset()
    compare(engine, (20,), wanted)


def test_states_go_to_a_network_that_is_drawn_anew():
    """Synapses of another seed replace those of an engine; parameters stay."""
    net = network(
        be.connect.out_degree(9, weight=be.uniform(0, 0.4)), plasticity=rules(params={"unused": 1.0}, on_pre=with_param)
    )
    plan = both(net, seed=3)[1]
    other = redrawn_plan(plan, net, wirings_of(net, plan), 4)
    engine = CudaEngine(plan, blocks=2, device=PretendDevice())
    engine.set("ab", "unused", np.float32(0.5))
    engine.run(5, ALL_OF_A, {})
    engine.set_weights(dataclasses.replace(other, populations=plan.populations), begun_state(other))
    assert engine.plastic.params["ab"]["unused"] == np.float32(0.5)
    equal(engine.state.synapses, initial_state(build_plan(net, seed=4)).synapses)


def test_long_rows(monkeypatch):
    """Sorted in memory, where shared memory has no room for them; and copied some rows at a time."""
    monkeypatch.setattr(plastic_order, "_AT_ONCE", 1000)
    net = network(
        be.connect.total(16_000, weight=be.uniform(0, 1)), 3, 500, delay=be.integers(1, 3), plasticity=rules(STATES[1])
    )
    theirs, ours = both(net, seed=1)
    check_alike(ours, theirs, 1)
    order = CudaEngine(ours, blocks=2, device=PretendDevice()).plastic._orders["ab"]
    assert len(list(order._parts())) == 3
    net = network(be.connect.in_degree(10_500, replace=True, weight=0.2), 20, 1, delay=0.1)
    check_alike(*reversed(both(net, seed=1)), 1)  # the second index, too


@pytest.mark.parametrize(("sources", "bits"), [(2**8, None), (2**13, 1), (2**20, 2)])
def test_the_second_index_has_as_many_bits_as_it_needs(sources, bits):
    """The place of a synapse in its block, and its source."""
    count = 2**20 + 5
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.sort(rng.integers(0, count, sources - 1)), [count]])
    targets = rng.integers(0, 300, count).astype(np.uint16)  # the last ten have no synapses
    reading = SimpleNamespace(form=SimpleNamespace(inputs=[Name("pre_x", "float32")]))
    plastic_rules = SimpleNamespace(on_post=(("spike", reading),), delay_at="axon", states=())
    none = np.zeros(0, np.float32)
    synapses = PlasticSynapses(starts, targets, np.array([3], np.uint8), none, {}, (sources, 310), 1)
    about = 1, 0.0, count, synapses.distinct, synapses.degrees, "float32", synapses
    plastic = PlasticPlan("ab", "a", "b", "syn", plastic_rules, (sources, 310), *about)
    partition = Partition(1, 310, {"b": 0}, 310, (0,), 310)
    device = PretendDevice()
    layout = laid_out(device, plastic, partition)
    assert (None if layout.more is None else layout.more.itemsize) == bits
    found = downloaded(layout)
    words = found["incoming"].astype(np.uint64)
    if bits:
        words |= found["more"].astype(np.uint64) << np.uint64(32)
    entries = (words & np.uint64(2**layout.entry_bits - 1)).astype(np.int64)
    order = np.lexsort((np.arange(count), targets, synapses.sources))
    np.testing.assert_array_equal(found["targets"], targets[order])
    np.testing.assert_array_equal(words >> np.uint64(layout.entry_bits), synapses.sources[entries])
    np.testing.assert_array_equal(found["targets"][entries], np.repeat(np.arange(310), np.diff(found["into"])))
    assert (np.diff(entries.astype(np.int64))[np.diff(found["targets"][entries]) == 0] > 0).all()
    chosen = rng.integers(0, count, 5)
    np.testing.assert_array_equal(order[PlasticOrder(device, plastic, partition, layout).places(chosen)], order[chosen])


def test_what_does_not_fit_is_refused_before_it_is_drawn():
    """On a device, and of what the host cannot hold."""

    class Small(PretendDevice):
        def memory(self, nbytes, what):
            if nbytes > 2**30:
                raise NetworkError(f"build: {what} take {nbytes} bytes, and 1 GB is free")
            return super().memory(nbytes, what)

    net = network(be.connect.in_degree(30_000, weight=0.1), 40_000, plasticity=rules(STATES[1]))
    with pytest.raises(NetworkError, match=r"build: plastic synapses of ab take 20400000000 bytes, and 1 GB is free"):
        build_plan(net, seed=1, measure=Drawing(Small()))


def test_the_text_compiles_for_gpus():
    """Nothing is fused, nothing approximated, and no array of a thread lies in memory."""
    ptx = ptx_of(plastic_rows_text(), "--std=c++17", AS_WRITTEN)
    for name in ("sort_lines", "take_keys", "index_targets", "add_sources", "order_rows", "fill_words"):
        assert f".entry {name}" in ptx
    for word in ("fma.", "approx", ".local"):
        assert word not in ptx


@pytest.mark.gpu
@pytest.mark.parametrize(("delay_at", "delay"), [("axon", 0.2), ("axon", be.uniform(0.1, 0.9)), ("dendrite", 0.3)])
@pytest.mark.parametrize("weight", [0.0001, be.uniform(0, 0.0002)])
def test_a_gpu_draws_and_sorts_what_the_host_draws(delay_at, delay, weight):
    """Short rows and long ones, distinct synapses and others; and a run, after which all is drawn again."""
    pytest.importorskip("cuda.bindings.nvrtc")
    for connect, targets in (
        (be.connect.in_degree(3_000, weight=weight), 400),
        (be.connect.total(10**6, weight=weight), 7),
    ):
        net = network(connect, 20_000, targets, delay=delay, plasticity=rules(STATES[1], delay_at, high=0.01))
        theirs = build_plan(net, seed=5, warn=False)
        ours = build_plan(net, seed=5, measure=drawing_on_gpu(), warn=False)
        assert ours.plastic[0].drawn is not None
        engines = [CudaEngine(plan) for plan in (ours, theirs)]
        equal(engines[0].state, initial_state(theirs))
        found, expected = (downloaded(engine.plastic.layouts["ab"]) for engine in engines)
        assert found.keys() == expected.keys()
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
        runs = [as_tree(engine.run(50, Wanted(("b",)), {})) for engine in engines]
        equal(*runs)
        equal(*(engine.state for engine in engines))
        engines[0].load(begun_state(ours))
        equal(engines[0].state, initial_state(theirs))
