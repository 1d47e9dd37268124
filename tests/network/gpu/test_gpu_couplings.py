# SPDX-License-Identifier: Apache-2.0
"""Couplings on a real GPU: the bits of the interpreter and of native code on a CPU, for every partition."""

import dataclasses

import coupled_plans
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_gpu_couplings_pretended as pretended
import test_network_drawing as drawn
import test_network_in_jax as in_jax
from beside_interpreter import compare, equal, plan_of
from coupled_plans import RECORDED, coupling, inputs, lively, population

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation

pytestmark = [pytest.mark.gpu, drawn.pytestmark]
pytest.importorskip("cuda.bindings.nvrtc")


@pytest.mark.parametrize("shared_bytes", [None, pretended.SMALL])
@pytest.mark.parametrize("blocks", [1, 2, 3, 8, 16, 40, 132])
def test_it_equals_the_interpreter(blocks, shared_bytes):
    engine = CudaEngine(coupled_plans.plan(), blocks=blocks, shared_bytes=shared_bytes)
    compare(engine, [1, 57, 142], RECORDED, inputs(200))
    assert lively(engine.state)


def large(size, entries):
    a, b = population("a", size, 1), population("b", size // 4, 2)
    joined = (coupling(a, a, entries, difference=True, seed=1), coupling(a, b, entries // 4, state="u", seed=2))
    return dataclasses.replace(plan_of([b, a], [], 2), couplings=(*joined, coupling(b, a, entries // 8, seed=3)))


@pytest.mark.parametrize("most", [16, 0])
@pytest.mark.parametrize("blocks", [None, 7])
def test_many_neurons_for_many_steps(monkeypatch, most, blocks):
    """Blocks run ahead of each other by a step: a state that is read too late or too early has other bits."""
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan = large(40_000, 800_000)
    ours, theirs = CudaEngine(dataclasses.replace(plan, parts=1), blocks=blocks), NumbaEngine(plan)
    for steps in (1, 2000):
        equal(*(one.run(steps, Wanted(("a",), (), ("b",)), {}).spikes for one in (ours, theirs)))
    equal(ours.state, theirs.state)
    assert lively(ours.state)


def test_within_programs_of_jax():
    sim = Simulation(coupled_plans.plan(), CudaEngine(coupled_plans.plan()))
    in_jax.compare(sim, [25, 80], RECORDED, inputs(105))
    expected = sim.run(12, "a.v")["a.v"]
    decays = jnp.full(300, 0.9, np.float32).at[7].set(0.5)
    sim.reset()
    found = jax.vmap(lambda d: be.simulate(sim, sim.state, {"a": {"decay": d}}, 12, record="a.v")[1]["a.v"])(decays)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[-1], expected)
    assert not np.array_equal(found[7], expected)


def test_weights_are_swept_and_set():
    plan = coupled_plans.plan()
    name = plan.couplings[0].name
    sims = [Simulation(plan, engine(plan)) for engine in (CudaEngine, NumbaEngine)]
    weights = np.random.default_rng(0).normal(0, 0.1, (20, 200)).astype(np.float32)
    swept = [sim.sweep(50, "a.v", {name: {"weights": weights}})["a.v"] for sim in sims]
    np.testing.assert_array_equal(*swept)
    for sim in sims:
        sim.set(name, weights=weights[3])
    np.testing.assert_array_equal(sims[0].run(50, "a.v")["a.v"], swept[0][3])


def test_a_described_network_has_the_bits_of_a_cpu():
    def cell(s, arriving, p):
        v = s.v + 0.1 * (p.drive - s.v + arriving.gap + arriving.syn)
        return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1

    cells = be.Population("cells", 3000, cell, state={"v": be.uniform(0, 1)}, params={"drive": be.uniform(0.5, 2)})
    links = [
        be.Coupling(cells, cells, be.connect.in_degree(20, weight=be.normal(0.02, 0.01)), difference=True),
        be.Projection(cells, cells, be.connect.prob(0.05, weight=be.normal(0.01, 0.002)), into="syn", delay=1.5),
    ]
    net = be.Network([cells], links, dt=0.1)
    found = [net.build(seed=2, backend=backend).run(1000, ["cells.spikes", "cells.v"]) for backend in ("cuda", "numba")]
    np.testing.assert_array_equal(*(one["cells.v"] for one in found))
    np.testing.assert_array_equal(*(one["cells.spikes"].neurons for one in found))
