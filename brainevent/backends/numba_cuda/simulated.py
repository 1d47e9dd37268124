# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the CPU: XLA calls kernels of Numba's simulator."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel as simulator
from numba.cuda.simulator.cudadrv import devices
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

from ..._compat import ShapedArray
from ..._content import content_name
from ...errors import UnsupportedOperationError
from ...ffi import frame
from ...ffi.callbacks import native_address
from ...ffi.launch import Configuration, Launch, Limits, check_limits
from ...ffi.targets import register_once
from .arguments import check_arity, checked_dtype, title_of, weak_key
from .block import Block
from .callback import elements

__all__ = ["KERNEL", "function_target", "kernel_target"]

KERNEL = simulator.FakeCUDAKernel
_Run = Callable[[list[FakeCUDAArray], int], None]  # of operands, then results, and how many are operands
_names: weakref.WeakKeyDictionary[Any, dict[Any, str]] = weakref.WeakKeyDictionary()  # by function and configuration
_one_launch = threading.Lock()  # Numba simulates one at a time

_swapped_globals = simulator.swapped_cuda_module
_swapped_cells: list[Any] = []  # of the launch that runs


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
