# SPDX-License-Identifier: Apache-2.0
"""Record what a Python function launches, by calling it once with stand-ins for arrays and for the stream."""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher

from . import mlir

__all__ = ["CUDADispatcher", "CannotRecordError", "LaunchRecord", "Recording", "StandIn", "recorded"]

_current = threading.local()
_REFUSED = (
    "synchronize", "current_context", "to_device", "as_cuda_array", "pinned_array", "mapped_array", "managed_array",
    "event",
)  # fmt: skip


# Arguments that Numba supports and plans do not, besides arrays that are already in memory.
_PASSED = (tuple, np.ndarray, np.void, np.datetime64, np.timedelta64, enum.Enum)


class CannotRecordError(Exception):
    """The function does something that a plan cannot repeat; the text follows "because it"."""


def _cannot(reason: str) -> CannotRecordError:
    """Return the error to raise, and store it: the function may catch the exception."""
    error = CannotRecordError(reason)
    recording = getattr(_current, "recording", None)
    if recording is not None and recording.obstacle is None:
        recording.obstacle = error
    return error


@dataclass(frozen=True, eq=False)
class StandIn:
    """A placeholder for an array while a function is recorded; it has no values."""

    buffer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    shift: int = 0  # bytes, from the buffer's beginning

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return tuple(np.cumprod([self.dtype.itemsize, *reversed(self.shape)])[: self.ndim][::-1].tolist())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> StandIn:
        """Take a part of the first axis, which is contiguous."""
        first = index[0] if isinstance(index, tuple) and len(index) == 1 else index
        if isinstance(first, slice) and self.shape:
            start, stop, step = first.indices(self.shape[0])
            if step == 1:
                return self._part((max(0, stop - start), *self.shape[1:]), start)
        if isinstance(first, (int, np.integer)) and self.ndim > 1 and -self.shape[0] <= first < self.shape[0]:
            return self._part(self.shape[1:], int(first) % self.shape[0])
        raise _cannot(f"indexes an array with {index!r}")

    def _part(self, shape: tuple[int, ...], start: int) -> StandIn:
        return StandIn(self.buffer, shape, self.dtype, self.shift + start * self.strides[0])

    def reshape(self, *shape: Any, order: str = "C") -> StandIn:
        """Return the same elements in another shape."""
        if order not in ("C", "A"):
            raise _cannot(f"reshapes an array in the order {order!r}")
        extents = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        empty = np.broadcast_to(np.empty((), np.int8), self.shape).reshape(extents)
        return StandIn(self.buffer, empty.shape, self.dtype, self.shift)

    def __getattr__(self, name: str) -> Any:
        raise _cannot(f"uses {name!r} of an array")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _cannot("writes to an array outside of a kernel")

    def _refuse(self, *_: Any) -> Any:
        raise _cannot("reads the values of an array")

    __array__ = __bool__ = __float__ = __int__ = __index__ = __iter__ = _refuse


class StreamStandIn:
    """A placeholder for XLA's stream, on which all recorded launches will run."""

    def __getattr__(self, name: str) -> Any:
        raise _cannot(f"uses {name!r} of the stream")


@dataclass(frozen=True)
class LaunchRecord:
    """One launch: a kernel, its configuration as the user wrote it, and its arguments."""

    kernel: CUDADispatcher
    grid: Any
    block: Any
    shared: int
    arguments: tuple[Any, ...]


@dataclass
class Recording:
    """The launches so far, and the requested temporaries: buffers after `taken` others."""

    taken: int
    launches: list[LaunchRecord] = field(default_factory=list)
    obstacle: CannotRecordError | None = None  # the first
    temporaries: list[StandIn] = field(default_factory=list)
    stream: StreamStandIn = field(default_factory=StreamStandIn)

    def configure(self, kernel: CUDADispatcher, configuration: tuple[Any, ...]) -> Callable[..., None]:
        """Stand in for `kernel[grid, block, stream, shared]`."""
        missing: tuple[Any, ...] = (None, 0)[len(configuration) - 2 :]
        grid, block, stream, shared = (*configuration, *missing)
        if stream is not self.stream:
            raise _cannot(f"launches {kernel.py_func.__name__!r} on a stream other than the one that it receives")

        def launch(*arguments: Any) -> None:
            _check_launch(kernel, arguments)
            self.launches.append(LaunchRecord(kernel, grid, block, shared, arguments))

        return launch

    def allocate(
        self, shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
    ) -> StandIn:
        """Stand in for `cuda.device_array`; what XLA assigns is there on every stream."""
        if strides is not None or order != "C":
            raise _cannot("asks for a temporary array that is not row-major")
        extents = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        array = StandIn(self.taken + len(self.temporaries), tuple(int(n) for n in extents), np.dtype(dtype))
        self.temporaries.append(array)
        return array

    def allocate_like(self, array: Any, stream: Any = 0) -> StandIn:
        """Stand in for `cuda.device_array_like`."""
        return self.allocate(array.shape, array.dtype)


def recorded(function: Callable[..., Any], arrays: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> Recording:
    """Call the function with stand-ins for its arrays and the stream; raise `CannotRecordError` if that is not all."""
    _install()
    if (its := mlir.dispatcher()) is not None:
        _install_for(*its)
    recording = Recording(len(arrays))
    stand_ins = [StandIn(i, shape, dtype) for i, (shape, dtype) in enumerate(arrays)]
    try:
        with _recording(recording):
            function(*stand_ins, recording.stream)
    except Exception:
        if recording.obstacle is None:
            raise
    if recording.obstacle is not None:
        raise recording.obstacle
    return recording


def _check_launch(kernel: CUDADispatcher, arguments: Sequence[Any]) -> None:
    """Raise for launches that Numba supports and a plan does not."""
    name = kernel.py_func.__name__
    if kernel.targetoptions.get("link"):
        raise _cannot(f"launches {name!r}, which links other files")
    for argument in arguments:
        if isinstance(argument, StandIn):
            continue
        captured = any(hasattr(argument, mark) for mark in ("__cuda_array_interface__", "_numba_type_"))
        if captured or isinstance(argument, _PASSED) or getattr(kernel, "extensions", None):
            kind = type(argument).__name__
            raise _cannot(f"passes to {name!r} an argument of the type {kind}, which is not one of its arrays")


@contextlib.contextmanager
def _recording(recording: Recording) -> Iterator[None]:
    before, _current.recording = getattr(_current, "recording", None), recording
    try:
        yield
    finally:
        _current.recording = before


@functools.cache
def _install() -> None:
    """Make those functions of Numba that a plan can repeat test first whether this thread is recording."""
    _install_for(CUDADispatcher, cuda)


@functools.cache
def _install_for(dispatcher: Any, cuda: Any) -> None:
    """Do so for a class of kernels, and the module of their decorator."""
    _divert(dispatcher, "__getitem__", lambda recording, kernel, args: recording.configure(kernel, args))
    _divert(dispatcher, "forall", functools.partial(_refuse, "a kernel's forall"))
    _divert(cuda, "device_array", lambda recording, *args, **options: recording.allocate(*args, **options))
    _divert(cuda, "device_array_like", lambda recording, *args, **options: recording.allocate_like(*args, **options))
    for name in _REFUSED:
        if hasattr(cuda, name):
            _divert(cuda, name, functools.partial(_refuse, f"cuda.{name}"))


def _divert(owner: Any, name: str, instead: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def diverted(*args: Any, **options: Any) -> Any:
        recording = getattr(_current, "recording", None)
        return original(*args, **options) if recording is None else instead(recording, *args, **options)

    setattr(owner, name, diverted)


def _refuse(name: str, recording: Recording, *_: Any, **__: Any) -> Any:
    raise _cannot(f"calls {name}")
