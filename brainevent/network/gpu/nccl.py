# SPDX-License-Identifier: Apache-2.0
"""`Communicator`: all-gathers of NCCL in the streams of GPUs, with the library that JAX has, too."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from .cuda_device import CudaDevice
from .device import LAUNCHING

__all__ = ["ID_BYTES", "Communicator", "has_nccl", "new_id"]

ID_BYTES = 128
_NAME = "libnccl.so.2"
_UINT32, _IN_PROGRESS = 3, 7  # a type of elements, and an answer

Array = Any


class _Id(ctypes.Structure):
    """What processes have in common that join."""

    _fields_ = (("bytes", ctypes.c_char * ID_BYTES),)


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return NCCL: that of the system, or of the package from which JAX has it; None if there is none."""
    with suppress(OSError):
        return ctypes.CDLL(_NAME)
    with suppress(ImportError, OSError):
        spec = importlib.util.find_spec("nvidia.nccl")
        for folder in (spec and spec.submodule_search_locations) or ():
            return ctypes.CDLL(str(Path(folder) / "lib" / _NAME))
    return None


def has_nccl() -> bool:
    """Say whether there is NCCL."""
    return _library() is not None


def _call(function: str, *arguments: Any) -> None:
    library = _library()
    assert library is not None
    if status := getattr(library, function)(*arguments):
        library.ncclGetErrorString.restype = ctypes.c_char_p
        raise NetworkError(f"hosts: {function}: {library.ncclGetErrorString(status).decode()}")


def new_id() -> Array:
    """Return what all processes are to know that join: uint8 (ID_BYTES,)."""
    found = _Id()
    _call("ncclGetUniqueId", ctypes.byref(found))
    return np.frombuffer(bytes(found), np.uint8).copy()


class Communicator:
    """The GPUs of some processes, each of which makes it at the same time, for those that it has.

    One thread acts for all GPUs of a process, in groups, as NCCL asks for: what a group begins on several GPUs, which
    wait for each other, begins where the group ends, on all of them. A group of one is the same as no group.

    Args:
        devices: The GPUs of this process.
        first: The number of the first of them among all; the others follow it.
        count: How many GPUs all processes have.
        name: What `new_id` returned in one of them.
    """

    def __init__(self, devices: Sequence[CudaDevice], first: int, count: int, name: Array):
        self._devices, self._count = tuple(devices), count
        self._handles = [ctypes.c_void_p() for _ in devices]
        self._last: Any = None  # where the last gathering was
        self._arguments: list[tuple[Any, ...]] = []  # of it, for each GPU
        known = _Id.from_buffer_copy(np.ascontiguousarray(name).tobytes())
        with self._group():
            for k, handle in enumerate(self._handles):
                rank = ctypes.c_int(first + k)
                self._do(k, "ncclCommInitRank", ctypes.byref(handle), ctypes.c_int(count), known, rank)

    def _do(self, k: int, function: str, *arguments: Any) -> None:
        """Call a function while a GPU is the current one."""

        def act() -> int:
            _call(function, *arguments)
            return 0

        self._devices[k].begin(act)

    @contextmanager
    def _group(self) -> Iterator[None]:
        """Let what is called in the block begin where it ends, on all GPUs."""
        self._do(0, "ncclGroupStart")
        try:
            yield
        except BaseException:
            with suppress(NetworkError):
                self._do(0, "ncclGroupEnd")
            raise
        self._do(0, "ncclGroupEnd")

    def gather(self, own: Sequence[int], all_: Sequence[int], words: int) -> None:
        """Gather so many words of each GPU, from addresses to others, after what is in the streams already.

        While the kernels of several GPUs, which wait for each other, are launched one after another, no memory is freed
        and no kernel is loaded by other threads: either may wait for a GPU, and hold up the launch that it waits for.
        """
        self._prepare(own, all_, words)
        if len(self._devices) == 1:
            self._do(0, "ncclAllGather", *self._arguments[0])
            return
        with LAUNCHING:
            self._gather_all()

    def _prepare(self, own: Sequence[int], all_: Sequence[int], words: int) -> None:
        """Keep what the next gathering is asked for with."""
        key = (tuple(own), tuple(all_), words)
        if key == self._last:
            return
        number, kind = ctypes.c_size_t(words), ctypes.c_int(_UINT32)
        pairs = zip(own, all_, self._handles, self._devices, strict=True)
        self._last, self._arguments = key, []
        for here, there, handle, device in pairs:
            where = ctypes.c_void_p(here), ctypes.c_void_p(there)
            self._arguments.append((*where, number, kind, handle, ctypes.c_void_p(device.stream)))

    def _gather_all(self) -> None:
        with self._group():
            for k, arguments in enumerate(self._arguments):
                self._do(k, "ncclAllGather", *arguments)

    def connect(self) -> None:
        """Gather a word for the first time: NCCL connects GPUs then, and this call waits for other processes.

        Nothing is held meanwhile, so that a thread which waits in vain does not keep others from what they do.
        """
        own, all_ = (
            [device.memory(4 * words, "messages of processes") for device in self._devices]
            for words in (1, self._count)
        )
        self._prepare([one.address for one in own], [one.address for one in all_], 1)
        self._gather_all()
        for device in self._devices:
            device.wait()
        self._last = None

    @property
    def has_failed(self) -> bool:
        """Whether another process cannot be reached any more, as far as NCCL knows."""
        return any(self._status(k) not in (0, _IN_PROGRESS) for k in range(len(self._devices)))

    def _status(self, k: int) -> int:
        status = ctypes.c_int()
        self._do(k, "ncclCommGetAsyncError", self._handles[k], ctypes.byref(status))
        return status.value

    def leave(self) -> None:
        """End what waits for others. NCCL refuses what networks that share this ask of it from now on."""
        handles, self._handles = self._handles, [ctypes.c_void_p() for _ in self._devices]
        self._last = None
        for k, handle in enumerate(handles):
            if handle.value:
                with suppress(NetworkError):
                    self._do(k, "ncclCommAbort", handle)
