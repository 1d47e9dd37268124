# SPDX-License-Identifier: Apache-2.0
"""Graded spikes on a real GPU: the bits of the interpreter for every layout, packet and number of blocks."""

import dataclasses

import jax
import numpy as np
import pytest
import small_plans
import test_network_drawing as drawn
import test_network_gpu as pretended
import test_network_in_jax as in_jax
from beside_interpreter import ALL, equal, stop_alike
from small_plans import graded

import brainevent as be
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.structs import COMPACT, PADDED, PUSHED, SHORT
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation

pytestmark = [pytest.mark.gpu, drawn.pytestmark]
pytest.importorskip("cuda.bindings.nvrtc")
SMALL = pretended.SMALL


@pytest.mark.parametrize("shared_bytes", [None, SMALL])
@pytest.mark.parametrize("blocks", [1, 2, 16, 40, 132])
@pytest.mark.parametrize("names", [(), ("a",)])
def test_a_busy_network_equals_the_interpreter(names, blocks, shared_bytes):
    engine = CudaEngine(graded(small_plans.plan(), *names), blocks=blocks, shared_bytes=shared_bytes)
    assert engine.shape.structure.cluster == 0
    pretended.compare(engine, [1, 57, 142], ALL)


@pytest.mark.parametrize("weight", ["int16", "int32"])
@pytest.mark.parametrize(("edges", "blocks", "layout"), [(1500, 2, PADDED), (150, 3, SHORT), (130_000, 1, COMPACT)])
def test_every_layout_of_rows(weight, edges, blocks, layout):
    engine = CudaEngine(graded(pretended.dense(edges, weight=weight)), blocks=blocks)
    assert engine.rows.layout == layout
    pretended.compare(engine, [100], Wanted(("a",)))


@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize(("most", "blocks", "units"), [*pretended.PACKETS, (32, 16, 1)])
def test_any_number_of_spikes_in_a_packet(edges, most, blocks, units):
    engine = CudaEngine(graded(pretended.one_after_another(most, blocks, edges)), blocks=blocks)
    assert engine.shape.structure.units == units
    pretended.compare(engine, [most + 12], Wanted(("a",)))


@pytest.mark.parametrize("most", [16, 0])
@pytest.mark.parametrize("names", [(), ("a",)])
def test_more_neurons_than_threads(monkeypatch, names, most):
    monkeypatch.setattr(partition, "_MOST_CELLS", most)
    plan, inputs = pretended.crowded()
    engine = CudaEngine(graded(plan, *names), blocks=2)
    assert (engine.rows.layout == PUSHED) == (most == 0)
    pretended.compare(engine, [4, 5], Wanted(("a", "c"), ("b",), ("c", "b")), inputs)


def test_programs_of_jax_equal_the_interpreter():
    """Alone, and side by side under `vmap`."""
    plan, decays = graded(small_plans.plan()), np.array([0.9, 0.5, 0.99], np.float32)
    sim = Simulation(plan, CudaEngine(plan, blocks=3))
    in_jax.compare(sim, [7, 20], ALL)

    def run(decay):
        return be.simulate(sim, sim.state, {"a": {"decay": decay}}, 12, record=ALL)

    found = jax.jit(jax.vmap(run))(decays)
    for k, decay in enumerate(decays):
        one = jax.tree.map(lambda x: x[k], found)  # noqa: B023 - called at once
        in_jax.check(plan, in_jax.interpreted(plan, {"a": {"decay": decay}}), 12, ALL, {}, *one)


@pytest.mark.parametrize("check_finite", [False, True])
def test_a_value_out_of_range_stops_the_run_after_its_step(check_finite):
    plan = dataclasses.replace(graded(small_plans.plan(), "a", clip=False), check_finite=check_finite)
    stop_alike(plan, CudaEngine(plan, blocks=3), "value_range")


@pytest.mark.parametrize(("size", "fan"), [(3000, 100), (200_000, 40)])
def test_terminals_of_a_large_network_equal_the_cpu(size, fan):
    """Synapses that depress, drawn on the GPU, with more neurons than registers hold."""
    cells = be.models.lif_exponential("cells", size, v=be.uniform(-60, -50))
    terminals = be.models.tsodyks_markram("terminals", size, use=0.3, tau_recover=50.0, tau_facilitate=20.0)
    net = be.Network(
        [cells, terminals],
        [
            be.Projection(cells, terminals, be.connect.one_to_one(weight=1.0), into="spikes"),
            be.Projection(
                terminals, cells, be.connect.out_degree(fan, weight=30.0 / fan), into="exc", delay=be.uniform(0.3, 3.0)
            ),
        ],
    )
    plan = build_plan(net, seed=1, parts=4)
    engines = CudaEngine(build_plan(net, seed=1)), NumbaEngine(plan)
    records = [engine.run(300, Wanted((), ("cells", "terminals")), {}) for engine in engines]
    for name in ("cells", "terminals"):
        np.testing.assert_array_equal(*(record.counts[name] for record in records))
    equal(engines[0].state, engines[1].state)
    assert records[0].counts["terminals"].sum() > size / 4
