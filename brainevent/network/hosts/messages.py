# SPDX-License-Identifier: Apache-2.0
"""Messages of all processes, gathered where kernels read them: by NCCL or JAX among GPUs, or by way of the hosts."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import numpy as np

from ...errors import NetworkError
from ..gpu.device import CudaDevice, Device
from ..gpu.nccl import ID_BYTES, Communicator, has_nccl, new_id
from .processes import Processes

__all__ = ["AmongDevices", "AmongGpus", "Messages", "ThroughHosts", "messages_of"]

_ASKED = 0.1  # seconds between two questions whether others can be reached


class Messages(Protocol):
    """Messages of as many words in each process.

    Attributes:
        address: Where the own one is written, in the stream of the device.
        said: How they are gathered, in words.
    """

    address: int
    said: str

    def make_room(self, words: int) -> None:
        """Take memory for messages of so many words."""

    def gather(self, then: Callable[[int], None]) -> None:
        """Gather the messages of all processes, and launch what takes them, given where they lie."""

    def wait(self) -> None:
        """Wait for all that was launched."""


class AmongGpus:
    """Messages that NCCL gathers in the stream of the GPU."""

    said = "by NCCL among the GPUs"

    def __init__(self, device: CudaDevice, processes: Processes, communicator: Communicator):
        self._device, self._processes, self._communicator = device, processes, communicator

    def make_room(self, words: int) -> None:
        """Take memory."""
        sizes = (4 * words, 4 * words * self._processes.count)
        self._own, self._all = (self._device.memory(size, "messages of processes") for size in sizes)
        self.address, self._words, self._asked = self._own.address, words, 0.0

    def gather(self, then: Callable[[int], None]) -> None:
        """Let the stream gather, and launch."""
        self._communicator.gather(self._own.address, self._all.address, self._words)
        then(self._all.address)

    def wait(self) -> None:
        """Wait as long as there is patience."""
        self._asked = time.monotonic() + _ASKED
        self._processes.wait_for(self._is_done, self._communicator.leave)

    def _is_done(self) -> bool:
        if self._device.is_done():
            return True
        if time.monotonic() > self._asked:
            self._asked = time.monotonic() + _ASKED
            if self._communicator.has_failed:
                raise ConnectionError("NCCL reports an error of another process")
        return False


class AmongDevices:
    """Messages that a program of JAX gathers.

    Args:
        devices: The device of each process, as JAX has it.
        device: That of this process.
        processes: The processes.
    """

    said = "by all_gather of JAX among the GPUs"

    def __init__(self, devices: Sequence[jax.Device], device: Device, processes: Processes):
        self._here, self._device, self._processes = devices[processes.number], device, processes
        mesh = jax.sharding.Mesh(np.array(devices), ("hosts",))
        spec = jax.sharding.PartitionSpec
        self._of_each, of_all = (jax.sharding.NamedSharding(mesh, one) for one in (spec("hosts"), spec()))
        self._program = jax.jit(lambda words: words, out_shardings=of_all)

    def make_room(self, words: int) -> None:
        """Let JAX take the memory, which kernels write: no one else has this array."""
        own = jax.device_put(np.zeros((1, words), np.uint32), self._here)
        self.address = int(own.block_until_ready().unsafe_buffer_pointer())
        shape = (self._processes.count, words)
        self._whole = jax.make_array_from_single_device_arrays(shape, self._of_each, [own])

    def gather(self, then: Callable[[int], None]) -> None:
        """Run the program, whose result is held until it was taken."""
        self._device.wait()
        found = self._processes.together(lambda: self._program(self._whole).addressable_data(0).block_until_ready())
        then(int(found.unsafe_buffer_pointer()))
        self._device.wait()

    def wait(self) -> None:
        """Do nothing: there is nothing to wait for."""


class ThroughHosts:
    """Messages that are copied to the hosts, gathered among those, and copied back."""

    said = "through the memory of the hosts"

    def __init__(self, device: Device, processes: Processes):
        self._device, self._processes = device, processes

    def make_room(self, words: int) -> None:
        """Take memory."""
        self._own, self._all = (
            self._device.memory(4 * words * count, "messages of processes") for count in (1, self._processes.count)
        )
        self.address = self._own.address

    def gather(self, then: Callable[[int], None]) -> None:
        """Copy, gather and copy."""
        self._all.upload(self._processes.gathered(self._own.download(np.uint32, self._own.nbytes // 4)))
        then(self._all.address)

    def wait(self) -> None:
        """Wait for the device."""
        self._device.wait()


_NEITHER, _JAX, _LIBRARY, _JOINED = range(4)  # what a process has that gathers among devices
_joined: dict[int, Communicator] = {}  # by the number of the GPU: one for all networks of these processes


def messages_of(device: Device, processes: Processes) -> Messages:
    """Return what gathers messages: among devices if each process has its own one, and there is what does it."""
    if processes.count == 1:
        return ThroughHosts(device, processes)  # without any
    try:
        here = device.of_jax
    except NetworkError:  # JAX has no such device
        here = None
    way = _NEITHER if here is None else _JAX
    if isinstance(device, CudaDevice) and has_nccl():
        way = _JOINED if device.number in _joined else _LIBRARY
    told = processes.agreed("build", {}, [0 if here is None else here.id, way, *device.identity])
    least, identities = int(told[:, 1].min()), {tuple(words) for words in told[:, 2:4].tolist()}
    if least == _NEITHER or len(identities) < processes.count:
        return ThroughHosts(device, processes)
    if least >= _LIBRARY and isinstance(device, CudaDevice):
        if least < _JOINED:
            _joined[device.number] = _join(device, processes)
        return AmongGpus(device, processes, _joined[device.number])
    assert here is not None
    by_id = {one.id: one for one in jax.devices(here.platform)}
    return AmongDevices([by_id[number] for number in told[:, 0].tolist()], device, processes)


def _join(device: CudaDevice, processes: Processes) -> Communicator:
    """Let the GPUs of all processes find each other."""
    name = new_id() if processes.number == 0 else np.zeros(ID_BYTES, np.uint8)
    (name, *_) = processes.bytes_of_all("build", name)
    joined: Communicator = processes.together(
        functools.partial(Communicator, device, processes.number, processes.count, name)
    )
    return joined
