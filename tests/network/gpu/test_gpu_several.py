# SPDX-License-Identifier: Apache-2.0
"""On real GPUs: one network on two of them, and on one as if it were several; what fails ends the others."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import plastic_networks
import pytest
import small_plans
import synapse_rules
import test_network_gpu as one_gpu
import test_several_gpus as pretended
from beside_interpreter import ALL, as_tree, compare, equal
from sanitizer import sanitized

import brainevent as be
from benchmarks.probes.network_large import late_cuba
from benchmarks.probes.network_plastic import network as of_pairs
from brainevent.errors import KernelLoadError, NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.cuda_device import cuda_device, number_of_gpus
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.gpu.several import exchange, launching, part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.structs import PUSHED
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation
from examples.networks import cuba, microcircuit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::brainevent.network.plan.quantum.RoundedWeightsWarning"),
]
pytest.importorskip("cuda.bindings.nvrtc")


TRAP = """
extern "C" __global__ void fall() { __trap(); }
"""


class Faulty:
    """A GPU, or one of several streams of it, whose next launch may not take place, end early, or fail."""

    def __init__(self, device):
        self._device, self.fault = device, None

    def __getattr__(self, name):
        return getattr(self._device, name)

    def launch(self, kernel, blocks, threads, shared, parameters, *, at_once=False, **how):
        fault, self.fault = (self.fault, None) if at_once else (None, self.fault)
        if fault == "refused":
            raise KernelLoadError("it is refused")
        if fault == "late":
            time.sleep(0.1)
        if fault == "trap":
            self._device.launch(self._device.kernel(TRAP, "fall", 0), 1, 1, 0, [])
        if fault == "spin":
            self._device.launch(self._device.kernel(SPIN, "spin", 0), 1, 1, 0, [])
        if fault == "ended":
            parameters = [*parameters[:2], np.uint32(int.from_bytes(parameters[2], "little") // 2).tobytes()]
        if fault not in ("never", "trap", "spin"):
            self._device.launch(kernel, blocks, threads, shared, parameters, at_once=at_once, **how)


def devices_of(where, count=2):
    """Return so many GPUs, or one GPU that many times, with a stream for each."""
    if where == "in_streams":
        return [Faulty(cuda_device(0).beside()) for _ in range(count)]
    if number_of_gpus() < count:
        pytest.skip(f"it needs {count} GPUs")
    devices = [cuda_device(number) for number in range(count)]
    assert all(one.opened(other) for one in devices for other in devices if one is not other)
    return [Faulty(device) for device in devices]


WHERE = pytest.mark.parametrize("where", ["in_streams", "on_gpus"])


@WHERE
@pytest.mark.parametrize("blocks", [1, 3, 16])
@pytest.mark.parametrize("shared_bytes", [None, one_gpu.SMALL])
def test_several_gpus_equal_the_interpreter(where, blocks, shared_bytes):
    engine = SeveralEngine(small_plans.plan(), devices=devices_of(where), blocks=blocks, shared_bytes=shared_bytes)
    compare(engine, [1, 57, 142], ALL)


@WHERE
@pytest.mark.parametrize("edges", [10_000, 400_000])
@pytest.mark.parametrize("most", [32, 50])
def test_any_number_of_spikes_in_a_packet(where, most, edges):
    engine = SeveralEngine(one_gpu.one_after_another(most, 4, edges), devices=devices_of(where), blocks=2)
    compare(engine, [most + 12], Wanted(("a",)))


@WHERE
@pytest.mark.parametrize(("blocks", "size"), [(1, 2600), (3, 7000)])
@pytest.mark.parametrize("more", [0, 3, 15])
def test_blocks_that_push(monkeypatch, where, blocks, size, more):
    """At once, or, where no delay is short, as late as they can."""
    monkeypatch.setattr(partition, "_MOST_CELLS", 0)
    plan = pretended.later(one_gpu.bursting(size), more)
    engine = SeveralEngine(plan, devices=devices_of(where), blocks=blocks, shared_bytes=one_gpu.SMALL + 2048)
    assert engine._parts[0].rows.layout == PUSHED
    assert engine._parts[0].shape.structure.hold == {0: 0, 3: 2, 15: 13}[more]
    compare(engine, [20, 1, 1, 40], Wanted(("a",), ("a",), ("a",)))


@WHERE
@pytest.mark.parametrize(("make", "hold"), [(cuba.network, 0), (lambda n: late_cuba(n / 4_000_000), 13)])
def test_many_neurons_that_push(where, make, hold):
    """A million in fours, with sums of bytes: the spikes of one GPU."""
    plan = build_plan(make(1_000_000), seed=1, measure=Drawing(cuda_device(0)))
    blocks = 64 if where == "in_streams" else None
    ours, theirs = SeveralEngine(plan, devices=devices_of(where), blocks=blocks), CudaEngine(plan)
    structure = ours._parts[0].shape.structure
    assert (bool(structure.fours), bool(structure.falling), structure.hold) == (True, True, hold)
    wanted = Wanted((), (), ("exc", "inh"))
    for steps in (1, 3, 200, 37):
        equal(as_tree(ours.run(steps, wanted, {})), as_tree(theirs.run(steps, wanted, {})))
    equal(ours.state, theirs.state)


@pytest.mark.parametrize(("where", "count"), [("in_streams", 2), ("on_gpus", 2), ("on_gpus", 4)])
@pytest.mark.parametrize("apart", [20, 1])
def test_messages_between_gpus(monkeypatch, where, count, apart):
    """Few spikes, and more than a message has room for: 96 in a step; launches that are stopped, and go on."""
    monkeypatch.setattr(exchange, "_MESSAGES", True)
    cells = be.models.lif_delta("cells", 40_000, current=np.where(np.arange(40_000) % apart == 0, 200.0, 0.0))
    links = [
        be.Projection(cells, cells, be.connect.in_degree(100, weight=weight), into="syn", delay=delay, name=str(delay))
        for weight, delay in ((be.normal(0.1, 0.02), be.uniform(0.3, 2.0)), (-0.2, 0.5))
    ]
    plan = build_plan(be.Network([cells], links, dt=0.1), seed=3, measure=Drawing(cuda_device(0)))
    ours, theirs = SeveralEngine(plan, devices=devices_of(where, count), blocks=60), CudaEngine(plan, blocks=128)
    assert ours._parts[0].shape.structure.message == 32
    wanted = Wanted(("cells",), (), ("cells",))
    for steps in (1, 2, 3, 4000):
        found, expected = (as_tree(engine.run(steps, wanted, {})) for engine in (ours, theirs))
        equal(found, expected)
        equal(ours.state, theirs.state)
    assert (expected["rates"]["cells"].mean() > count * 96) == (apart == 1)


@WHERE
@pytest.mark.parametrize(("size", "more"), [(700, 1), (20_000, 2), (20_000, 7)])
def test_messages_of_bursts(monkeypatch, where, size, more):
    """All neurons at once: rows go to a list on each other GPU."""
    monkeypatch.setattr(exchange, "_MESSAGES", True)
    monkeypatch.setattr(exchange, "_MESSAGE", 2)
    plan = pretended.later(one_gpu.bursting(size), more)
    engine = SeveralEngine(plan, devices=devices_of(where), blocks=20, shared_bytes=one_gpu.SMALL)
    assert engine._parts[0].shape.structure.message == 2
    compare(engine, [20, 7], Wanted(("a",), ("a",), ("a",)))


@WHERE
@pytest.mark.parametrize("fault", ["never", "ended"])
def test_a_gpu_whose_messages_are_missing_ends_the_others(monkeypatch, where, fault):
    monkeypatch.setattr(exchange, "_MESSAGES", True)
    monkeypatch.setattr(part, "PATIENCE", 300_000_000)
    monkeypatch.setattr(exchange, "_MESSAGE", 2)
    devices, plan = devices_of(where), pretended.later(one_gpu.dense(20_000), 2)
    engine = SeveralEngine(plan, devices=devices, blocks=3)
    assert engine._parts[0].shape.structure.message == 2
    engine.run(5, Wanted(), {})
    devices[1].fault = fault
    with pytest.raises(NetworkError, match=r"the state is not valid: call sim\.reset"):
        engine.run(40, Wanted(), {})
    engine.load(Interpreted(plan).state)
    compare(engine, [9], Wanted(("a",)))


@pytest.mark.parametrize(("where", "count"), [("in_streams", 2), ("on_gpus", 2), ("on_gpus", 4)])
@pytest.mark.parametrize("of", pretended.NETWORKS)
def test_the_bits_of_one_gpu(where, count, of):
    network = pretended.NETWORKS[of][0]()
    plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
    ours = SeveralEngine(plan, devices=devices_of(where, count), blocks=16 // count)
    theirs = CudaEngine(plan, blocks=16)
    for engine in (ours, theirs):
        engine.run(2000, Wanted(tuple(p.name for p in plan.populations)), {})
    equal(ours.state, theirs.state)


@WHERE
def test_a_part_of_the_microcircuit(where):
    network = microcircuit.network(0.1)
    plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
    ours = SeveralEngine(plan, devices=devices_of(where), blocks=60)
    theirs = NumbaEngine(build_plan(network, seed=3, parts=2))
    for engine in (ours, theirs):
        engine.run(300, Wanted(), {})
    equal(ours.state, theirs.state)


@WHERE
@pytest.mark.parametrize("blocks", [1, 3, 16])
@pytest.mark.parametrize("delay", [None, 0.2, be.uniform(0.4, 0.9), 1.5])
@pytest.mark.parametrize("at", ["axon", "dendrite"])
def test_plastic_synapses(where, at, delay, blocks):
    plan = synapse_rules.plan_of(plastic_networks.network(plastic_networks.triplet(at), delay, (300, 200), 0.1), 1)
    samples = {"w": Sample("ab", "w", 3, np.array([5, 0, 70, 5]), of_synapses=True)}
    engine = SeveralEngine(plan, devices=devices_of(where), blocks=blocks)
    compare(engine, (1, 9, 190), dataclasses.replace(plastic_networks.ALL, samples=samples))


@WHERE
@pytest.mark.parametrize("at", ["axon", "dendrite"])
def test_plastic_synapses_beside_couplings_and_values(where, at):
    plan = synapse_rules.plan_of(plastic_networks.mixed(at), 1)
    compare(SeveralEngine(plan, devices=devices_of(where), blocks=3), (1, 9, 40), Wanted(("a", "b", "c"), (), (), {}))


@pytest.mark.parametrize(("where", "count"), [("in_streams", 2), ("on_gpus", 2), ("on_gpus", 4)])
@pytest.mark.parametrize(("n", "fan", "steps"), [(1_000, 100, 20_000), (10_000, 1_000, 2_000), (100_000, 100, 1_000)])
def test_pairs_equal_one_gpu(where, count, n, fan, steps):
    """Synapses that each GPU draws and sorts; and a state that goes to one GPU and back."""
    plan = build_plan(of_pairs(n, fan, plastic=True), seed=1, warn=False, measure=Drawing(cuda_device(0)))
    ours = SeveralEngine(plan, devices=devices_of(where, count), blocks=128 // count)
    theirs = CudaEngine(plan, blocks=100)
    equal(ours.state, theirs.state)
    for engine in (ours, theirs):
        engine.run(steps, Wanted(), {})
    equal(ours.state, theirs.state)
    ours.load(theirs.state)
    for engine in (ours, theirs):
        engine.run(100, Wanted(("cells",)), {})
    equal(ours.state, theirs.state)


@WHERE
@pytest.mark.parametrize("fault", ["never", "refused", "ended"])
def test_a_gpu_that_is_missing_ends_the_others(monkeypatch, where, fault):
    monkeypatch.setattr(part, "PATIENCE", 300_000_000)
    devices = devices_of(where)
    engine = SeveralEngine(small_plans.plan(), devices=devices, blocks=3)
    engine.run(5, Wanted(), {})
    devices[1].fault = fault
    with pytest.raises(NetworkError, match=r"the state is not valid: call sim\.reset"):
        engine.run(40, ALL, {})
    theirs = Interpreted(small_plans.plan())
    engine.load(theirs.state)
    engine.run(9, Wanted(), {})
    theirs.run(9, Wanted(), {})
    equal(engine.state, theirs.state)


EXCHANGING = """
import sys
sys.path += sys.argv[3:]
import small_plans, test_network_gpu as one_gpu, test_several_gpus as pretended
from beside_interpreter import equal
from brainevent.network.gpu import partition
from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Wanted

steps, hold = map(int, sys.argv[1:3])
plan, how = small_plans.plan(), {}
if hold:
    partition._MOST_CELLS = 0
    plan, how = pretended.later(one_gpu.bursting(2600), hold + 1), {"shared_bytes": one_gpu.SMALL + 2048}
devices = [cuda_device(0).beside() for _ in range(2)]
engine, theirs = SeveralEngine(plan, devices=devices, blocks=1 if hold else 2, **how), Interpreted(plan)
assert engine._parts[0].shape.structure.hold == hold
engine.run(steps, Wanted(), {})
theirs.run(steps, Wanted(), {})
equal(engine.state, theirs.state)
print("right")
"""


@pytest.mark.parametrize("hold", [0, 2, 4])
@pytest.mark.parametrize(("tool", "steps"), [("memcheck", 20), ("racecheck", 6)])
def test_the_exchange_is_clean(tmp_path, tool, steps, hold):
    """Two parts of a network on one GPU, in two streams, which push spikes at once or hold them."""
    assert sanitized(tool, tmp_path, EXCHANGING, steps, hold, *sys.path).endswith("right")


PLACED = """
import sys
sys.path += sys.argv[3:]
import test_several_groups as groups, test_several_placed as placed
from beside_interpreter import equal
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.gpu import partition
from brainevent.network.gpu.cuda_device import cuda_device
from brainevent.network.gpu.drawing import Drawing
from brainevent.network.gpu.several import exchange, part
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.gpu.structs import PARTED
from brainevent.network.plan.build import build_plan
from brainevent.network.run.recorded import Wanted

steps, kind = int(sys.argv[1]), sys.argv[2]
part._LONG_ROW, part._BETWEEN, network, how = 0, 1, placed.areas(current=(100, 800)), {"blocks": 2}
if kind == "messages":
    exchange._MESSAGES, exchange._MESSAGE, how = True, 1, {"blocks": 3}
    network = placed.areas(inputs=20, sizes=(90, 110, 100, 80), current=(100, 800))
if kind == "own blocks":
    partition._MOST_CELLS, how = 0, {"blocks": 2, "shared_bytes": groups.ROOM}
    network = groups.network(current=(300, 900))
plan = build_plan(network, seed=3, measure=Drawing(cuda_device(0)))
engine = SeveralEngine(plan, devices=[cuda_device(0).beside() for _ in range(2)], **how)
theirs, about = NumbaEngine(build_plan(network, seed=3)), engine._parts[0]
assert about.partition.placement is not None
assert (about.shape.structure.message > 0) == (kind != "packets")
assert (about.rows.layout == PARTED) == (kind == "own blocks")
names = "exc", "inh"
engine.run(steps, Wanted(), {})
counts = theirs.run(steps, Wanted(counts=names), {}).counts
assert sum(int(counts[name].sum()) for name in names) > 20
equal(engine.state, theirs.state)
print("right")
"""


@pytest.mark.parametrize("kind", ["packets", "messages", "own blocks"])
@pytest.mark.parametrize(("tool", "steps"), [("memcheck", 20), ("racecheck", 6)])
def test_the_exchange_of_placed_parts_is_clean(tmp_path, tool, steps, kind):
    """Spikes that are read late, by packets of all blocks, by messages, and by blocks that areas have of their own."""
    assert sanitized(tool, tmp_path, PLACED, steps, kind, *sys.path).endswith("right")


HOLDING = """
import ctypes, sys
import jax, numpy as np
from brainevent.network.gpu.cuda_device import cuda_device

number, left = map(int, sys.argv[1:])
gpu = cuda_device(number)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
with gpu._current():
    gpu._library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
held = gpu.memory(free.value - left, "what another program holds")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("devices", [[0], [0, 1]])
def test_another_process_that_holds_the_memory_is_told(devices):
    """Of the last of the GPUs: which it is, how much was asked for, and how much is free."""
    if number_of_gpus() < len(devices):
        pytest.skip(f"it needs {len(devices)} GPUs")
    for number in devices:
        cuda_device(number)
    last = devices[-1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", HOLDING, str(last), str(100 * 2**20)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        cells = be.models.lif_delta("cells", 1_000_000)
        links = be.Projection(cells, cells, be.connect.in_degree(300, weight=0.1), into="syn", delay=1.5)
        words = rf"build: .* takes? [\d.]+ [MG]B, and [\d.]+ [kMG]?B of [\d.]+ GB are free on GPU {last} \(NVIDIA"
        with pytest.raises(NetworkError, match=words):
            be.Network([cells], [links], dt=0.1).build(seed=1, backend="cuda", devices=devices)
        other.stdin.close()


SPIN = """
extern "C" __global__ void spin() {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < 4000000000ull);
}
"""


@WHERE
def test_a_kernel_that_does_not_end_is_named(monkeypatch, where):
    """The others end by their own limit, and the run without the one that does not."""
    monkeypatch.setattr(part, "PATIENCE", 300_000_000)
    monkeypatch.setattr(launching, "STUCK", 1.0)
    devices = devices_of(where)
    devices[1].kernel(SPIN, "spin", 0)
    engine = SeveralEngine(small_plans.plan(), devices=devices, blocks=3)
    engine.run(5, Wanted(), {})
    devices[1].fault = "spin"
    begun = time.monotonic()
    with pytest.raises(
        NetworkError, match=r"run: the kernel on GPU \d \(.*\) still runs, 1 s after those on other GPUs"
    ):
        engine.run(40, Wanted(), {})
    assert time.monotonic() - begun < 3.5
    with pytest.raises(NetworkError, match=r"call sim.reset\(\), or load a checkpoint"):
        _ = engine.state
    engine.load(Interpreted(small_plans.plan()).state)
    compare(engine, [9], ALL)


@WHERE
def test_ctrl_c_loses_nothing(where):
    network = pretended.with_delays()
    plan = build_plan(network, seed=1)
    sim, alone = (
        Simulation(plan, SeveralEngine(plan, devices=devices_of(where))),
        network.build(seed=1, backend="numba"),
    )
    press = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    found = sim.run(10**7, "cells.counts", callback=lambda *_: press.ident or press.start(), chunk=1000)
    press.join()
    assert found.interrupted
    assert 0 < found.steps == sim.steps < 10**7
    np.testing.assert_array_equal(found["cells.counts"], alone.run(found.steps, "cells.counts")["cells.counts"])
    equal(sim.state, alone.state)


FAILING = """
import os, sys
import small_plans, test_gpu_several as own
from brainevent.errors import NetworkError
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.run.recorded import Wanted

devices = own.devices_of(sys.argv[1])
devices[1].kernel(own.TRAP, "fall", 0)
engine = SeveralEngine(small_plans.plan(), devices=devices, blocks=3)
engine.run(5, Wanted(), {})
devices[1].fault = "trap"
try:
    engine.run(40, Wanted(), {})
except NetworkError as error:
    print(error, flush=True)
os._exit(0)  # the context is lost, with all that lies in it
"""


@WHERE
def test_a_kernel_that_fails_ends_the_others(where):
    """In a process of its own, since no kernel runs there afterwards."""
    devices_of(where)
    folders = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    how = {"env": os.environ | {"PYTHONPATH": folders}, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([sys.executable, "-c", FAILING, where], check=False, **how)
    assert re.match(r"run: the kernel on GPU [01] \(.*\) failed: .*; the state is not valid", done.stdout), done


@WHERE
def test_a_gpu_that_is_late_is_waited_for(where):
    devices = devices_of(where)
    engine = SeveralEngine(small_plans.plan(), devices=devices, blocks=3)
    devices[1].fault = "late"
    compare(engine, [30], ALL)


def test_build_takes_devices(tmp_path):
    """From a file of one GPU to two, and back."""
    if number_of_gpus() < 2:
        pytest.skip("it needs 2 GPUs")
    network = pretended.with_delays()
    one, two = network.build(seed=1, backend="cuda", devices=[0]), network.build(seed=1, backend="cuda", devices=2)
    whole = network.build(seed=1, backend="numba")
    whole.run(300)
    one.run(100)
    one.save(tmp_path / "x.npz")
    two.load(tmp_path / "x.npz")
    two.run(100)
    two.save(tmp_path / "x.npz")
    one.load(tmp_path / "x.npz")
    one.run(100)
    equal(one.state, whole.state)
    assert "2 GPUs with" in two.report()
    with pytest.raises(NetworkError, match=r"build: devices is 99, and this process has \d+ GPUs"):
        be.Network([be.models.lif_delta("cells", 5)], dt=0.1).build(devices=99)
    assert np.isfinite(two.state.neurons["cells"]["v"]).all()
