# SPDX-License-Identifier: Apache-2.0
"""Functions that compiled handlers call by name: error reports, and the lock of parallel kernels."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import llvmlite.binding as llvm
import numba

from ... import config
from ...ffi import frame, last_words
from ...ffi.callbacks import native_address
from ...ffi.pulse import INTERRUPTED, LoopInterruptedError
from .foreign import ForeignError
from .internals import exception_of, start_threads

__all__ = ["ENTER_PARALLEL", "LEAVE_PARALLEL", "REPORT", "prepare", "prepare_parallel"]

REPORT = "brainevent_numba_report"
ENTER_PARALLEL = "brainevent_numba_enter_parallel"
LEAVE_PARALLEL = "brainevent_numba_leave_parallel"


def _report(call_frame: int, code: int, excinfo: int, title: int) -> int:
    """Make the XLA error for a kernel that raised: only here does native code call Python."""
    kernel = f"{_operator(call_frame)}Numba kernel '{ctypes.string_at(title).decode()}'"
    try:
        message = _message(kernel, ctypes.c_int32(code).value, excinfo)
    except Exception as error:  # noqa: BLE001 - then this error is reported
        message = f"{kernel} raised an exception that cannot be read ({type(error).__name__}: {error})"
    return last_words.make_error(call_frame, message)


def _operator(call_frame: int) -> str:
    """Read the attribute `operator`, the second of our two."""
    span = frame.read_word(frame.read_word(call_frame, "XLA_FFI_CallFrame.attrs.attrs"), 8)
    name = ctypes.string_at(
        frame.read_word(span, "XLA_FFI_ByteSpan.ptr"), frame.read_word(span, "XLA_FFI_ByteSpan.len")
    ).decode()
    return f"operator '{name}': " if name else ""


def _message(kernel: str, code: int, excinfo: int) -> str:
    if code < 1:
        return f"{kernel} raised an exception in object mode"
    kind, args, place = exception_of(excinfo)  # once: this may give the record back
    if kind is ForeignError:  # of another language; its words were noted when it was made
        return last_words.latest()
    if kind is LoopInterruptedError:
        return INTERRUPTED
    message = str(kind(*(args or ())))
    where = f" ({os.path.basename(place[1])}:{place[2]}, in {place[0]})" if place else ""
    return f"{kernel} raised {kind.__name__}{': ' if message else ''}{message}{where}"


def _described(error: BaseException) -> str:
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else f"a Numba kernel raised; {error!r}"


@functools.cache
def prepare() -> None:
    """Register the symbols that every handler needs."""
    llvm.add_symbol(REPORT, native_address(_report, _described, words=4))


# As text for LLVM, since Numba's own compiler takes most of a second before it compiles anything.
_GATES = """
declare i32 @get_num_threads()
declare void @set_num_threads(i32)

define i64 @enter(i64 %ignored) {{
  {lock}
  %wanted = load i64, ptr inttoptr (i64 {limit} to ptr)
  %unlimited = icmp eq i64 %wanted, 0
  br i1 %unlimited, label %leave, label %limited
limited:
  %before = call i32 @get_num_threads()
  %number = trunc i64 %wanted to i32
  call void @set_num_threads(i32 %number)
  %found = sext i32 %before to i64
  ret i64 %found
leave:
  ret i64 0
}}

define i64 @leave(i64 %before) {{
  %unlimited = icmp eq i64 %before, 0
  br i1 %unlimited, label %end, label %limited
limited:
  %number = trunc i64 %before to i32
  call void @set_num_threads(i32 %number)
  br label %end
end:
  {unlock}
  ret i64 0
}}
"""
_GATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_engines: list[Any] = []  # compiled code lives as long as the process


@functools.cache
def prepare_parallel() -> tuple[Any, ...]:
    """Start Numba's threads, and register the lock that every parallel kernel takes.

    The function with the lock applies `config.set_numba_parallel(num_threads=...)` on XLA's threads. Numba's layer
    'workqueue' ends the process when two threads enter it, and XLA runs independent operators at once: with this layer,
    one kernel runs at a time.
    """
    start_threads()
    limit, serial = ctypes.addressof(config.numba_thread_limit), numba.threading_layer() == "workqueue"
    mutex, *calls = _mutex() if serial else (0, "", "")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_GATES.format(limit=limit, lock=calls[0], unlock=calls[1]))
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(jit=True))
    engine.finalize_object()
    _engines.append(engine)
    enter, leave = (engine.get_function_address(name) for name in ("enter", "leave"))
    llvm.add_symbol(ENTER_PARALLEL, enter)
    llvm.add_symbol(LEAVE_PARALLEL, leave)
    return _GATE(enter), _GATE(leave), mutex


_mutex_memory = ctypes.create_string_buffer(128)


def _mutex() -> tuple[int, str, str]:
    """Return a mutex's address, and LLVM's calls of the functions of the C library that lock and unlock it."""
    libc, mutex = ctypes.CDLL(None), ctypes.addressof(_mutex_memory)
    libc.pthread_mutex_init(ctypes.byref(_mutex_memory), None)
    functions = (libc.pthread_mutex_lock, libc.pthread_mutex_unlock)
    lock, unlock = (ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    call = "call i32 inttoptr (i64 {} to ptr)(ptr inttoptr (i64 {} to ptr))".format
    return mutex, call(lock, mutex), call(unlock, mutex)
