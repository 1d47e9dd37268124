# SPDX-License-Identifier: Apache-2.0
"""Messages of all GPUs, gathered where kernels read them: by NCCL or JAX among GPUs, or by way of the hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from ...errors import NetworkError
from ..gpu.cuda_device import CudaDevice
from ..gpu.device import Device, Memory
from ..gpu.nccl import ID_BYTES, Communicator, has_nccl, new_id
from .processes import Processes

__all__ = ["AmongDevices", "AmongGpus", "Messages", "ThroughHosts", "messages_of"]

_ASKED = 0.1  # seconds between two questions whether others can be reached

Then = Callable[[int, int], None]


class Messages(Protocol):
    """Messages of as many words on each device.

    Attributes:
        addresses: Where those of the devices of this process are written, in the stream of each.
        said: How they are gathered, in words.
    """

    addresses: list[int]
    said: str

    def make_room(self, words: int) -> None:
        """Take memory for messages of so many words."""

    def gather(self, then: Then) -> None:
        """Gather the messages of all devices on each, and launch what takes them: on device k, from where they lie."""

    def wait(self) -> None:
        """Wait for all that was launched."""


class _Rooms:
    """Memory on each device of a process for its own message, and for those of all."""

    def __init__(self, devices: Sequence[Device], count: int, words: int):
        self.own, self.all_ = (
            [device.memory(4 * words * number, "messages of processes") for device in devices] for number in (1, count)
        )

    @staticmethod
    def addresses(memories: Sequence[Memory]) -> list[int]:
        """Return where they lie."""
        return [memory.address for memory in memories]


class AmongGpus:
    """Messages that NCCL gathers in the streams of the GPUs."""

    said = "by NCCL among the GPUs"

    def __init__(self, devices: Sequence[CudaDevice], count: int, processes: Processes, communicator: Communicator):
        self._devices, self._count = tuple(devices), count
        self._processes, self._communicator = processes, communicator

    def make_room(self, words: int) -> None:
        """Take memory."""
        self._rooms, self._words, self._asked = _Rooms(self._devices, self._count, words), words, 0.0
        self.addresses, self._all = (_Rooms.addresses(some) for some in (self._rooms.own, self._rooms.all_))

    def gather(self, then: Then) -> None:
        """Let the streams gather, and launch."""
        self._communicator.gather(self.addresses, self._all, self._words)
        for k, where in enumerate(self._all):
            then(k, where)

    def wait(self) -> None:
        """Wait as long as there is patience."""
        self._asked = time.monotonic() + _ASKED
        self._processes.wait_for(self._is_done, self._communicator.leave)

    def _is_done(self) -> bool:
        if all(device.is_done() for device in self._devices):
            return True
        if time.monotonic() > self._asked:
            self._asked = time.monotonic() + _ASKED
            if self._communicator.has_failed:
                raise ConnectionError("NCCL reports an error of another process")
        return False


class AmongDevices:
    """Messages that a program of JAX gathers.

    Args:
        all_: The devices of all processes, as JAX has them.
        here: Those of this process, likewise.
        devices: The same, where kernels run.
        processes: The processes.
    """

    said = "by all_gather of JAX among the GPUs"

    def __init__(
        self, all_: Sequence[jax.Device], here: Sequence[jax.Device], devices: Sequence[Device], processes: Processes
    ):
        self._count, self._here, self._devices, self._processes = len(all_), here, tuple(devices), processes
        mesh = jax.sharding.Mesh(np.array(all_), ("gpus",))
        spec = jax.sharding.PartitionSpec
        self._of_each, of_all = (jax.sharding.NamedSharding(mesh, one) for one in (spec("gpus"), spec()))
        self._program = jax.jit(lambda words: words, out_shardings=of_all)

    def make_room(self, words: int) -> None:
        """Let JAX take the memory, which kernels write: no one else has these arrays."""
        own = [jax.device_put(np.zeros((1, words), np.uint32), there) for there in self._here]
        self.addresses = [int(one.block_until_ready().unsafe_buffer_pointer()) for one in own]
        self._whole = jax.make_array_from_single_device_arrays((self._count, words), self._of_each, own)

    def gather(self, then: Then) -> None:
        """Run the program, whose results are held until they were taken."""
        self._wait_for_devices()
        found = self._processes.together(lambda: self._program(self._whole).block_until_ready())
        lies = {one.device: int(one.data.unsafe_buffer_pointer()) for one in found.addressable_shards}
        for k, there in enumerate(self._here):
            then(k, lies[there])
        self._wait_for_devices()

    def _wait_for_devices(self) -> None:
        for device in self._devices:
            device.wait()

    def wait(self) -> None:
        """Do nothing: there is nothing to wait for."""


class ThroughHosts:
    """Messages that are copied to the hosts, gathered among those, and copied back.

    Args:
        devices: The devices of this process.
        apiece: How many each process has.
        processes: The processes.
    """

    said = "through the memory of the hosts"

    def __init__(self, devices: Sequence[Device], apiece: Sequence[int], processes: Processes):
        self._devices, self._apiece, self._processes = tuple(devices), apiece, processes

    def make_room(self, words: int) -> None:
        """Take memory."""
        self._rooms, self._words = _Rooms(self._devices, sum(self._apiece), words), words
        self.addresses = _Rooms.addresses(self._rooms.own)

    def gather(self, then: Then) -> None:
        """Copy, gather and copy; the message of a process has room for as many devices as any has."""
        own = np.zeros((max(self._apiece), self._words), np.uint32)
        for k, memory in enumerate(self._rooms.own):
            own[k] = memory.download(np.uint32, self._words)
        found = self._processes.gathered(own.reshape(-1)).reshape(-1, *own.shape)
        whole = np.concatenate([some[:number] for some, number in zip(found, self._apiece, strict=True)])
        for k, memory in enumerate(self._rooms.all_):
            memory.upload(whole)
            then(k, memory.address)

    def wait(self) -> None:
        """Wait for the devices."""
        for device in self._devices:
            device.wait()


_NEITHER, _JAX, _LIBRARY = range(3)  # what a device has that gathers among devices
_joined: dict[Any, Communicator] = {}  # by the GPUs of each process, in order: one for all networks on these


def messages_of(devices: Sequence[Device], processes: Processes) -> Messages:
    """Return what gathers messages: among devices if each is another one, and there is what does it."""
    here = [_as_jax_has(device) for device in devices]
    rows = [
        [_NEITHER, 0, *device.identity] if there is None else [_way(device), there.id, *device.identity]
        for device, there in zip(devices, here, strict=True)
    ]
    found = processes.bytes_of_all("build", np.array(rows, np.int64).reshape(-1).view(np.uint8))
    told = [one.view(np.int64).reshape(-1, 4) for one in found]
    apiece, of_all = [len(one) for one in told], np.concatenate(told)
    least, identities = int(of_all[:, 0].min()), {tuple(words) for words in of_all[:, 2:].tolist()}
    if len(of_all) == 1 or least == _NEITHER or len(identities) < len(of_all):
        return ThroughHosts(devices, apiece, processes)
    gpus = [device for device in devices if isinstance(device, CudaDevice)]
    if least == _LIBRARY:
        # Each process knows the same key, and so has joined the others with it, or has not; but an error may differ.
        key = tuple(apiece), of_all[:, 2:].tobytes()
        if not processes.agreed("build", {}, [key in _joined])[:, 0].all():
            _joined[key] = _join(gpus, sum(apiece[: processes.number]), len(of_all), processes)
        return AmongGpus(gpus, len(of_all), processes, _joined[key])
    known = [there for there in here if there is not None]
    by_id = {one.id: one for one in jax.devices(known[0].platform)}
    return AmongDevices([by_id[number] for number in of_all[:, 1].tolist()], known, devices, processes)


def _as_jax_has(device: Device) -> jax.Device | None:
    try:
        return device.of_jax
    except NetworkError:  # JAX has no such device
        return None


def _way(device: Device) -> int:
    return _LIBRARY if isinstance(device, CudaDevice) and has_nccl() else _JAX


def _join(devices: Sequence[CudaDevice], first: int, count: int, processes: Processes) -> Communicator:
    """Let the GPUs of all processes find each other."""
    name = new_id() if processes.number == 0 else np.zeros(ID_BYTES, np.uint8)
    (name, *_) = processes.bytes_of_all("build", name)

    def joined() -> Communicator:
        found = Communicator(devices, first, count, name)
        found.connect()
        return found

    communicator: Communicator = processes.together(joined)
    return communicator
