# SPDX-License-Identifier: Apache-2.0
"""`build(devices=...)`: the GPUs that it names, or why one network cannot run on them, in words."""

import types

import numpy as np
import pytest
from several_on_cpu import PretendPeer

import brainevent as be
from brainevent.errors import KernelLoadError, NetworkError
from brainevent.network import engines
from brainevent.network.gpu import cuda_device as of_gpu
from brainevent.network.gpu.cuda_device import CudaDevice
from brainevent.network.gpu.several import devices

PASS = r'pass a number of GPUs, a list such as \[0, 1\], or "all"'


def cells():
    population = be.models.lif_delta("cells", 40, current=be.uniform(30, 90))
    synapses = be.Projection(population, population, be.connect.in_degree(5, weight=0.5), into="syn")
    return be.Network([population], [synapses], dt=0.1)


@pytest.fixture
def gpus(monkeypatch):
    """Return four pretend GPUs, of which the third and the fourth cannot reach each other."""
    found = [PretendPeer(number) for number in range(4)]
    for one in found:
        one.capability = "9.0"
        one.opened = lambda other, one=one: {one.number, other.number} != {2, 3}
    monkeypatch.setattr(devices, "number_of_gpus", lambda: len(found))
    monkeypatch.setattr(devices, "cuda_device", lambda number: found[number])
    return found


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (1, [0]),
        (np.int64(2), [0, 1]),
        ([2, 0], [2, 0]),
        ((one for one in (3, 1)), [3, 1]),
        ([types.SimpleNamespace(platform="gpu", local_hardware_id=1), 0], [1, 0]),
    ],
)
def test_devices_that_are_named(gpus, given, numbers):
    assert devices.chosen_devices(given) == [gpus[number] for number in numbers]


def test_all_devices(gpus):
    del gpus[3]
    assert devices.chosen_devices("all") == gpus


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, f"build: devices is 5, and this process has 4 GPUs; {PASS}"),
        (0, "build: devices is 0, and this process has 4 GPUs"),
        (True, f"build: devices is True; {PASS}"),
        ("two", f"build: devices is 'two'; {PASS}"),
        (1.5, "build: devices is 1.5;"),
        ([], "build: devices has no GPUs; pass 1 to 16"),
        ([0, 7], "build: devices has GPU 7, and this process has 4 GPUs, numbered from 0"),
        ([-1], "build: devices has GPU -1, and"),
        ([1, 0, 1], "build: devices has GPU 1 2 times; name each once"),
        ([0, "cpu"], "build: devices has 'cpu', which is no GPU"),
        ([types.SimpleNamespace(platform="cpu", local_hardware_id=0)], "which is no GPU"),
        ("all", r"build: GPU 2 \(a pretend GPU\) cannot use the memory of GPU 3 \(a pretend GPU\), so one network"),
    ],
)
def test_devices_that_are_refused(gpus, given, words):
    with pytest.raises(NetworkError, match=words):
        devices.chosen_devices(given)


@pytest.mark.parametrize(
    ("given", "there", "numbers"),
    [
        (None, [2, 3], [2]),
        ("all", [2, 3], [2, 3]),
        (1, [3, 2], [3]),
        (2, [2, 3], [2, 3]),
        ([3], [2, 3], [3]),
        ([types.SimpleNamespace(platform="gpu", local_hardware_id=3), 2], [2, 3], [3, 2]),
        ("all", [], [0, 1, 2, 3]),
    ],
)
def test_devices_of_a_process(gpus, monkeypatch, given, there, numbers):
    """Of those that JAX has here; they need not reach each other."""
    jax_has(monkeypatch, gpus, there)
    assert devices.devices_of_process(given) == [gpus[number] for number in numbers]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, f"build: devices is 3, and this process has 2 GPUs; {PASS}"),
        ([0], f"build: devices has GPU 0, and this process has 2 GPUs, numbers 2, 3; {PASS}"),
        ([2, 2], "build: devices has GPU 2 2 times; name each once"),
        ("some", "build: devices is 'some'"),
    ],
)
def test_devices_of_a_process_that_are_refused(gpus, monkeypatch, given, words):
    jax_has(monkeypatch, gpus, [2, 3])
    with pytest.raises(NetworkError, match=words):
        devices.devices_of_process(given)


def jax_has(monkeypatch, gpus, numbers):
    """Let JAX have some of the GPUs in this process; if it has none, asking for them raises."""

    def local_devices(backend):
        assert backend == "gpu"
        if not numbers:
            raise RuntimeError("unknown backend")
        return [types.SimpleNamespace(platform="gpu", local_hardware_id=number) for number in numbers]

    monkeypatch.setattr(devices.jax, "local_devices", local_devices)
    monkeypatch.setattr(devices, "local_device", lambda: gpus[numbers[0]])


def test_devices_of_different_kinds(gpus):
    gpus[1].shared_bytes = 99_000
    words = (
        r"build: GPU 0 \(a pretend GPU\) and GPU 1 \(a pretend GPU\) differ in the shared memory of a block, 232448 "
        "and 99000; pass devices= with GPUs of one kind"
    )
    with pytest.raises(NetworkError, match=words):
        devices.chosen_devices(2)


def test_devices_that_have_too_many_neighbours(gpus):
    """A driver lets a GPU reach some others, not any number of them."""

    def refused(other):
        raise KernelLoadError("network on a GPU: cuCtxEnablePeerAccess: CUDA_ERROR_TOO_MANY_PEERS")

    gpus[1].opened = refused
    words = (
        r"build: GPU 1 \(a pretend GPU\) cannot use the memory of GPU 0 \(a pretend GPU\), so one network cannot "
        r"run on both; pass devices= with GPUs that can \(nvidia-smi topo -p2p r lists them\): .*_TOO_MANY_PEERS"
    )
    with pytest.raises(NetworkError, match=words):
        devices.chosen_devices(2)


def test_more_devices_than_a_sender_has_lanes_for(gpus):
    gpus += [gpus[0]] * 20
    with pytest.raises(NetworkError, match="build: devices has 24 GPUs; pass 1 to 16"):
        devices.chosen_devices("all")


def test_no_device(monkeypatch):
    monkeypatch.setattr(devices, "number_of_gpus", lambda: 0)
    with pytest.raises(NetworkError, match="build: devices is 2, and this process has no GPUs"):
        devices.chosen_devices(2)


@pytest.mark.parametrize("backend", ["numba", "jax", "interpreted"])
def test_backends_without_devices(backend):
    words = f"build: devices is an option of backend='cuda', but the backend is '{backend}'; leave it out"
    with pytest.raises(NetworkError, match=words):
        cells().build(backend=backend, devices=2)


def test_a_build_on_several_devices(gpus):
    two, one = (cells().build(seed=1, backend="cuda", devices=given, blocks=2) for given in ([1, 0], [2]))
    on_cpu = cells().build(seed=1, backend="numba")
    assert repr(two) == "Simulation(40 neurons, 200 synapses, at step 0, cuda on 2 GPUs with 2 blocks each)"
    assert two.engine.devices == (gpus[1], gpus[0])
    assert one.engine.device is gpus[2]
    results = [sim.run(300, record="cells.spikes")["cells.spikes"] for sim in (two, one, on_cpu)]
    assert results[0].times.size > 40
    for result in results[1:]:
        np.testing.assert_array_equal(results[0].times, result.times)
        np.testing.assert_array_equal(results[0].neurons, result.neurons)


def test_an_unknown_backend_is_named():
    assert engines.devices_of("cudaa", 2) is None
    with pytest.raises(NetworkError, match="build: unknown backend 'cudaa' for networks; did you mean 'cuda'"):
        cells().build(backend="cudaa", devices=2)


@pytest.mark.parametrize(("can", "status", "found"), [(0, 0, False), (1, 0, True), (1, 704, True)])
def test_peer_access_may_be_open_already(monkeypatch, can, status, found):
    gpu = CudaDevice.__new__(CudaDevice)
    calls = []

    class Library:
        def __getattr__(self, name):
            def call(*arguments):
                calls.append(name)
                if name == "cuDeviceCanAccessPeer":
                    arguments[0]._obj.value = can
                return status if name == "cuCtxEnablePeerAccess" else 0

            return call

    gpu._library, gpu.number, gpu._context = Library(), 0, None
    assert gpu.opened(gpu) == found
    assert ("cuCtxEnablePeerAccess" in calls) == found


class Library:
    """A driver of a GPU of 80 GB, in which some functions fail, by name."""

    def __init__(self, free, **failing):
        self.free, self.failing, self.freed = free, failing, []

    def __getattr__(self, name):
        def call(*arguments):
            if name == "cuMemFree_v2":
                self.freed.append(arguments[0].value)
            if name == "cuDeviceGetName":
                arguments[0].value = b"NVIDIA H100"
            if name == "cuDeviceTotalMem_v2":
                arguments[0]._obj.value = 80 * 10**9
            if name == "cuMemGetInfo_v2":
                arguments[0]._obj.value, arguments[1]._obj.value = self.free, 80 * 10**9
            return self.failing.get(name, 0)

        return call


@pytest.fixture
def library(monkeypatch):
    """Return what lets a library be that of the driver."""

    def take(found):
        monkeypatch.setattr(
            of_gpu, "driver", lambda: types.SimpleNamespace(error_name=lambda status: f"ERROR {status}")
        )
        monkeypatch.setattr(of_gpu.ctypes, "CDLL", lambda _: found)

    return take


@pytest.mark.parametrize("function", ["cuDevicePrimaryCtxRetain", "cuStreamCreate"])
def test_other_programs_that_hold_all_of_a_gpu(library, function):
    """There is no room even for what each program has there."""
    library(Library(0, **{function: 2}))
    words = (
        r"build: GPU 3 \(NVIDIA H100\) has no memory left for this program: others hold its 80 GB, and `nvidia-smi` "
        r"lists them; JAX takes three quarters of a GPU unless XLA_PYTHON_CLIENT_PREALLOCATE=false"
    )
    with pytest.raises(NetworkError, match=words):
        CudaDevice(3)


def test_other_programs_that_hold_most_of_a_gpu(library):
    found = Library(5 * 10**6)
    library(found)
    gpu = CudaDevice(1)
    found.failing = {"cuMemAlloc_v2": 2, "cuLaunchCooperativeKernel": 2, "cuStreamQuery": 700}
    words = r"build: synapses take 12 GB, and 5 MB of 80 GB are free on GPU 1 \(NVIDIA H100\); other programs may have"
    with pytest.raises(NetworkError, match=words):
        gpu.memory(12 * 10**9, "synapses")
    words = (
        r"^network on a GPU: cuLaunchCooperativeKernel: ERROR 2; 5 MB of 80 GB are free on GPU 1 \(NVIDIA H100\); "
        "other programs may have the rest"
    )
    with pytest.raises(KernelLoadError, match=words):
        gpu.launch(1, 1, 32, 0, [], at_once=True)
    with pytest.raises(KernelLoadError, match=r"^network on a GPU: cuStreamQuery: ERROR 700$"):
        gpu.is_done()


def test_memory_is_freed_when_no_kernel_runs_that_was_left(library):
    """To free memory waits for all kernels, also those that do not end."""
    found = Library(0)
    library(found)
    first, second = (CudaDevice(number) for number in range(2))
    first.free(16)
    assert found.freed == [16]
    found.failing = {"cuStreamQuery": 600}  # it runs
    of_gpu.leave_running(second)
    first.free(32)
    second.free(48)
    assert found.freed == [16]
    found.failing = {"cuStreamQuery": 700}  # it has failed
    first.free(64)
    assert sorted(found.freed) == [16, 32, 48, 64]


def test_memory_that_was_kept_is_there_for_what_comes_next(library):
    """When the kernel that was left has ended, nothing else need be freed first."""
    found = Library(0, cuStreamQuery=600)
    library(found)
    gpu = CudaDevice(0)
    of_gpu.leave_running(gpu)
    gpu.free(16)
    early = gpu.memory(1000, "states")
    assert found.freed == []
    found.failing = {}
    late = gpu.memory(1000, "states")
    assert found.freed == [16]
    del early, late
