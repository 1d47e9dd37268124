# SPDX-License-Identifier: Apache-2.0
"""`Device`: what runs kernels, a GPU or what takes its place; `Memory` on it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from ..pages import aligned

__all__ = ["LAUNCHING", "Device", "Memory", "cleared", "gpu_name", "held"]

Array = Any

# Held while kernels that wait for each other are launched, one on each GPU; and while a kernel is loaded or memory is
# freed, which may wait for all that runs: so no launch waits for what waits for it. Networks that share GPUs are
# launched in one order.
LAUNCHING = threading.RLock()


class Memory:
    """Bytes on a device; they are freed when no reference to this object is left."""

    def __init__(self, device: Device, address: int, nbytes: int):
        self.device, self.address, self.nbytes = device, address, nbytes
        weakref.finalize(self, device.free, address).atexit = False  # the process gives back all

    def upload(self, array: Array, at: int = 0) -> None:
        """Copy an array to a byte of it."""
        array = np.ascontiguousarray(array)
        assert at + array.nbytes <= self.nbytes
        if array.nbytes:
            self.device.copy_in(self.address + at, array)

    def download(self, dtype: Any, shape: Any, at: int = 0) -> Array:
        """Return a copy of the elements from a byte on."""
        array = aligned(shape if isinstance(shape, tuple) else (shape,), dtype)  # in large pages: they are quick to get
        self.fill(array, at)
        return array

    def fill(self, array: Array, at: int = 0) -> None:
        """Fill an array with the elements from a byte on."""
        assert at + array.nbytes <= self.nbytes
        if array.nbytes:
            self.device.copy_out(array, self.address + at)

    def clear(self) -> None:
        """Set all bytes to zero, before what is launched next."""
        self.device.fill_zero(self.address, self.nbytes)


class Device(Protocol):
    """What runs kernels, in the order of the calls."""

    name: str
    number: int  # among those of this process
    multiprocessors: int
    shared_bytes: int  # of a block, at most
    words: str | None  # in which kernels are written, None for those of a GPU
    has_clusters: bool  # of blocks that write to each other's shared memory

    @property
    def of_jax(self) -> jax.Device:
        """The same device, as JAX has it."""

    def beside(self) -> Device:
        """Return the same device, for what is done at the same time as what this one does."""

    @property
    def identity(self) -> tuple[int, int]:
        """Two numbers of 64 bits that no other device of any host has."""

    @property
    def ordinal(self) -> int:
        """Its number in calls of XLA."""

    def on(self, stream: int) -> Device:
        """Return the same device, for what is done in a stream of XLA, or in calls without one."""

    def begin(self, act: Callable[[], int]) -> int:
        """Call native code that launches kernels in this stream; return its answer."""

    def memory(self, nbytes: int, what: str) -> Memory:
        """Return new memory; raise for `what` if there is none."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def copy_in(self, address: int, array: Array) -> None:
        """Copy an array to an address."""

    def copy_out(self, array: Array, address: int) -> None:
        """Fill an array from an address."""

    def fill_zero(self, address: int, nbytes: int) -> None:
        """Set bytes to zero."""

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Compile a text; return the binary of a launch plan, and the name of the kernel in it."""

    def prepare(self, texts: Mapping[str, str]) -> None:
        """Begin to compile texts that are needed soon, by the name of a kernel of each."""

    def kernel(self, text: str, entry: str, shared: int) -> Any:
        """Return the kernel of a text, with the given number of bytes of dynamic shared memory."""

    def launch(
        self,
        kernel: Any,
        blocks: int,
        threads: int,
        shared: int,
        parameters: Sequence[bytes],
        *,
        at_once: bool = False,
        clustered: bool = False,
    ) -> None:
        """Run a kernel; with `at_once` or in one cluster, all its blocks run at the same time or none does."""

    def launcher(
        self,
        kernel: Any,
        blocks: int,
        threads: int,
        shared: int,
        parameters: Sequence[Array],
        *,
        at_once: bool = False,
        clustered: bool = False,
    ) -> Callable[[], None]:
        """Return what runs a kernel whenever it is called, with what its parameters have in them then."""

    def has_room_for_cluster(self, kernel: Any, blocks: int, threads: int, shared: int) -> bool:
        """Say whether it runs a kernel whose blocks are in one cluster."""

    def networks_at_once(self, kernel: Any, blocks: int, threads: int, shared: int, *, clustered: bool) -> int:
        """Return how many times it runs a kernel of this number of blocks at the same time."""

    def wait(self) -> None:
        """Wait for all that was launched."""

    def is_done(self) -> bool:
        """Say whether all that was launched has ended; raise if a kernel failed."""


def held(device: Device, array: Array, what: str) -> Memory:
    """Return new memory with the elements of an array; raise for `what` if there is none."""
    memory = device.memory(array.nbytes, what)
    memory.upload(array)
    return memory


def cleared(device: Device, nbytes: int, what: str) -> Memory:
    """Return new memory of which all bytes are zero; raise for `what` if there is none."""
    memory = device.memory(nbytes, what)
    memory.clear()
    return memory


def gpu_name(device: Device) -> str:
    """Name a GPU in words."""
    return f"GPU {device.number} ({device.name})"
