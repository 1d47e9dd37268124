# SPDX-License-Identifier: Apache-2.0
"""`build(devices=...)`: the GPUs that it names, or why one network cannot run on them, in words."""

import types

import numpy as np
import pytest
from several_on_cpu import PretendPeer

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network import engines
from brainevent.network.gpu.device import CudaDevice
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
