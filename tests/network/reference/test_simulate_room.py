# SPDX-License-Identifier: Apache-2.0
"""What `simulate` records and does not fit in memory is refused before it runs, for all elements of a batch."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_network_in_jax as on_gpu

import brainevent as be
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.run.simulation import Simulation


def rising(s, arriving, p):
    return s.replace(v=s.v + p.step + arriving.syn), s.v < 0


CELLS = be.Population("b", 20_000, rising, {"v": 0.0}, {"step": 1.0})
NETWORK = be.Network([CELLS], [be.Projection(CELLS, CELLS, be.connect.total(5, weight=1.0), into="syn", name="w")])


@pytest.fixture(params=["jax", "numba", "cuda"])
def sim(request, monkeypatch):
    monkeypatch.setattr("brainevent.event.room._available", lambda: 10**9)
    if request.param != "cuda":
        return NETWORK.build(backend=request.param)
    plan = build_plan(NETWORK)
    return Simulation(plan, CudaEngine(plan, blocks=2, device=on_gpu.DeviceInJax(8)), network=NETWORK)


def test_what_cannot_be_recorded_is_refused_at_once(sim):
    words = (
        "simulate: what 100000 steps record (b.spikes 8 GB, b.v 8 GB, b.rate 400 kB) would take 16 GB, but the host "
        "has 1 GB of memory left; 6249 steps fit: record fewer neurons, every(n, ..., neurons=...), or call it for "
        "fewer steps, or fewer elements, at a time"
    )
    record = ["b.rate", "b.v", "b.spikes"]
    with pytest.raises(MemoryError, match=re.escape(words)):
        be.simulate(sim, sim.state, {}, 10**5, record=record)
    with pytest.raises(MemoryError, match=r"simulate: what 40000 steps record \(b.v 1.6 GB\) would take 1.6 GB"):
        be.simulate(sim, sim.state, {}, 40_000, record=be.every(2, "b.v"))


def test_all_elements_of_a_batch_count(sim):
    def run(step, state):
        return be.simulate(sim, state, {"b": {"step": step}}, 3000, record="b.spikes")

    steps = jnp.ones(2)
    with pytest.raises(
        MemoryError,
        match=r"what 3000 steps of 6 elements record \(b.spikes 1.44 GB\) would take 1.44 GB.*; 4 elements fit: ",
    ):
        jax.vmap(jax.vmap(run, (0, None)), (0, None))(jnp.ones((3, 2)), sim.state)
    with pytest.raises(MemoryError, match=r"what 6000 steps of 4 elements record \(b.v 1.92 GB, b.rate 96 kB\)"):
        jax.vmap(lambda w: be.simulate(sim, sim.state, {"w": w}, 6000, record=["b.rate", "b.v"]))(np.ones((4, 1)))
    states = jax.tree.map(lambda x: jnp.stack([x] * 5), sim.state)
    with pytest.raises(MemoryError, match=r"what 3000 steps of 5 elements record \(b.spikes 1.2 GB\)"):
        jax.vmap(run, (None, 0))(steps[0], states)


def test_what_is_not_computed_is_not_refused(sim):
    shapes = jax.eval_shape(lambda state: be.simulate(sim, state, {}, 10**5, record="b.v"), sim.state)
    assert shapes[1]["b.v"].shape == (10**5, 20_000)
    jax.jit(lambda state: be.simulate(sim, state, {}, 10**5, record="b.v")).trace(sim.state)
    assert be.simulate(sim, sim.state, {}, 3, record="b.v")[1]["b.v"][2, 5] == 3
