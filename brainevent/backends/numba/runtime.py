# SPDX-License-Identifier: Apache-2.0
"""Functions that compiled handlers call by name: error reports, and the lock of parallel kernels."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ... import config
from ...ffi import frame, last_words
from ...ffi.callbacks import native_address
from .internals import exception_of, start_threads

__all__ = ["ENTER_PARALLEL", "LEAVE_PARALLEL", "REPORT", "prepare", "prepare_parallel"]

REPORT = "brainevent_numba_report"
ENTER_PARALLEL = "brainevent_numba_enter_parallel"
LEAVE_PARALLEL = "brainevent_numba_leave_parallel"


def _report(call_frame: int, code: int, excinfo: int, title: int) -> int:
    """Make the XLA error for a kernel that raised: only here does native code call Python."""
    where = f"{_operator(call_frame)}Numba kernel '{ctypes.string_at(title).decode()}'"
    try:
        message = f"{where} raised {_exception(ctypes.c_int32(code).value, excinfo)}"
    except Exception as error:  # noqa: BLE001 - then this error is reported
        message = f"{where} raised an exception that cannot be read ({type(error).__name__}: {error})"
    return last_words.make_error(call_frame, message)


def _operator(call_frame: int) -> str:
    """Read the attribute `operator`, the second of our two."""
    span = frame.read_word(frame.read_word(call_frame, "XLA_FFI_CallFrame.attrs.attrs"), 8)
    name = ctypes.string_at(
        frame.read_word(span, "XLA_FFI_ByteSpan.ptr"), frame.read_word(span, "XLA_FFI_ByteSpan.len")
    ).decode()
    return f"operator '{name}': " if name else ""


def _exception(code: int, excinfo: int) -> str:
    if code < 1:
        return "an exception in object mode"
    kind, args, place = exception_of(excinfo)
    message = str(kind(*(args or ())))
    where = f" ({os.path.basename(place[1])}:{place[2]}, in {place[0]})" if place else ""
    return f"{kind.__name__}{': ' if message else ''}{message}{where}"


@functools.cache
def prepare() -> None:
    """Register the symbols that every handler needs."""
    llvm.add_symbol(REPORT, native_address(_report, lambda error: f"a Numba kernel raised; {error!r}", words=4))


@intrinsic
def _load_word(typing_context: Any, address: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), codegen


@functools.cache
def prepare_parallel() -> tuple[Any, ...]:
    """Start Numba's threads, and register the lock that every parallel kernel takes.

    The function with the lock applies `config.set_numba_parallel(num_threads=...)` on XLA's threads. Numba's layer
    'workqueue' ends the process when two threads enter it, and XLA runs independent operators at once: with this layer,
    one kernel runs at a time.
    """
    start_threads()
    limit, serial = ctypes.addressof(config.numba_thread_limit), numba.threading_layer() == "workqueue"
    mutex, lock, unlock = _mutex() if serial else (0, _no_lock, _no_lock)

    @numba.cfunc(types.int64(types.int64))
    def enter(_: int) -> int:
        if serial:
            lock(mutex)
        wanted = _load_word(limit)
        if wanted == 0:
            return 0
        before = numba.get_num_threads()
        numba.set_num_threads(wanted)
        return before

    @numba.cfunc(types.int64(types.int64))
    def leave(before: int) -> int:
        if before != 0:
            numba.set_num_threads(before)
        if serial:
            unlock(mutex)
        return 0

    llvm.add_symbol(ENTER_PARALLEL, enter.address)
    llvm.add_symbol(LEAVE_PARALLEL, leave.address)
    return enter, leave, mutex


@numba.njit
def _no_lock(mutex: int) -> int:
    return 0


_mutex_memory = ctypes.create_string_buffer(128)


def _mutex() -> tuple[int, Any, Any]:
    """Return a mutex's address, and the functions of the C library that lock and unlock it."""
    libc = ctypes.CDLL(None)
    for function in (libc.pthread_mutex_lock, libc.pthread_mutex_unlock):
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int
    libc.pthread_mutex_init(ctypes.byref(_mutex_memory), None)
    return ctypes.addressof(_mutex_memory), libc.pthread_mutex_lock, libc.pthread_mutex_unlock
