# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the CPU: XLA calls kernels of Numba's simulator."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel as simulator
from numba.cuda.simulator.cudadrv import devices
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernelapi import Dim3

from ..._compat import ShapedArray
from ..._content import content_name
from ...errors import UnsupportedOperationError
from ...ffi import frame
from ...ffi.callbacks import native_address
from ...ffi.launch import Configuration, Launch, Limits, check_limits
from ...ffi.targets import register_once
from .arguments import check_arity, checked_dtype, title_of, weak_key
from .callback import elements

__all__ = ["KERNEL", "function_target", "kernel_target"]

KERNEL = simulator.FakeCUDAKernel
_Run = Callable[[list[FakeCUDAArray], int], None]  # of operands, then results, and how many are operands
_names: weakref.WeakKeyDictionary[Any, dict[Any, str]] = weakref.WeakKeyDictionary()  # by function and configuration
_one_launch = threading.Lock()  # Numba simulates one at a time

_swapped_globals = simulator.swapped_cuda_module
_swapped_cells: list[Any] = []  # of the launch that runs


class _AbandonedError(BaseException):
    """Another thread of the block has failed; kernels do not catch this exception."""


class Block:
    """One block: replaces the simulator's `BlockManager`.

    One lane has the baton. It runs one thread after another, until one waits at a barrier: this thread keeps its lane,
    and another lane continues. When all running threads wait, they continue in the order of their arrival: first those
    at barriers of warps, if all other threads of their warp have arrived or cannot arrive, then those at the barrier of
    the block.
    """

    def __init__(self, function: Callable[..., None], grid: Any, block: Any, debug: bool):
        self._function = function
        self._extents = block
        self._debug = debug
        self._votes: dict[int, bool] = {}
        self._waiting: deque[_Lane] = deque()  # at the barrier of the block
        self._waiting_in_warps: deque[_Lane] = deque()  # at that of their warp
        self._ready: deque[_Lane] = deque()  # released
        self._done = threading.Semaphore(0)
        self._begun = False
        self._error: Exception | None = None

    def run(self, index: Any, *arguments: Any) -> None:
        """Run all threads of the block of this index in the grid; raise what the first that fails raises."""
        x, y, z = self._extents
        self._index = Dim3(*index)
        self._arguments = arguments
        self._left = x * y * z
        self._points = enumerate(itertools.product(range(z), range(y), range(x)))  # x runs first
        if self._left:
            try:
                _lane_for(self).baton.release()
                self._wait_until_done()
            except BaseException:  # Ctrl-C: running threads use XLA's memory, and must end before XLA reuses it
                self._stop(RuntimeError("interrupted"))
                if self._begun:
                    self._wait_until_done()
                raise
        if self._error is not None:
            raise self._error

    def _wait_until_done(self) -> None:
        while not self._done.acquire(timeout=0.1):  # lets Python handle signals from time to time
            pass

    def go_on(self, lane: _Lane) -> None:
        """Run the remaining threads, as one lane; then pass the baton on."""
        self._begun, lane.blockIdx = True, self._index
        with np.errstate(all="ignore", divide="raise" if self._debug else "ignore"):  # a GPU gives no warnings
            try:
                while (point := next(self._points, None)) is not None:
                    self._left -= 1
                    number, (z, y, x) = point
                    lane.thread_id, lane.threadIdx = number, Dim3(x, y, z)
                    self._function(*self._arguments)
            except _AbandonedError:
                pass
            except Exception as error:  # noqa: BLE001 - the launch raises it, in its own thread
                self._fail(error, lane.threadIdx)
            except BaseException as error:  # noqa: BLE001 - such as SystemExit, which ends no thread of a GPU
                wrapped = RuntimeError(f"the kernel raised {type(error).__name__}: {error}")
                self._fail(wrapped.with_traceback(error.__traceback__), lane.threadIdx)
        _idle.append(lane)
        self._pass_on()

    def meet(self, lane: _Lane) -> None:
        """Wait until all running threads of the block have arrived."""
        self._wait(lane, self._waiting)

    def meet_in_warp(self, lane: _Lane) -> None:
        """Wait until all running threads of the warp that do not wait for the block have arrived."""
        self._wait(lane, self._waiting_in_warps)

    def _wait(self, lane: _Lane, waiting: deque[_Lane]) -> None:
        waiting.append(lane)
        if self._left:
            _lane_for(self).baton.release()
        else:
            self._pass_on()
        lane.baton.acquire()
        if self._error is not None:
            raise _AbandonedError

    def votes(self, lane: _Lane, value: Any) -> list[bool]:
        """Return the value that each thread passed to the barrier."""
        self._votes[lane.thread_id] = bool(value)
        self.meet(lane)
        votes = list(self._votes.values())
        self.meet(lane)
        self._votes.pop(lane.thread_id)
        return votes

    def _fail(self, error: Exception, thread: Dim3) -> None:
        error.add_note(f", in thread {thread} of block {self._index}")
        self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._error, self._left, self._points = error, 0, enumerate(())

    def _pass_on(self) -> None:
        if not self._ready:
            self._ready, self._waiting_in_warps = self._waiting_in_warps, self._ready
        if not self._ready:
            self._ready, self._waiting = self._waiting, self._ready
        if self._ready:
            self._ready.popleft().baton.release()
        else:
            self._done.release()


class _Lane(threading.Thread):
    """A Python thread that runs threads of one block after another, and gives the simulator their position."""

    thread_id: int
    threadIdx: Dim3  # noqa: N815 - names of the simulator's
    blockIdx: Dim3  # noqa: N815

    def __init__(self) -> None:
        super().__init__(name="brainevent-simulated-block", daemon=True)
        self.baton = threading.Semaphore(0)

    def serve(self, block: Block) -> None:
        """Work for a block, once it gets the baton."""
        self._block = block

    def run(self) -> None:
        """Work for one block after another."""
        while True:
            self.baton.acquire()
            self._block.go_on(self)

    def syncthreads(self) -> None:
        """What `cuda.syncthreads()` calls."""
        self._block.meet(self)

    def syncwarp(self) -> None:
        """What `cuda.syncwarp()` calls."""
        self._block.meet_in_warp(self)

    def syncthreads_count(self, value: Any) -> int:
        """What `cuda.syncthreads_count(value)` calls."""
        return sum(self._block.votes(self, value))

    def syncthreads_and(self, value: Any) -> int:
        """What `cuda.syncthreads_and(value)` calls."""
        return int(all(self._block.votes(self, value)))

    def syncthreads_or(self, value: Any) -> int:
        """What `cuda.syncthreads_or(value)` calls."""
        return int(any(self._block.votes(self, value)))


_idle: deque[_Lane] = deque()
os.register_at_fork(after_in_child=_idle.clear)  # threads stay behind


def _lane_for(block: Block) -> _Lane:
    """Return a lane that waits for the baton of this block."""
    try:
        lane = _idle.popleft()
    except IndexError:
        lane = _Lane()
        lane.start()
    lane.serve(block)
    return lane


@contextlib.contextmanager
def _swapped_cuda(function: Callable[..., Any], simulated: Any) -> Iterator[None]:
    """Replace `cuda` by the simulated one in a kernel and the functions that it calls, also where it is not a global.

    A name of an enclosing function stays replaced until the launch ends: threads of a block may share it.
    """
    outermost = not _swapped_cells
    cells = [cell for cell in function.__closure__ or () if _content(cell) is cuda]
    _swapped_cells.append(cells)
    for cell in cells:
        cell.cell_contents = simulated
    try:
        with _swapped_globals(function, simulated):
            yield
    finally:
        if outermost:
            for cell in itertools.chain.from_iterable(_swapped_cells):
                cell.cell_contents = cuda
            _swapped_cells.clear()


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty yet
        return None


def _syncwarp(_: Any, mask: int = 0xFFFF_FFFF) -> None:
    """Replace `cuda.syncwarp()`, which the simulator lacks; threads in the mask wait there, or have ended."""
    lane: Any = threading.current_thread()
    lane.syncwarp()


simulator.swapped_cuda_module = _swapped_cuda
simulator.BlockManager = Block
simulator.FakeCUDAModule.syncwarp = _syncwarp
if not hasattr(cuda, "get_current_device"):  # Numba's own simulator lacks it, that of numba-cuda has it
    cuda.get_current_device = lambda: cuda.gpus[0].device
if not hasattr(devices.FakeCUDADevice, "name"):  # programs print it
    devices.FakeCUDADevice.name = "Numba's simulator"


@dataclass(frozen=True)
class SimulatedTarget:
    """A target that simulates kernels."""

    name: str
    title: str
    platform: str = "cpu"

    @property
    def attributes(self) -> dict[str, Any]:
        """None of its own."""
        return {}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Raise: the simulator exists only in this process."""
        raise UnsupportedOperationError(
            f"the kernel {self.title!r} cannot be exported from Numba's simulator; export it in a process without "
            "emulation"
        )

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> SimulatedTarget:
        """Return itself: shapes and dtypes are read at run time."""
        return self


def kernel_target(
    where: str,
    kernel: Any,
    configuration: Configuration,
    operands: Sequence[Any],
    outs: Sequence[Any],
    aliases: Sequence[tuple[int, int]],
) -> SimulatedTarget:
    """Return the target that simulates a kernel, after the same checks as on a GPU."""
    types = [f"array({checked_dtype(where, x.dtype)}, {len(x.shape)}d, C)" for x in (*operands, *outs)]
    grid, block, shared = configuration.grid, configuration.block, configuration.shared
    aliased = tuple(out for _, out in aliases)
    if not configuration.is_empty:
        check_arity(where, kernel.py_func, types)
        check_limits(where, Launch(b"", "", title_of(kernel), grid, block, (), (), shared), Limits.of("9.0"))

    def run(arrays: list[FakeCUDAArray], count: int) -> None:
        if configuration.is_empty:  # no thread writes: outputs are zeros, not undefined
            for i, array in enumerate(arrays[count:]):
                if i not in aliased:
                    array[...] = 0
        else:
            kernel[grid, block, 0, shared](*arrays)

    content = (kernel.py_func, kernel._debug, kernel.extensions)
    return _target(where, kernel, content, (grid, block, shared, aliased), run)


def function_target(
    where: str, func: Callable[..., Any], operands: Sequence[Any], outs: Sequence[Any]
) -> tuple[SimulatedTarget, tuple[ShapedArray, ...]]:
    """Return the target that calls a function, which launches kernels; its temporaries are its own."""
    for x in (*operands, *outs):
        checked_dtype(where, x.dtype)
    return _target(where, func, func, (), lambda arrays, _: func(*arrays, cuda.stream())), ()


def _target(where: str, function: Any, content: Any, configuration: tuple[Any, ...], run: _Run) -> SimulatedTarget:
    """Return the target of `run`, which depends on the content, the configuration and nothing else."""
    names = _names.setdefault(weak_key(function), {})
    if (where, configuration) not in names:
        names[where, configuration] = f"brainevent_numba_cuda_simulated_{content_name(where, content, configuration)}"
    name, title = names[where, configuration], title_of(function)

    def described(error: BaseException) -> str:
        return f"{where} raised {_described(error, title)}"

    register_once(name, "cpu", lambda: native_address(functools.partial(_handle, run), described))
    return SimulatedTarget(name, f"{title_of(function)} (simulated)")


def _handle(run: _Run, call_frame: int) -> int:
    """Answer one call of XLA's."""
    if frame.answer_metadata_query(call_frame):
        return 0
    operands = len(frame.buffers_of(call_frame)[0])
    for buffers in elements(call_frame):
        results = {address for address, _, _ in buffers[operands:]}
        arrays = [_array(*x, i >= operands or x[0] in results) for i, x in enumerate(buffers)]
        with _one_launch:
            run(arrays, operands)
    return 0


def _array(address: int, shape: tuple[int, ...], dtype: np.dtype[Any], writeable: bool) -> FakeCUDAArray:
    """Return a part of XLA's memory as an array of the simulator; operands are read-only."""
    count = int(np.prod(shape))
    if not count:
        return FakeCUDAArray(np.empty(shape, dtype))
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address))
    array = memory.view(dtype).reshape(shape)
    array.flags.writeable = writeable
    return FakeCUDAArray(array)


def _described(error: BaseException, function: str) -> str:
    """Return "IndexError: ..., in thread (3, 0, 0) of block (1, 0, 0), /path/of/kernel.py:12"."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f", {at.filename}:{at.lineno}" for at in reversed(frames) if at.name == function), "")
    return f"{type(error).__name__}: {error}{''.join(getattr(error, '__notes__', ()))}{place}"
