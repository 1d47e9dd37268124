# SPDX-License-Identifier: Apache-2.0
"""The engine for GPUs on a pretend one, beside the interpreted network: the same bits for every plan and partition."""

import dataclasses
import re
import subprocess
import threading
import time
import types

import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from beside_interpreter import (
    ALL,
    DRAWN_PARAMS,
    DRAWN_STATE,
    as_tree,
    compare,
    drawing,
    equal,
    plan_of,
    plans,
    said_of_nan,
    single,
    wishes,
)
from gpu_on_cpu import PretendDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx import ptx_of
from training_on_cpu import PretendGpu

from brainevent.errors import NetworkError
from brainevent.network import engines
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import cuda_device, partition, structs
from brainevent.network.gpu.device import held
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.partition import Partition
from brainevent.network.gpu.rows import Entry
from brainevent.network.gpu.sorter import Sorter
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT, SLOTS
from brainevent.network.gpu.text import other_text, step_text
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import PopulationPlan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.scalar.trace import trace

SMALL = 4600  # bytes of shared memory: enough for lists of spikes alone


def engine_of(plan, blocks=3, shared_bytes=None, multiprocessors=8, **device):
    device = PretendDevice(multiprocessors, **device)
    return CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes, device=device)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_it_equals_the_interpreter(data):
    plan = data.draw(plans(data.draw(st.integers(1, 2))))
    wanted, inputs = data.draw(wishes(plan))
    cut = data.draw(st.integers(1, 23))
    engine = engine_of(plan, data.draw(st.sampled_from([1, 2, 5])), data.draw(st.sampled_from([None, SMALL])))
    compare(engine, [cut, 24 - cut], wanted, inputs)


@pytest.mark.parametrize(
    ("blocks", "shared_bytes", "largest_cluster"),
    [
        *((1, None, 16), (1, None, 0), (3, None, 16), (8, None, 16), (3, SMALL, 16), (4, SMALL, 16)),
        pytest.param(8, None, 4, marks=pytest.mark.thorough),
    ],
)
def test_a_busy_network_equals_the_interpreter(blocks, shared_bytes, largest_cluster):
    engine = engine_of(small_plans.plan(2), blocks, shared_bytes, largest_cluster=largest_cluster)
    assert engine.shape.structure.ring_in_block == (shared_bytes is None)
    clustered = blocks != 3 and blocks <= largest_cluster
    assert engine.shape.structure.cluster == (blocks if clustered else 0)
    assert engine.units == ("one cluster of " if clustered else "") + f"{blocks} block{'s'[: blocks - 1]}"
    (record,) = compare(engine, [300], ALL)
    assert record.spikes["a"][0].size > 100


def dense(edges, size=60, **more):
    population = small_plans.population("a", size)
    return plan_of([population], [small_plans.synapses(population, population, edges, 1, **more)], 1)


@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(("edges", "blocks", "layout"), [(1500, 2, PADDED), (150, 3, SHORT), (130_000, 1, COMPACT)])
def test_every_layout_of_rows(weight, edges, blocks, layout):
    plan = dense(edges, weight=weight)
    (synapses,) = plan.synapses
    factor = 2**20 if weight == "int32" else 1
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=synapses.weights * factor),))
    engine = engine_of(plan, blocks)
    assert (engine.rows.layout, engine.rows.entry.wide) == (layout, weight == "int32")
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


@pytest.mark.parametrize(("words", "layout"), [(2040, PADDED), (2041, COMPACT)])
def test_the_length_of_padded_rows_has_8_bits(words, layout):
    device, partition = PretendDevice(8), Partition(1, 2, {}, 2, (0,), 2)
    used = held(device, np.full((2, 1), words, np.uint32), "numbers of synapses")
    assert Sorter(device, partition, Entry(False, 10, 10, 10), [], used).laid_out(0).layout == layout


@pytest.mark.parametrize(("weights", "most"), [(1, 3), (2**13, 2)])
def test_rows_in_slots(weights, most):
    """Some synapses lie in the slot itself; longer rows are elsewhere."""
    plan = dense(400)
    (synapses,) = plan.synapses
    low, high = -weights, weights + 3
    drawn = np.random.default_rng(0).integers(low, high, synapses.weights.shape, np.int16, endpoint=True)
    drawn[:2] = low, high
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=drawn),))
    engine = engine_of(plan, 5, SMALL)
    assert engine.rows.layout == SLOTS
    assert engine.rows.entry.in_slot == most
    assert engine.rows.synapses.nbytes > 16  # some are
    (record,) = compare(engine, [40], Wanted(("a",)))
    assert record.spikes["a"][0].size > 50


def in_two_of_three(s, arriving, p):
    """Spike in two of three steps, whatever arrives."""
    return s.replace(n=s.n + 1, sum=s.sum + arriving.syn), s.n % 3 != 2


def bursting(size):
    """Return a plan of neurons that all spike at once, with synapses among them."""
    state = {"n": np.zeros(size, np.int32), "sum": np.zeros(size, np.float32)}
    traced = trace(in_two_of_three, {key: array[0] for key, array in state.items()}, ["syn"], {})
    population = PopulationPlan("a", size, traced, state, {}, {"syn": np.float32(1)}, (3, 17))
    return plan_of([population], [small_plans.synapses(population, population, 5 * size, 1)], 1)


def in_turn(s, arriving, p):
    """Spike once, in a step of one's own."""
    return s.replace(n=s.n + 1, sum=s.sum + arriving.syn), s.n == s.when


def one_after_another(most, blocks, edges):
    """Return a plan in which each of so many blocks has k spikes in step k, up to `most`."""
    when = np.repeat(np.arange(1, most + 1, dtype=np.int32), blocks * np.arange(1, most + 1))
    state = {"n": np.zeros(when.size, np.int32), "sum": np.zeros(when.size, np.float32), "when": when}
    traced = trace(in_turn, {key: array[0] for key, array in state.items()}, ["syn"], {})
    population = PopulationPlan("a", when.size, traced, state, {}, {"syn": np.float32(1)}, (3, 17))
    return plan_of([population], [small_plans.synapses(population, population, edges, 1)], 1)


PACKETS = [(32, 3, 1), (32, 4, 1), (50, 3, 4)]  # most spikes of a block, blocks, units of a packet


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize(("most", "blocks", "units"), PACKETS)
def test_any_number_of_spikes_in_a_packet(edges, most, blocks, units, shared_bytes):
    """In one unit of a packet, in several, and in a list in memory."""
    engine = engine_of(one_after_another(most, blocks, edges), blocks, shared_bytes)
    assert engine.shape.structure.units == units
    assert (engine.rows.layout == PADDED) == (edges == 400_000)
    (record,) = compare(engine, [most + 12], Wanted(("a",)))
    assert record.spikes["a"][0].size == blocks * most * (most + 1) // 2


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("size", "blocks"), [(700, 2), (2600, 2), (4200, 3)])
def test_all_neurons_at_once(size, blocks, shared_bytes):
    """More spikes than any list in shared memory holds, and more than there is room for at first."""
    engine = engine_of(bursting(size), blocks, shared_bytes)
    assert engine.shape.structure.in_registers == (size == 700)
    (record, _) = compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))
    assert record.spikes["a"][0].size == size * 14 > 2 * 4096
    assert engine._spikes.capacity > 4096


def crowded(edges=9000):
    """Return a plan of more neurons than threads, of two kinds, with parameters of each neuron; and inputs."""
    rng = np.random.default_rng(0)
    a, b = small_plans.population("a", 1400, 1), small_plans.population("b", 900, 2)
    state, params = {"v": np.zeros(300, np.float32)}, {"each": rng.uniform(0, 3, 300).astype(np.float32)}

    def source(s, arriving, p, random):
        return s.replace(v=s.v + random.poisson(p.each)), random.bernoulli(0.2)

    rule = trace(source, {"v": 0.0}, [], params)
    c = PopulationPlan("c", 300, rule, state, params, {}, (8, 9))
    joined = [small_plans.synapses(a, b, edges, 1), small_plans.synapses(c, a, 5000, 1, seed=2)]
    inputs = {("a", "syn"): rng.normal(0, 3, (9, 1400)).astype(np.float32), ("b", "syn"): np.ones((9, 1), np.float32)}
    return plan_of([c, a, b], joined, 1), inputs


@pytest.mark.parametrize(("multiprocessors", "most"), [(1, 16), (2, 16), (1, 0), (2, 0)])
def test_more_neurons_than_threads(monkeypatch, multiprocessors, most):
    """In registers, several a thread, or in memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = crowded()
    engine = engine_of(plan, None, multiprocessors=multiprocessors)
    assert not engine.shape.structure.in_registers
    assert bool(engine.shape.structure.cells) == (most > 0)
    assert (engine.rows.layout == PUSHED) == (most == 0)
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize(
    ("shared_bytes", "words", "said"),
    [
        (None, 2, "states in shared memory"),
        (SMALL + 8000, 1, "states in memory, 1 word of 2 in shared memory"),
        (SMALL, 0, "states in memory;"),
    ],
)
@pytest.mark.parametrize("edges", [9000, 150_000])
def test_states_in_memory(monkeypatch, edges, shared_bytes, words, said):
    """Blocks push where most of them would find no synapse of a spike: then no sums lie in shared memory."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    monkeypatch.setattr(partition, "_FOURS", ())
    plan, inputs = crowded(edges)
    engine = engine_of(plan, 2, shared_bytes)
    assert (engine.rows.layout == PUSHED) == (edges == 9000)
    if edges == 9000:
        assert engine.shape.structure.words_in_block == words
        assert said in engine.placement
        assert not engine.shape.structure.ring_in_block
        assert "sums of 9 steps in memory; whole rows" in engine.placement
    compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize("weight", ["int16", "int32"])
def test_pushed_bursts(monkeypatch, weight):
    """More spikes than a list in shared memory holds; weights of a word of their own."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    plan = bursting(2600)
    (synapses,) = plan.synapses
    factor = 2**20 if weight == "int32" else 1
    weights = synapses.weights.astype(weight) * factor
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
    engine = engine_of(plan, 2, SMALL)
    assert (engine.rows.layout, engine.rows.entry.wide) == (PUSHED, weight == "int32")
    compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))


def of_several_kinds():
    """Return a plan of populations with two receptors, none, and one; and a rule without states."""

    def two(s, arriving, p):
        return s.replace(v=arriving.up * 2 - arriving.down, on=s.v > 1, n=s.n + jnp.uint32(3)), s.v > p.least

    def none(s, arriving, p, random):
        return s, random.bernoulli(p.p)

    state = {"v": np.zeros(50, np.float32), "on": np.zeros(50, bool), "n": np.zeros(50, np.uint32)}
    params = {"least": np.linspace(0, 2, 50, dtype=np.float32)}
    rule = trace(two, {key: array[0] for key, array in state.items()}, ["up", "down"], params)
    quanta = {"up": np.float32(0.5), "down": np.float32(0.125)}
    x = PopulationPlan("x", 50, rule, state, params, quanta, (5, 6))
    p = {"p": np.float32(0.3)}
    y = PopulationPlan("y", 33, trace(none, {}, [], p), {}, p, {}, (5, 7))
    z = small_plans.population("z", 45, quantum=2.0)
    joined = [
        dataclasses.replace(small_plans.synapses(y, x, 300, 1, seed=1), receptor="down"),
        dataclasses.replace(small_plans.synapses(z, x, 200, 1, delay=2, seed=2), receptor="up"),
        small_plans.synapses(x, z, 200, 1, delay="uint16", seed=3),
    ]
    return plan_of([y, z, x], joined, 1)


def test_populations_of_several_kinds():
    engine = engine_of(of_several_kinds())
    (record,) = compare(engine, [40], Wanted(("x", "y", "z"), ("y",)))
    assert all(record.spikes[name][0].size for name in "xyz")


def test_one_neuron():
    population = small_plans.population("a", 1)
    for edges in (0, 1, 30):
        plan = plan_of([population], [small_plans.synapses(population, population, edges, 1)], 1)
        compare(engine_of(plan, None), [50], Wanted(("a",), ("a",), ("a",)))


def test_random_numbers_equal_the_interpreter():
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS)
    ours, theirs = engine_of(plan, 2), Interpreted(plan)
    for param, value in (("mean", 1.6), ("mean", 30), ("rate", 300), ("mean", np.nan), ("rate", 8), ("mean", -1)):
        for engine in (ours, theirs):
            engine.set("a", param, np.float32(value))
        equal(*(as_tree(engine.run(3, Wanted(("a",)), {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)


def test_denormals_are_flushed_as_by_the_interpreter():
    """Those that are given, too: here no operation of the rule would do it."""

    def passing(s, arriving, p):
        return s.replace(given=s.given, own=p.own, shared=p.shared), s.given > 1

    tiny = np.float32([1e-39, -1e-40, 2, 0])
    state = {"given": tiny, "own": np.zeros(4, np.float32), "shared": np.zeros(4, np.float32)}
    engine = engine_of(single(passing, state, {"own": -tiny, "shared": np.float32(1e-41)}), 1)
    compare(engine, [1, 1], Wanted(("a",)))


@pytest.mark.thorough
def test_no_result_depends_on_blocks_or_pieces_or_engines():
    whole = NumbaEngine(small_plans.plan(1))
    expected = whole.run(100, ALL, {})
    for blocks, pieces in ((2, [100]), (5, [1, 57, 42]), (1, [99, 1])):
        engine, spikes = engine_of(small_plans.plan(1), blocks), []
        for steps in pieces:
            spikes.append(engine.run(steps, ALL, {}).spikes["a"])
            again = engine_of(small_plans.plan(1), 3) if steps == 57 else NumbaEngine(small_plans.plan(1))
            again.load(engine.state)
            engine = again
        equal(engine.state, whole.state)
        equal(tuple(np.concatenate(x) for x in zip(*spikes, strict=True)), expected.spikes["a"])


def test_a_launch_ends_after_a_while(monkeypatch):
    """The pretend clock goes on by a microsecond whenever it is looked at."""
    for limit in ("_NANOSECONDS", "_RECORDED"):
        monkeypatch.setattr(f"brainevent.network.gpu.run.{limit}", 1)
    engine, asked = engine_of(small_plans.plan()), []
    compare(engine, [150], ALL)
    for wanted in (ALL, Wanted()):
        engine.run(150, wanted, {}, lambda: asked.append("before each launch"))
    assert len(asked) == 6


@pytest.mark.parametrize("first", [0xFFFA, 0xFFFE])
def test_tags_of_steps_begin_again(first):
    """A packet has 16 bits for the number of its step."""
    engine, theirs = engine_of(small_plans.plan()), Interpreted(small_plans.plan())
    for one in (engine, theirs):
        one.load(dataclasses.replace(theirs.state, step=np.uint32(first)))
        one.run(9, Wanted(), {})
    equal(engine.state, theirs.state)


def test_gpu_runs_are_cut_into_chunks_only_where_needed(monkeypatch):
    engine, steps = engine_of(small_plans.plan()), []
    run = engine.run
    monkeypatch.setattr(engine, "run", lambda count, *more: steps.append(count) or run(count, *more))
    sim = Simulation(engine.plan, engine)
    sim.run(300, record=["a.spikes", "b.counts", "b.rate"])
    assert steps == [300]
    inputs = {"a.syn": np.zeros(300, np.float32)}
    for more in ({"callback": lambda *_: None}, {"progress": True}, {"record": ["a.v"]}, {"inputs": inputs}):
        steps.clear()
        Simulation(engine.plan, engine).run(300, **more)
        assert len(steps) > 1
    steps.clear()
    sim.run(300, chunk=150)
    assert steps == [150, 150]


def test_what_is_not_finite_is_named():
    plan = small_plans.plan(1, check_finite=True)
    message = said_of_nan(engine_of(plan))
    assert message == said_of_nan(Interpreted(plan))
    assert re.search(r"population b: state v of neuron 4 is nan after step \d", message)


@pytest.mark.parametrize("shape", [(4, 37), (5, 36), (5,)])
def test_inputs_of_another_shape_are_refused(shape):
    message = re.escape(f"inputs a.syn: have shape {shape}; pass (5, 37), or (5, 1) for all")
    with pytest.raises(NetworkError, match=message):
        engine_of(small_plans.plan()).run(5, Wanted(), {("a", "syn"): np.zeros(shape, np.float32)})


@pytest.mark.parametrize("blocks", [0, 9, True, 2.0])
def test_numbers_of_blocks_that_are_refused(blocks):
    with pytest.raises(NetworkError, match=rf"blocks is {blocks}; pass an integer from 1 to 8, the number of multip"):
        engine_of(small_plans.plan(), blocks)


def test_bytes_that_are_refused():
    with pytest.raises(NetworkError, match="shared_bytes is 999999; pass an integer from 1 to 232448"):
        engine_of(small_plans.plan(), shared_bytes=999_999)
    with pytest.raises(NetworkError, match=r"a block needs .* kB of shared memory for lists of spikes, and 100 bytes"):
        engine_of(small_plans.plan(), shared_bytes=100)


def test_delays_that_do_not_fit_beside_sums_are_refused():
    plan = dense(50, size=70_000, targets="int32")
    (synapses,) = plan.synapses
    plan = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, delays=np.array([40_000], np.uint16)),))
    with pytest.raises(
        NetworkError, match="70016 sums in a block and delays of up to 65535 steps need 33 bits, but a word has 32"
    ):
        engine_of(plan, 1)


def test_weights_are_replaced():
    """Those of rows of another layout; what is on its way keeps the weights that it had."""
    plan = dense(1500)
    ours, theirs = engine_of(plan, 2), Interpreted(plan)
    (synapses,) = plan.synapses
    for factor in (1, 2**20, -1):
        weights = synapses.weights.astype(np.int32) * factor
        new = dataclasses.replace(plan, synapses=(dataclasses.replace(synapses, weights=weights),))
        for engine in (ours, theirs):
            engine.set_weights(new, engine.state)
            engine.run(9, Wanted(), {})
        equal(ours.state, theirs.state)
        assert ours.rows.entry.wide == (factor == 2**20)


def test_the_report_says_where_everything_lies(monkeypatch):
    monkeypatch.setattr("brainevent.network.training.gpu.engine.gpu", lambda: PretendGpu(shared_bytes=0))
    plan = dense(1500)
    simulation = Simulation(plan, engine_of(plan, 2))
    words = (
        "a pretend GPU: one cluster of 2 blocks of 512 threads, at most 30 neurons each, states in registers; sums of "
        r"9 steps in shared memory; padded rows, [\d.]+ kB, [\d.]+ bytes a synapse"
    )
    assert re.search(words, simulation.report())
    assert repr(simulation) == "Simulation(60 neurons, 1500 synapses, at step 0, cuda on one cluster of 2 blocks)"


def ptx_of_run(kinds, structure):
    """Return the PTX for the oldest GPUs that can run it."""
    return ptx_of(step_text(kinds, structure), "--std=c++17", capability=90 if structure.cluster else 75)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("make", "blocks"), [(small_plans.plan, 3), (lambda: bursting(2600), 2)])
def test_the_text_compiles_for_gpus(make, blocks, shared_bytes):
    """Nothing is fused, nothing approximated, and no array of a thread lies in memory."""
    engine = engine_of(make(), blocks, shared_bytes)
    ptx = ptx_of_run(engine.kinds, engine.shape.structure)
    assert ".entry run" in ptx
    assert ("st.async" in ptx) == (blocks == 2)
    assert "fma." not in ptx
    assert "approx" not in ptx
    assert ".local" not in ptx


@pytest.mark.parametrize("size", [60, 2600])
def test_the_text_for_programs_of_jax_compiles_for_gpus(size):
    engine = engine_of(bursting(size), 1)
    assert bool(engine.shape.structure.cells) == (size > 1024)
    structure = dataclasses.replace(engine.shape.structure, traced=True)
    ptx = ptx_of_run(engine.kinds, structure)
    assert ".entry run" in ptx
    assert ".local" not in ptx


@pytest.mark.parametrize(
    ("name", "entry"), [("rows.cu", "place_rows"), ("spikes.cu", "order_spikes"), ("fill.cu", "fill")]
)
def test_other_texts_compile_for_gpus(name, entry):
    assert f".entry {entry}" in ptx_of(other_text((name,), 256), "--std=c++17")


@pytest.mark.parametrize(
    ("platform", "capabilities", "dtype", "name"),
    [
        ("gpu", ("9.0",), "float32", "cuda"),
        ("gpu", ("9.0",), "float64", "numba"),
        ("gpu", (), "float32", "numba"),
        ("cpu", ("9.0",), "float32", "numba"),
    ],
)
def test_the_backend_that_is_chosen(monkeypatch, platform, capabilities, dtype, name):
    pytest.importorskip("cuda.bindings")
    monkeypatch.setattr(engines.jax, "default_backend", lambda: platform)
    monkeypatch.setattr(engines, "cuda_capabilities", lambda: capabilities)
    assert engines.chosen_name(dtype) == name


def test_texts_are_compiled_once_and_meanwhile(monkeypatch):
    gpu, texts = cuda_device.CudaDevice.__new__(cuda_device.CudaDevice), []
    gpu._binaries, gpu._compiling, gpu.capability = {}, {}, "9.0"

    def compiled(where, unit, architectures):
        texts.append((unit.name, threading.current_thread() is threading.main_thread()))
        time.sleep(0.01)
        if unit.text == "wrong":
            raise ValueError("it is wrong")
        return types.SimpleNamespace(binary=unit.text.encode())

    monkeypatch.setattr(cuda_device, "compiled", compiled)
    gpu.prepare({"a": "text a", "b": "text b", "c": "wrong"})
    while len(texts) < 3:
        time.sleep(0.001)
    assert [gpu.code(text, "x") for text in ("text a", "text b")] == [(b"text a", "x"), (b"text b", "x")]
    with pytest.raises(ValueError, match="it is wrong"):
        gpu.code("wrong", "c")
    assert sorted(texts) == [("a", False), ("b", False), ("c", False), ("c", True)]


def test_memory_is_given_back():
    device = PretendDevice()
    engine = CudaEngine(small_plans.plan(), blocks=3, device=device)
    for _ in range(2):  # spikes have two rooms
        engine.run(5, ALL, {})
    held = len(device.held)
    engine.run(5, ALL, {("a", "syn"): np.zeros((5, 1), np.float32)})
    engine.run(5, ALL, {})
    assert len(device.held) == held
    del engine
    assert not device.held


@pytest.mark.parametrize(("chosen", "number"), [(None, 0), ("cpu", 0), (("cpu", 3), 0), (("gpu", 1), 1)])
def test_the_gpu_is_that_of_jax(monkeypatch, chosen, number):
    if isinstance(chosen, tuple):
        chosen = types.SimpleNamespace(platform=chosen[0], local_hardware_id=chosen[1])
    monkeypatch.setattr(
        cuda_device, "jax", types.SimpleNamespace(config=types.SimpleNamespace(values={"jax_default_device": chosen}))
    )
    assert cuda_device.default_number() == number


def test_clocks_say_where_the_time_of_a_step_goes():
    plain, engine = (
        CudaEngine(small_plans.plan(2), blocks=3, clocks=clocks, device=PretendDevice()) for clocks in (False, True)
    )
    assert plain.clocks is None
    assert engine.placement.endswith("no steps measured yet")
    equal(as_tree(engine.run(30, ALL, {})), as_tree(plain.run(30, ALL, {})))
    cycles = engine.clocks.read()
    assert cycles.shape == (3, 4)
    assert (np.diff(cycles) > 0).all()
    assert (cycles > 0).all()
    marks = r"neurons updated after \d+, spikes sent after \d+, spikes of all blocks there after \d+, delivered"
    found = rf"cycles of a step, mean of 30 steps: {marks} after \d+; the largest part, \d+ % to [a-z ]+$"
    assert re.search(found, engine.placement)


@pytest.mark.parametrize("most", [structs.Extents(0, 0, 0), structs.Extents(3, 2, 1)])
def test_cpp_has_each_field_where_python_fills_it(most):
    common = structs.common_dtype(most)
    dtypes = [structs.SAMPLE, structs.GIVEN, structs.DISTRIBUTION, structs.RECIPE, structs.ROWS, structs.LAID]
    dtypes += [structs.LISTED, structs.piece_dtype(3), structs.population_dtype(most), common]
    dtypes += [structs.net_dtype(most, 2)]
    lines = [structs.shared_text(), "struct uint4 { unsigned x, y, z, w; };", structs.structs_text(*dtypes)]
    for dtype in dtypes:
        name = dtype.metadata["C++"]
        lines += [
            f'static_assert(__builtin_offsetof({name}, {field}) == {offset}, "{name}.{field}");'
            for field, (_, offset, *_) in dtype.fields.items()
        ]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    assert subprocess.run(command, check=False, input="\n".join(lines), text=True, stderr=subprocess.PIPE).stderr == ""
