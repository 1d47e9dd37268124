# SPDX-License-Identifier: Apache-2.0
"""`Communicator`: all-gathers of NCCL in the stream of a GPU, with the library that JAX has, too."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError
from .device import CudaDevice

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
    """The GPUs of some processes, each of which makes it at the same time.

    Args:
        device: The GPU of this process.
        number: The number of this process.
        count: How many processes there are.
        name: What `new_id` returned in one of them.
    """

    def __init__(self, device: CudaDevice, number: int, count: int, name: Array):
        self._device, self._handle = device, ctypes.c_void_p()
        self._last, self._arguments = (0, 0, 0), tuple[Any, ...]()  # of the last gathering
        known = _Id.from_buffer_copy(np.ascontiguousarray(name).tobytes())
        self._do("ncclCommInitRank", ctypes.byref(self._handle), ctypes.c_int(count), known, ctypes.c_int(number))

    def _do(self, function: str, *arguments: Any) -> None:
        """Call a function while this GPU is the current one."""

        def act() -> int:
            _call(function, *arguments)
            return 0

        self._device.begin(act)

    def gather(self, own: int, all_: int, words: int) -> None:
        """Gather so many words of each process, from one address to another, after what is in the stream already."""
        key = own, all_, words
        if key != self._last:
            where = ctypes.c_void_p(own), ctypes.c_void_p(all_)
            about = ctypes.c_size_t(words), ctypes.c_int(_UINT32), self._handle, ctypes.c_void_p(self._device.stream)
            self._last, self._arguments = key, (*where, *about)
        self._do("ncclAllGather", *self._arguments)

    @property
    def has_failed(self) -> bool:
        """Whether another process cannot be reached any more, as far as NCCL knows."""
        status = ctypes.c_int()
        self._do("ncclCommGetAsyncError", self._handle, ctypes.byref(status))
        return status.value not in (0, _IN_PROGRESS)

    def leave(self) -> None:
        """End what waits for others. NCCL refuses what networks that share this ask of it from now on."""
        handle, self._handle, self._last = self._handle, ctypes.c_void_p(), (0, 0, 0)
        if handle.value:
            with suppress(NetworkError):
                self._do("ncclCommAbort", handle)
