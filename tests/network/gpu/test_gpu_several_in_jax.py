# SPDX-License-Identifier: Apache-2.0
"""On real GPUs: programs of JAX with a network on several of them have the bits of one."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from beside_interpreter import equal
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu.cuda_device import CudaDevice, number_of_gpus
from brainevent.network.state import copied

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning"),
]
pytest.importorskip("cuda.bindings.nvrtc")

SHORT = be.uniform(0.1, 2.0)
RECORD = ["cells.counts", "cells.rate", be.every(7, "cells.v", neurons=[3, 0, 1999]), "cells.spikes"]


def network(n=2000, delay=SHORT):
    cells = be.models.lif_delta("cells", n, current=be.uniform(100, 400))
    rule = be.connect.in_degree(100, weight=be.normal(0.3, 0.1))
    return be.Network([cells], [be.Projection(cells, cells, rule, into="syn", delay=delay, name="all")], dt=0.1)


def built(devices, n=2000, delay=SHORT, **options):
    if np.ndim(devices) == 0 and number_of_gpus() < devices:
        pytest.skip(f"it needs {devices} GPUs")
    return network(n, delay).build(seed=1, backend="cuda", devices=devices, **options)


def program(sim, steps, record=RECORD):
    return jax.jit(lambda state, params, inputs: be.simulate(sim, state, params, steps, inputs, record))


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize("delay", [SHORT, be.uniform(0.4, 2.0)])
def test_the_bits_of_one_gpu(gpus, delay):
    one, several = built([0], delay=delay), built(gpus, delay=delay)
    inputs = {"cells.syn": np.linspace(0, 1, 600, dtype=np.float32)}
    params = {"cells": {"threshold": np.float32(14.0)}}
    states, results = [], []
    for sim in (one, several):
        run, state = program(sim, 600), sim.state
        for _ in range(3):
            state, out = run(state, params, inputs)
        states.append(copied(sim.plan, jax.device_get(state)))
        results.append(jax.device_get(out))
    equal(*states)
    equal(*results)
    assert results[0]["cells.counts"].sum() > 100


def test_runs_and_programs_at_the_same_time():
    """Two networks on the same GPUs: one in a program, one in `run`, each in a thread, again and again."""
    first, second, expected = built(2), built(2), built([0])
    run, found = program(first, 200, ["cells.counts"]), []

    def in_program():
        state = first.state
        for _ in range(20):
            state, _ = run(state, {}, {})
        found.append(copied(first.plan, jax.device_get(state)))

    thread = threading.Thread(target=in_program)
    thread.start()
    for _ in range(20):
        second.run(200)
    thread.join()
    expected.run(4000)
    equal(found[0], expected.state)
    equal(second.state, expected.state)


def test_two_programs_in_two_threads():
    """They give the bits of one GPU, or an error in words; never do both wait."""
    sim, expected = built(2), built([0])
    run, found = program(sim, 100, ["cells.counts"]), []

    def go():
        state = sim.state
        try:
            for _ in range(20):
                state, _ = run(state, {}, {})
            found.append(copied(sim.plan, jax.device_get(state)))
        except Exception as error:  # noqa: BLE001 - it is compared below
            found.append(str(error))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected.run(2000)
    for one in found:
        if isinstance(one, str):
            assert "start them in one thread, or one after another under a lock" in one
        else:
            equal(one, expected.state)


def test_weights_and_elements():
    """Other weights as those of a build with them; the elements of `jax.vmap` one after another."""
    one, several = built([0]), built(2)
    currents = np.array([200.0, 300.0], np.float32)
    results = []
    for sim in (one, several):
        _, other = be.simulate(sim, sim.state, {"all": 0.5}, 300, record="cells.counts")
        run = jax.vmap(
            lambda current, sim=sim: be.simulate(sim, sim.state, {"cells": {"threshold": current}}, 300, None, RECORD)[
                1
            ]
        )
        results.append(jax.device_get((other, run(currents / 20))))
    equal(*results)


def test_a_gpu_that_fails_is_named(monkeypatch):
    monkeypatch.setattr("brainevent.network.gpu.several.part.PATIENCE", 300_000_000)
    sim = built(2)
    share = sim.engine.resident  # made before the fault
    run = program(sim, 100)
    state, _ = run(sim.state, {}, {})
    device = share.parts[1].device
    begin, device.begin = device.begin, lambda act: 0
    try:
        with pytest.raises(Exception, match=r"simulate: GPU 1 \(.*\) sent no spikes"):
            jax.block_until_ready(run(state, {}, {}))
    finally:
        device.begin = begin
    again, _ = run(state, {}, {})
    assert int(again.step) == 200


TRAPPED = """
import os, sys
import jax
import test_gpu_several as several, test_gpu_several_in_jax as own

sim = own.built(2)
parts = sim.engine.resident.parts
run = own.program(sim, 100)
state, _ = run(sim.state, {}, {})
jax.block_until_ready(state)
device = parts[1].device
fall = device.kernel(several.TRAP, "fall", 0)
type(device).begin = lambda gpu, act: gpu.launch(fall, 1, 1, 0, []) or 0 if gpu.number == 1 else own.begin(gpu, act)
try:
    jax.block_until_ready(run(state, {}, {}))
except Exception as error:
    print(error, flush=True)
os._exit(0)  # the context is lost, with all that lies in it
"""


begin = CudaDevice.begin


def test_a_kernel_that_fails_ends_the_others():
    """In a process of its own, since no kernel runs there afterwards."""
    if number_of_gpus() < 2:
        pytest.skip("it needs 2 GPUs")
    folders = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    how = {"env": os.environ | {"PYTHONPATH": folders}, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([sys.executable, "-c", TRAPPED], check=False, **how)
    assert re.search(r"simulate: the kernel on GPU [01] \(.*\) failed: .*; call simulate again", done.stdout), done


def test_inputs_and_parameters_may_be_divided():
    """By neurons and by steps, on the mesh of the GPUs."""
    one, several = built([0]), built(2)
    mesh = Mesh(np.array(jax.local_devices(backend="gpu")[:2]), ("gpus",))
    current = np.linspace(100, 400, 2000, dtype=np.float32)
    pushed = np.random.default_rng(0).normal(0, 1, (300, 2000)).astype(np.float32)
    put = [jax.device_put(x, NamedSharding(mesh, PartitionSpec("gpus"))) for x in (current, pushed)]
    results = [
        jax.device_get(program(sim, 300)(sim.state, {"cells": {"current": current}}, {"cells.syn": pushed}))
        for sim, (current, pushed) in ((one, (current, pushed)), (several, put))
    ]
    equal(*(out for _, out in results))
    equal(*(copied(one.plan, state) for state, _ in results))


def test_what_is_not_possible_is_said():
    sim = built(2)
    with pytest.raises(NetworkError, match="cannot be exported, since the synapses are in the memory of this process"):
        jax.export.export(program(sim, 5))(sim.state, {}, {})
