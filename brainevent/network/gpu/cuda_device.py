# SPDX-License-Identifier: Apache-2.0
"""`CudaDevice`: memory, kernels and launches of one GPU, through the functions of its driver."""

from __future__ import annotations

import copy
import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import jax
import numpy as np

from ...backends.nvrtc.compiler import compiled
from ...backends.nvrtc.translation_unit import OwnText
from ...errors import KernelLoadError, NetworkError
from ...ffi.launch.driver import LIBRARY, driver
from ...scalar.cuda_text import NVRTC_OPTIONS
from ..run.report import in_bytes
from .device import LAUNCHING, Device, Memory, gpu_name

__all__ = ["CudaDevice", "cuda_device", "default_device", "default_number", "leave_running", "local_device"]
__all__ += ["number_of_gpus"]

_MULTIPROCESSORS, _SHARED, _MAJOR, _MINOR = 16, 97, 75, 76  # attributes of a device
_NON_BLOCKING = 1
_CLUSTERS = 9  # the first number of the compute capability of GPUs with clusters
_OUT_OF_MEMORY, _NOT_READY, _OPEN_ALREADY = 2, 600, 704
_OF_JAX = (
    "JAX takes three quarters of a GPU unless XLA_PYTHON_CLIENT_PREALLOCATE=false or "
    "XLA_PYTHON_CLIENT_MEM_FRACTION=0.1 is set"
)
Array = Any

_left_running: list[Device] = []  # those with a kernel that does not end
_to_free: list[tuple[CudaDevice, int]] = []  # addresses that are not used any more: freed when no such kernel runs


def leave_running(device: Device) -> None:
    """Go on without the kernel that runs on a device and does not end."""
    with LAUNCHING:
        _left_running.append(device)


def _free_unused() -> None:
    """Free memory that is not used any more, unless a kernel runs that does not end.

    Python may collect garbage meanwhile, which comes here, too.
    """
    with LAUNCHING:
        _left_running[:] = [device for device in tuple(_left_running) if _runs(device)]
        while not _left_running:
            try:
                device, address = _to_free.pop()
            except IndexError:
                return
            with device._current():
                device._library.cuMemFree_v2(ctypes.c_uint64(address))


def _runs(device: Device) -> bool:
    try:
        return not device.is_done()
    except KernelLoadError:  # it has failed
        return False


class CudaDevice:
    """A GPU by its number, in the context that JAX uses too."""

    words: str | None = None

    def __init__(self, number: int = 0) -> None:
        driver()  # raises, in words, where there is none
        self.number = number
        self._library = ctypes.CDLL(LIBRARY)
        device, self._context, self._stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuDeviceGet", ctypes.byref(device), number)
        name = ctypes.create_string_buffer(200)
        self._do("cuDeviceGetName", name, 200, device)
        self.name = name.value.decode()
        self._begin("cuDevicePrimaryCtxRetain", device, ctypes.byref(self._context), device)
        self.multiprocessors, self.shared_bytes, major, minor = (
            self._attribute(device, which) for which in (_MULTIPROCESSORS, _SHARED, _MAJOR, _MINOR)
        )
        self.capability = f"{major}.{minor}"
        uuid = ctypes.create_string_buffer(16)
        self._do("cuDeviceGetUuid_v2", uuid, device)
        first, second = np.frombuffer(uuid.raw, np.int64).tolist()
        self.identity = first, second
        self.has_clusters = major >= _CLUSTERS
        self._binaries: dict[str, bytes] = {}  # by text
        self._compiling: dict[str, threading.Lock] = {}
        with self._current():
            self._begin("cuStreamCreate", device, ctypes.byref(self._stream), _NON_BLOCKING)

    def _begin(self, function: str, device: ctypes.c_int, *arguments: Any) -> None:
        """Call a function that makes what each program has on a GPU."""
        status = getattr(self._library, function)(*arguments)
        if status == _OUT_OF_MEMORY:
            total = ctypes.c_size_t()
            self._library.cuDeviceTotalMem_v2(ctypes.byref(total), device)
            raise NetworkError(
                f"build: {gpu_name(self)} has no memory left for this program: others hold its "
                f"{in_bytes(total.value)}, and `nvidia-smi` lists them; {_OF_JAX}"
            )
        self._check(function, status)

    @property
    def of_jax(self) -> jax.Device:
        """The same device, as JAX has it."""
        try:
            there = jax.local_devices(backend="gpu")
        except RuntimeError:  # JAX knows no such platform here
            there = []
        for device in there:
            if device.local_hardware_id == self.number:
                return device
        raise NetworkError(
            f"simulate: the network was built on GPU number {self.number}, and JAX has "
            f"{', '.join(map(str, there)) or 'none'}; let JAX see that GPU (JAX_PLATFORMS, CUDA_VISIBLE_DEVICES), or "
            'build the network with backend="jax"'
        )

    @property
    def stream(self) -> int:
        """The stream in whose order all is done."""
        return self._stream.value or 0

    def beside(self) -> CudaDevice:
        """Return the same GPU with a stream of its own."""
        other = copy.copy(self)
        other._stream = ctypes.c_void_p()
        with self._current():
            self._do("cuStreamCreate", ctypes.byref(other._stream), _NON_BLOCKING)
        weakref.finalize(other, self._destroy, other._stream).atexit = False
        return other

    @property
    def ordinal(self) -> int:
        """Its number in calls of XLA."""
        return self.number

    def on(self, stream: int) -> CudaDevice:
        """Return the same GPU with a stream of XLA, which stays XLA's."""
        other = copy.copy(self)
        other._stream = ctypes.c_void_p(stream)
        return other

    def begin(self, act: Callable[[], int]) -> int:
        """Call native code that launches kernels."""
        with self._current():
            return act()

    def _destroy(self, stream: ctypes.c_void_p) -> None:
        with self._current():
            self._library.cuStreamDestroy_v2(stream)

    def memory(self, nbytes: int, what: str) -> Memory:
        """Return new memory."""
        if _to_free:
            _free_unused()
        address = ctypes.c_uint64()
        with self._current():
            status = self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(nbytes, 16)))
            if status == _OUT_OF_MEMORY:
                raise NetworkError(f"build: {what} take {in_bytes(nbytes)}, and {self._full()}")
        self._check("cuMemAlloc", status)
        return Memory(self, address.value, nbytes)

    def free(self, address: int) -> None:
        """Give memory back when kernels that do not end have ended: CUDA waits for all kernels when it frees memory."""
        _to_free.append((self, address))
        _free_unused()

    def copy_in(self, address: int, array: Array) -> None:
        """Copy an array to an address, after all that was launched.

        In the order of the stream: cuMemcpyHtoD may return before the copy is there, and the stream would not wait.
        """
        with self._current():
            source, nbytes = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            self._do("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), source, nbytes, self._stream)
        self.wait()

    def copy_out(self, array: Array, address: int) -> None:
        """Fill an array from an address, after all that was launched."""
        self.wait()
        with self._current():
            target = ctypes.c_void_p(array.ctypes.data)
            self._do("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def fill_zero(self, address: int, nbytes: int) -> None:
        """Set bytes to zero."""
        if nbytes:
            with self._current():
                self._do("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(nbytes), self._stream)

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Compile a text, with all its kernels, unless it is kept."""
        with self._compiling.setdefault(text, threading.Lock()):
            if text not in self._binaries:
                unit = OwnText(entry, text, ("--std=c++17", *NVRTC_OPTIONS))
                self._binaries[text] = compiled(f"network kernel {entry}", unit, (self.capability,)).binary
        return self._binaries[text], entry

    def prepare(self, texts: Mapping[str, str]) -> None:
        """Begin to compile texts that are needed soon, by the name of a kernel of each."""
        for entry, text in texts.items():
            threading.Thread(target=self._try_to_compile, args=(text, entry)).start()

    def _try_to_compile(self, text: str, entry: str) -> None:
        with suppress(Exception):  # it is raised where the code is needed
            self.code(text, entry)

    def kernel(self, text: str, entry: str, shared: int) -> Any:
        """Compile a text, and load one of its kernels now, so that its launch does not wait for what runs."""
        code = self.code(text, entry)
        with LAUNCHING:
            kernel = driver().kernel(*code, shared)
            function = ctypes.c_void_p()
            with self._current():
                self._do("cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(kernel))
                if hasattr(self._library, "cuFuncLoad"):  # drivers for CUDA 12.4 have it
                    self._do("cuFuncLoad", function)
        return kernel

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
        """Run a kernel; one that is made for a cluster has it in its binary."""
        given = [np.frombuffer(value, np.uint8) for value in parameters]
        self.launcher(kernel, blocks, threads, shared, given, at_once=at_once, clustered=clustered)()

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
        """Return what runs a kernel whenever it is called."""
        del clustered
        held = list(parameters)
        table = (ctypes.c_void_p * len(held))(*(value.ctypes.data for value in held))
        extents = [ctypes.c_uint(extent) for extent in (blocks, 1, 1, threads, 1, 1, shared)]
        function = "cuLaunchCooperativeKernel" if at_once else "cuLaunchKernel"
        arguments = (ctypes.c_void_p(kernel), *extents, self._stream, table, *(() if at_once else (None,)))
        kept = held, arguments  # the parameters live as long as what launches the kernel

        def launch() -> None:
            _, given = kept
            with self._current():
                self._do(function, *given)

        return launch

    def has_room_for_cluster(self, kernel: Any, blocks: int, threads: int, shared: int) -> bool:
        """Say whether it runs a kernel whose blocks are in one cluster."""
        try:
            return driver().clusters(kernel, blocks, threads, shared, number=self.number) > 0
        except KernelLoadError:
            return False

    def networks_at_once(self, kernel: Any, blocks: int, threads: int, shared: int, *, clustered: bool) -> int:
        """Return how many times it runs a kernel of this number of blocks at the same time."""
        if clustered:
            return driver().clusters(kernel, blocks, threads, shared, number=self.number)
        count = ctypes.c_int()
        with self._current():
            function = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
            size = ctypes.c_size_t(shared)
            self._do(function, ctypes.byref(count), ctypes.c_void_p(kernel), ctypes.c_int(threads), size)
        return count.value * self.multiprocessors // blocks

    def wait(self) -> None:
        """Wait for all that was launched."""
        with self._current():
            self._do("cuStreamSynchronize", self._stream)

    def is_done(self) -> bool:
        """Say whether all that was launched has ended; raise if a kernel failed."""
        with self._current():
            status = self._library.cuStreamQuery(self._stream)
        if status == _NOT_READY:
            return False
        self._check("cuStreamQuery", status)
        return True

    def opened(self, other: CudaDevice) -> bool:
        """Let kernels of this GPU use the memory of another one; say whether they can."""
        can, device, there = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._do("cuDeviceGet", ctypes.byref(device), self.number)
        self._do("cuDeviceGet", ctypes.byref(there), other.number)
        self._do("cuDeviceCanAccessPeer", ctypes.byref(can), device, there)
        if not can.value:
            return False
        with self._current():
            status = self._library.cuCtxEnablePeerAccess(other._context, 0)
        if status != _OPEN_ALREADY:  # JAX opens them, too
            self._check("cuCtxEnablePeerAccess", status)
        return True

    def _full(self) -> str:
        """Say how much memory is free, in the context of this GPU."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return (
            f"{in_bytes(free.value)} of {in_bytes(total.value)} are free on {gpu_name(self)}; other "
            f"programs may have the rest, and {_OF_JAX}"
        )

    def _attribute(self, device: ctypes.c_int, which: int) -> int:
        value = ctypes.c_int()
        self._do("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    @contextmanager
    def _current(self) -> Iterator[None]:
        self._do("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def _do(self, function: str, *arguments: Any) -> None:
        self._check(function, getattr(self._library, function)(*arguments))

    def _check(self, what: str, status: int) -> None:
        if status != 0:
            full = ""
            if status == _OUT_OF_MEMORY:
                with self._current():
                    full = f"; {self._full()}"
            raise KernelLoadError(f"network on a GPU: {what}: {driver().error_name(status)}{full}")


def number_of_gpus() -> int:
    """Return how many GPUs this process has."""
    driver()  # raises, in words, where there is none
    count = ctypes.c_int()
    return 0 if ctypes.CDLL(LIBRARY).cuDeviceGetCount(ctypes.byref(count)) else count.value


@functools.cache
def cuda_device(number: int = 0) -> CudaDevice:
    """Return a GPU of this process."""
    return CudaDevice(number)


def default_number() -> int:
    """Return the number of the GPU that `jax.default_device` names; 0 if it names none."""
    chosen: Any = jax.config.values["jax_default_device"]  # a device, or the name of a platform
    return int(chosen.local_hardware_id) if getattr(chosen, "platform", None) == "gpu" else 0


def default_device() -> CudaDevice:
    """Return the GPU that `jax.default_device` names, else the first one."""
    return cuda_device(default_number())


def local_device() -> CudaDevice:
    """Return the GPU that `jax.default_device` names, else the first one that JAX has in this process."""
    if getattr(jax.config.values["jax_default_device"], "platform", None) == "gpu":
        return default_device()
    try:
        return cuda_device(jax.local_devices(backend="gpu")[0].local_hardware_id)
    except RuntimeError:  # JAX has none
        return default_device()
