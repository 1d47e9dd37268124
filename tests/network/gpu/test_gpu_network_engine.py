# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: the bits of the interpreter, for every network, partition and split of a run."""

import hashlib
import math
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
import test_network_drawing as drawn
import test_network_gpu as pretended
import test_network_in_jax as in_jax
import test_network_replaced_weights as replaced
from beside_interpreter import ALL, DRAWN_PARAMS, DRAWN_STATE, as_tree, drawing, equal, single

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.description.values import normal
from brainevent.network.gpu import partition, program, spikes
from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT
from brainevent.network.interpreted import Interpreted
from brainevent.network.pages import aligned
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied

pytestmark = [pytest.mark.gpu, drawn.pytestmark]
pytest.importorskip("cuda.bindings.nvrtc")
SMALL = pretended.SMALL


@pytest.mark.parametrize("shared_bytes", [None, SMALL, 48 * 1024])
@pytest.mark.parametrize("blocks", [1, 2, 3, 16, 40, 132])
def test_a_busy_network_equals_the_interpreter(blocks, shared_bytes):
    engine = CudaEngine(small_plans.plan(), blocks=blocks, shared_bytes=shared_bytes)
    pretended.compare(engine, [1, 57, 142], ALL)


@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(("edges", "blocks", "layout"), [(1500, 2, PADDED), (150, 3, SHORT), (130_000, 1, COMPACT)])
def test_every_layout_of_rows(weight, edges, blocks, layout):
    engine = CudaEngine(pretended.dense(edges, weight=weight), blocks=blocks)
    assert engine.rows.layout == layout
    pretended.compare(engine, [100], Wanted(("a",)))


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize(("most", "blocks", "units"), [*pretended.PACKETS, (32, 16, 1)])
def test_any_number_of_spikes_in_a_packet(edges, most, blocks, units, shared_bytes):
    engine = CudaEngine(pretended.one_after_another(most, blocks, edges), blocks=blocks, shared_bytes=shared_bytes)
    assert engine.shape.structure.units == units
    pretended.compare(engine, [most + 12], Wanted(("a",)))


def test_a_small_network_is_one_cluster():
    engine = CudaEngine(pretended.dense(4000, size=1000))
    assert engine.shape.structure.cluster == engine.partition.blocks > 1
    assert engine.units == f"one cluster of {engine.partition.blocks} blocks"
    large = driven(40_000, 20, 0.1).build(backend="cuda")
    assert large.engine.shape.structure.cluster == 0


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize(("size", "blocks"), [(700, 2), (2600, 2), (30_000, 132)])
def test_all_neurons_at_once(size, blocks, shared_bytes):
    engine = CudaEngine(pretended.bursting(size), blocks=blocks, shared_bytes=shared_bytes)
    pretended.compare(engine, [11, 7], Wanted(("a",), ("a",), ("a",)))


@pytest.mark.parametrize("shared_bytes", [None, SMALL + 8000, SMALL])
@pytest.mark.parametrize("blocks", [1, 2])
def test_states_in_memory(monkeypatch, blocks, shared_bytes):
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    plan, inputs = pretended.crowded()
    engine = CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes)
    pretended.compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


@pytest.mark.parametrize("size", [30, 1500])
@pytest.mark.parametrize("weight", drawn.WEIGHTS, ids=str)
@pytest.mark.parametrize("kind", sorted(drawn.KINDS))
def test_the_gpu_draws_what_the_host_draws(kind, weight, size):
    if kind == "all_to_all" and size > 30 and weight != 1.0:
        pytest.skip("many synapses, which other kinds draw alike")
    how = drawn.KINDS[kind](25 if size == 30 else 150, weight=weight, self_connections=False)
    network = drawn.described.joined(how, size, delay=normal(1.5, 0.75))
    theirs, ours = drawn.both(network, cuda_device(), seed=7)
    assert ours.projections == theirs.projections
    (how_ours, found), (how_theirs, expected) = (drawn.rows_of(plan, 3, cuda_device()) for plan in (ours, theirs))
    assert how_ours == how_theirs
    np.testing.assert_array_equal(found, expected)


def test_the_gpu_draws_a_part_of_the_microcircuit():
    theirs, ours = drawn.both(drawn.microcircuit.network(0.2), cuda_device(), seed=5)
    assert ours.projections == theirs.projections
    (how_ours, found), (how_theirs, expected) = (drawn.rows_of(plan, 132, cuda_device()) for plan in (ours, theirs))
    assert how_ours == how_theirs
    np.testing.assert_array_equal(found, expected)


def test_weights_that_are_set_are_those_of_a_separate_build():
    """Drawn on the GPU in other quanta, in the middle of a run in finer ones, and in the programs of `simulate`."""
    law = be.connect.prob(0.2, weight=be.uniform(5.0, 8.0))
    sims = [replaced.network(exc=1.5, inh=-1.5, both=law).build(seed=3, backend=name) for name in ("cuda", "numba")]
    assert len(sims[0].engine.plan.synapses.held) < len(sims[0].engine.plan.synapses)
    for strength in (4.0, 4.3, 4.7, 4.0):
        for sim in sims:
            sim.reset()
            for name in replaced.INH:
                sim.set(name, weights=-0.4 * strength)
        other = replaced.network(exc=1.5, inh=-0.4 * strength, both=law).build(seed=3, backend="cuda")
        expected = replaced.recorded(other)
        for sim in sims:
            replaced.same(replaced.recorded(sim), expected)
        for sim in sims:
            for name in (*replaced.EXC, *replaced.INH):
                sim.set(name, weights=2.0 if name in replaced.EXC else -2.0)
        assert sims[0].state.quanta == sims[1].state.quanta
        state, out = be.simulate(sims[0], sims[0].state, sims[0].params, 30, record="E.counts")
        counts = [sim.run(30, "E.counts")["E.counts"] for sim in sims]
        np.testing.assert_array_equal(*counts)
        np.testing.assert_array_equal(out["E.counts"], counts[0])
        equal(copied(sims[0].engine.plan, state), sims[1].state)


@pytest.mark.parametrize("law", [None, be.connect.prob(0.2, weight=be.uniform(5.0, 8.0))], ids=["one", "drawn"])
def test_a_sweep_of_simulate_is_that_of_separate_builds(law):
    """Rows are operands of programs that run at once; from any state, for weights that come again, and under vmap."""
    sim = replaced.network(exc=1.5, inh=-1.5, both=law, size=400).build(seed=3, backend="cuda")
    record, strengths, expected = ["E.counts", "E.v"], (4.0, 4.3, 4.7, 4.0), {}
    for strength in strengths:
        other = replaced.network(exc=1.5, inh=-0.4 * strength, both=law, size=400).build(seed=3, backend="numba")
        expected[strength] = other.run(200, record)["E.counts"], other.state
        params = dict.fromkeys(replaced.INH, -0.4 * strength)
        state, first = be.simulate(sim, sim.state, params, 120, record=record)
        state, second = be.simulate(sim, state, params, 80, record=record)
        np.testing.assert_array_equal(first["E.counts"] + second["E.counts"], expected[strength][0])
        equal(copied(other.engine.plan, state), other.state)
        jitted = jax.jit(lambda state, params=params: be.simulate(sim, state, params, 200, record=record))
        np.testing.assert_array_equal(jitted(sim.state)[1]["E.counts"], expected[strength][0])

    def swept(weight):
        return be.simulate(sim, sim.state, dict.fromkeys(replaced.INH, weight), 200, record=record)[1]["E.counts"]

    for strength, counts in zip(strengths, jax.vmap(swept)(-0.4 * np.array(strengths)), strict=True):
        np.testing.assert_array_equal(counts, expected[strength][0])


def test_memory_that_is_full_ends_a_run_with_all_its_spikes(monkeypatch):
    """On the host, before steps whose spikes may find no room; on the GPU, launches stay small."""
    network = driven(20_000, 50, be.uniform(0.1, 3.0))
    sim, cpu = (network.build(seed=3, backend=backend, round_delays=True) for backend in ("cuda", "numba"))
    limit = sim.engine.partition.blocks * 4096 * 2 + 200_000

    def limited(shape, dtype):
        if math.prod(shape) > limit:
            raise MemoryError
        return aligned(shape, dtype)

    monkeypatch.setattr(spikes, "aligned", limited)
    result = sim.run(10**6, "cells.spikes")
    assert result.reason == "memory is full: there is no room for more spikes"
    assert 0 < result.steps == sim.steps < 10**6
    expected = cpu.run(result.steps, "cells.spikes")["cells.spikes"]
    np.testing.assert_array_equal(result["cells.spikes"].times, expected.times)
    np.testing.assert_array_equal(result["cells.spikes"].neurons, expected.neurons)


def test_random_numbers_equal_the_interpreter():
    plan = single(drawing, DRAWN_STATE, DRAWN_PARAMS)
    ours, theirs = CudaEngine(plan), Interpreted(plan)
    for param, value in (("mean", 1.6), ("mean", 30), ("rate", 300), ("mean", np.nan), ("rate", 8), ("mean", -1)):
        for engine in (ours, theirs):
            engine.set("a", param, np.float32(value))
        equal(*(as_tree(engine.run(3, Wanted(("a",)), {})) for engine in (ours, theirs)))
        equal(ours.state, theirs.state)


@pytest.mark.parametrize("microseconds", [500_000, 60])
@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("blocks", [1, 3, 132])
def test_a_program_of_jax_equals_the_interpreter(monkeypatch, blocks, shared_bytes, microseconds):
    monkeypatch.setattr(program, "_LAUNCH", microseconds)
    plan = small_plans.plan()
    sim = Simulation(plan, CudaEngine(plan, blocks=blocks, shared_bytes=shared_bytes))
    in_jax.compare(sim, [70, 33], ALL, None, {"a": {"decay": np.float32(0.8)}})


@pytest.mark.parametrize("blocks", [2, 40])
def test_inputs_of_a_program_of_jax(blocks):
    plan, inputs = pretended.crowded()
    params = {"a": {"decay": np.float32(0.8)}, "c": {"each": np.full(300, 1, np.float32)}}
    in_jax.compare(Simulation(plan, CudaEngine(plan, blocks=blocks)), [4, 5], Wanted(("a",), ("b",)), inputs, params)


def excited(s, arriving, p, random):
    v = jnp.where(s.pause > 0, s.v, s.v * p.decay + arriving.syn + random.poisson(p.mean) * p.push)
    spike = v >= 1
    return s.replace(v=jnp.where(spike, 0.0, v), pause=jnp.where(spike, 20, jnp.maximum(s.pause - 1, 0))), spike


def driven(size, fan, delay):
    """Return a network of cells that Poisson numbers drive."""
    cells = be.Population(
        "cells", size, excited, state={"v": 0.0, "pause": 0}, params={"decay": 0.98, "mean": 0.5, "push": 0.1}
    )
    weight = be.normal(-0.2 / fan, 0.05 / fan)
    connections = be.connect.total(size * fan, weight=weight)
    return be.Network([cells], [be.Projection(cells, cells, connections, into="syn", delay=delay)], dt=0.1)


@pytest.mark.parametrize(
    ("size", "fan", "delay", "steps"),
    [
        (5000, 20, 0.1, 3000),
        (5000, 400, be.normal(1.5, 0.75), 3000),
        (20_000, 200, be.uniform(0.1, 100.0), 700),
        (300_000, 20, 0.1, 200),
        (200_000, 120, 0.1, 200),
        (2_500_000, 20, 0.1, 60),
    ],
    ids=["short", "padded", "long delays", "in memory", "slots", "pushed"],
)
def test_many_spikes_equal_the_cpu(size, fan, delay, steps):
    network, record = driven(size, fan, delay), ["cells.spikes", "cells.rate"]
    cpu = network.build(seed=3, backend="numba")
    expected = cpu.run(steps, record=record)
    assert expected["cells.rate"].sum() > size * steps / 100
    for blocks, chunk in ((132, None), (100, 77), (64, 501)):
        gpu = network.build(seed=3, backend="cuda", blocks=blocks)
        assert (gpu.engine.rows.layout == PUSHED) == (size == 2_500_000)
        found = gpu.run(steps, record=record, chunk=chunk)
        np.testing.assert_array_equal(found["cells.rate"], expected["cells.rate"])
        ours, theirs = (result["cells.spikes"] for result in (found, expected))
        np.testing.assert_array_equal(ours.times, theirs.times)
        np.testing.assert_array_equal(ours.neurons, theirs.neurons)
        equal(gpu.state, cpu.state)


def test_ten_million_neurons():
    network, record = driven(10_000_000, 4, 0.1), ["cells.rate", "cells.counts"]
    gpu, cpu = (network.build(seed=3, backend=backend) for backend in ("cuda", "numba"))
    found, expected = (sim.run(40, record=record) for sim in (gpu, cpu))
    assert expected["cells.rate"].sum() > 5_000_000
    for name in record:
        np.testing.assert_array_equal(found[name], expected[name])


def test_simulate_beside_other_work_of_jax():
    """In one program with products of matrices, twice, and for several values of a parameter at once."""
    sim, beside = (driven(20_000, 50, be.uniform(0.1, 3.0)).build(seed=3, round_delays=True) for _ in range(2))
    assert isinstance(sim.engine, CudaEngine)
    record = ["cells.spikes", "cells.counts", "cells.rate", be.every(7, "cells.v", neurons=slice(0, 50))]

    @jax.jit
    def run(state, matrix):
        state, first = be.simulate(beside, state, {}, 500, record=record)
        product = jnp.linalg.matrix_power(matrix, 64)
        state, second = be.simulate(beside, state, {}, 500, record=record)
        return state, first, second, product @ second["cells.v"][:, :50].sum(0)

    matrix = jnp.eye(50) * 0.5
    for _ in range(2):
        state, first, second, product = run(beside.state, matrix)
    results = [sim.run(500, record=record) for _ in range(2)]
    equal(copied(sim.plan, state), sim.state)
    for found, expected in zip((first, second), results, strict=True):
        np.testing.assert_array_equal(found["cells.rate"], expected["cells.rate"])
        np.testing.assert_array_equal(found["cells.counts"], expected["cells.counts"])
        np.testing.assert_array_equal(found["cells.v"][: len(expected["cells.v"])], expected["cells.v"])
        assert found["cells.spikes"].sum() == expected["cells.rate"].sum() > 100
    assert np.isfinite(product).all()
    decays = jnp.array([0.98, 0.9, 0.97])
    after = jax.vmap(lambda decay: be.simulate(beside, beside.state, {"cells": {"decay": decay}}, 99)[0])(decays)
    for k, decay in enumerate(decays):
        sim.reset()
        sim.set("cells", decay=float(decay))
        sim.run(99)
        equal(copied(sim.plan, jax.tree.map(lambda x, k=k: x[k], after)), sim.state)


def bursting(s, arriving, p, random):
    """Spike when driven, and all at once in every thousandth step."""
    s, driven = excited(s, arriving, p, random)
    return s.replace(n=s.n + 1), driven | (s.n % 1000 == 500)


def digest(simulation, results):
    """Return a hash of the spikes of consecutive runs and of the state after them."""
    found = hashlib.sha256()
    spikes = [result["cells.spikes"] for result in results]
    steps = np.rint(np.concatenate([one.times for one in spikes]) / spikes[0].dt)
    for part in (steps, np.concatenate([one.neurons for one in spikes])):
        found.update(part.astype(np.int64).tobytes())
    for _, array in sorted(simulation.state.neurons["cells"].items()):
        found.update(np.asarray(array).tobytes())
    return found.hexdigest()


def test_a_million_spikes_and_three_bursts_have_one_hash(tmp_path):
    """Over numbers of blocks, splits of a run, and a file between two processes' worth of steps."""
    size, steps, record = 20_000, 3000, ["cells.spikes"]
    params = {"decay": 0.98, "mean": 0.5, "push": 0.1}
    cells = be.Population("cells", size, bursting, state={"v": 0.0, "pause": 0, "n": 0}, params=params)
    connections = be.connect.total(size * 100, weight=be.normal(-0.002, 0.0005))
    delays = be.uniform(0.1, 5.0)
    network = be.Network([cells], [be.Projection(cells, cells, connections, into="syn", delay=delays)], dt=0.1)
    cpu = network.build(seed=3, backend="numba", round_delays=True)
    expected = cpu.run(steps, record=[*record, "cells.rate"])
    spikes = expected["cells.spikes"]
    assert spikes.neurons.size >= 10**6
    assert (np.asarray(expected["cells.rate"]) == size).sum() == 3
    hashes = {digest(cpu, [expected])}
    for blocks, chunk in ((132, None), (100, 777), (64, 1)):
        gpu = network.build(seed=3, backend="cuda", blocks=blocks, round_delays=True)
        hashes.add(digest(gpu, [gpu.run(steps, record=record, chunk=chunk)]))
    first, second = (network.build(seed=3, backend="cuda", blocks=b, round_delays=True) for b in (132, 100))
    parts = [first.run(1234, record=record)]
    first.save(tmp_path / "state.npz")
    second.load(tmp_path / "state.npz")
    parts.append(second.run(steps - 1234, record=record))
    hashes.add(digest(second, parts))
    assert len(hashes) == 1


def run_at_once(plan, engines):
    """Run all from threads of their own; compare each with the CPU."""
    expected = NumbaEngine(plan)
    expected.run(20_000, Wanted(), {})
    threads = [threading.Thread(target=engine.run, args=(20_000, Wanted(), {})) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in engines:
        equal(engine.state, expected.state)


HOLD = r"""
__global__ void hold(const int* before, int* done, unsigned milliseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < milliseconds * 1000000ull);
    if (threadIdx.x == 0) done[blockIdx.x] = before[blockIdx.x] + 1;
}
"""


@pytest.mark.parametrize("size", [4_000, 40_000])  # one cluster, and blocks that send packets
def test_a_run_waits_for_another_kernel_and_gives_the_same_bits(size):
    """A kernel has all multiprocessors for two seconds: all blocks wait for it, and none of them alone."""
    before = jnp.zeros(2 * cuda_device().multiprocessors, jnp.int32)
    hold = be.cuda_kernel(HOLD, "hold", before, grid=before.size, block=1024)
    sim, undisturbed = (driven(size, 20, 0.1).build(seed=3, backend="cuda") for _ in range(2))
    for each in (sim, undisturbed):
        each.run(10)
    jax.block_until_ready(hold(before, milliseconds=1))
    held = hold(before, milliseconds=2000)
    found = sim.run(1000, record="cells.spikes")["cells.spikes"]
    assert np.asarray(held).tolist() == [1] * before.size
    expected = undisturbed.run(1000, record="cells.spikes")["cells.spikes"]
    assert found.neurons.size > 0
    equal((found.times, found.neurons, sim.state), (expected.times, expected.neurons, undisturbed.state))


def test_engines_run_at_once():
    """Each takes the whole GPU: one waits until the other ends."""
    plan = small_plans.plan()
    engines = [CudaEngine(plan, blocks=132) for _ in range(3)]
    run_at_once(plan, engines)


def test_what_does_not_fit_is_refused_with_a_reason():
    with pytest.raises(
        NetworkError, match=r"build: synapses take 1000 TB, and [\d.]+ GB of [\d.]+ GB are free on GPU 0 \(NVIDIA"
    ):
        cuda_device().memory(10**15, "synapses")


def test_the_cuda_engine_is_chosen_on_a_gpu():
    cells = be.Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
    assert isinstance(be.Network([cells]).build().engine, CudaEngine)
    assert cuda_device().multiprocessors >= 132


def test_two_gpus_run_two_networks_at_once():
    if jax.device_count() < 2:
        pytest.skip("needs two GPUs")
    plan = small_plans.plan()
    engines = []
    for device in jax.devices("gpu")[:2]:
        with jax.default_device(device):
            engines.append(CudaEngine(plan))
    assert len({engine.device for engine in engines}) == 2
    run_at_once(plan, engines)
