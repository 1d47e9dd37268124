# SPDX-License-Identifier: Apache-2.0
"""Networks side by side on a GPU, real or pretended: the bits of each one alone, whatever their number."""

import jax
import numpy as np
import pytest
import test_network_sweep as sweeps
from beside_interpreter import equal
from gpu_on_cpu import PretendDevice
from network_in_jax import DeviceInJax
from test_network_in_programs import call
from test_network_sweep import CASES, DRIVES, INPUT, RECORD, STEPS, check, separate

import brainevent as be
from brainevent.network.gpu import shape, spikes
from brainevent.network.gpu.beside import Beside
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.kinds import kinds_of
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation


def built(device, blocks=2, seed=3):
    description = sweeps.network()
    plan = build_plan(description, seed=seed)
    return Simulation(plan, CudaEngine(plan, blocks=blocks, device=device), network=description)


def networks(device, blocks):
    """Return the numbers of networks of launches, of which each network has so many blocks."""
    return {count // blocks for count, _, shared in device.launches if shared}


@pytest.mark.parametrize("case", ["all", "weights", "seeds"])
def test_a_sweep_has_the_bits_of_builds_of_their_own(case):
    """With fewer networks at once than elements, and in clusters."""
    device = PretendDevice(4)
    found = built(device).sweep(STEPS, RECORD, **CASES[case])
    check(found, [separate("numba", CASES[case], k) for k in range(3)])
    assert networks(device, 2) == {1, 2}, "two networks in one launch, then the third"


def test_networks_without_clusters_meet_in_memory():
    device = PretendDevice(9, largest_cluster=0)
    found = built(device, blocks=3).sweep(STEPS, RECORD, **CASES["a number"])
    check(found, [separate("numba", CASES["a number"], k) for k in range(3)])


def test_launches_end_and_go_on(monkeypatch):
    """Where room for spikes is full, and where inputs are held for some steps at a time."""
    monkeypatch.setattr("brainevent.network.run.sweep._BYTES", 2000)
    monkeypatch.setattr(spikes.Spikes, "make_room", lambda self, capacity: setattr(self, "capacity", 45))
    device = PretendDevice(8)
    found = built(device).sweep(STEPS, RECORD, **CASES["all"])
    check(found, [separate("numba", CASES["all"], k) for k in range(3)])
    assert max(networks(device, 2)) == 3
    assert len([shared for _, _, shared in device.launches if shared]) > 3


def test_fewer_networks_run_at_once_if_memory_is_full(monkeypatch):
    sim = built(PretendDevice(8))
    made, sibling = [], CudaEngine.sibling

    def last(self):
        if made:
            raise be.errors.NetworkError("build: states take 1 GB, and 0 bytes are free")
        made.append(sibling(self))
        return made[0]

    monkeypatch.setattr(CudaEngine, "sibling", last)
    beside = Beside(sim.engine, 4)
    assert len(beside.engines) == 2
    assert beside.units == "2 networks at once, each on one cluster of 2 blocks"
    recorded = beside.run(beside.engines, 9, Wanted(counts=("E",)), [{}, {}])
    expected = built(PretendDevice(8)).run(9, "E.counts")["E.counts"]
    for one in recorded:
        np.testing.assert_array_equal(one.counts["E"], expected)


def test_many_networks_have_few_blocks_each():
    """As few as let all of them run at once, and no fewer than registers allow."""
    plan = build_plan(be.Network([be.models.lif_delta("cells", 40_000)], dt=0.1))
    kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
    found = [shape.blocks_beside(plan, kinds, numbers, 128, elements, 132) for elements in (1, 2, 4, 5, 16, 17, 1000)]
    assert found == [128, 64, 32, 16, 4, 4, 4]


@pytest.mark.parametrize("blocks", [2, 3])
def test_vmap_is_side_by_side(blocks):
    """Nested ones are one batch; what is not mapped is shared."""
    device = DeviceInJax(8, largest_cluster=16 if blocks == 2 else 0)
    sim, cpu = built(device, blocks), sweeps.built(threads=1)
    _compare(sim, cpu, jax.jit)


def _compare(sim, cpu, wrapped):
    with jax.default_device(jax.devices("cpu")[0]):
        state = jax.tree.map(np.asarray, be.simulate(cpu, cpu.state, {}, 9)[0])
        expected = _nested(cpu, state, wrapped)
    found = _nested(sim, state, wrapped)
    equal(found, expected)
    assert len(np.unique(found[1]["E.rate"].sum(-1))) == 6


def _nested(sim, state, wrapped):
    run = jax.vmap(jax.vmap(call(sim, RECORD), (0, None, None, None, None)), (None, 0, None, None, None))
    return jax.tree.map(np.asarray, wrapped(run)(DRIVES, INPUT[:2], state, None, None))


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_sweeps_on_a_gpu(case):
    pytest.importorskip("cuda.bindings.nvrtc")
    expected = [separate("numba", CASES[case], k) for k in range(3)]
    check(sweeps.built("cuda").sweep(STEPS, RECORD, **CASES[case]), expected)
    check(sweeps.built("cuda", blocks=20).sweep(STEPS, RECORD, **CASES[case]), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("blocks", [None, 4, 20])
def test_vmap_on_a_gpu(blocks):
    pytest.importorskip("cuda.bindings.nvrtc")
    _compare(sweeps.built("cuda", blocks=blocks), sweeps.built(threads=1), jax.jit)


@pytest.mark.gpu
def test_trials_of_a_large_network_on_a_gpu():
    """Each on a part of the GPU's multiprocessors, which meet in memory."""
    pytest.importorskip("cuda.bindings.nvrtc")
    from examples.networks import cuba

    names = ["exc.spikes", "inh.counts"]
    network = cuba.network(60_000)
    swept = network.build(seed=1, backend="cuda").sweep(300, names, seeds=range(5), redraw=False)
    sim = network.build(seed=1, backend="cuda")
    for k in (0, 4):
        alone = sim.sweep(300, names, seeds=[k], redraw=False)[0]
        sweeps.equal(sweeps.values(swept[k]), sweeps.values(alone))
    sweeps.equal(sweeps.values(swept[1]), sweeps.values(sim.run(300, names)))
