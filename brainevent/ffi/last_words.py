# SPDX-License-Identifier: Apache-2.0
"""Errors of kernels, written to stderr when the process is aborted: XLA ends it if devices wait for one without end.

In a program for several devices, a device whose kernel raises does not reach the next collective operation. The others
wait there for 40 seconds; then XLA calls `abort()`, and the kernel's error is not reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import sys
import threading
import time
from typing import Any, TypeVar

from . import frame

__all__ = ["latest", "make_error", "note", "outliving"]

_Thing = TypeVar("_Thing")
_MOST = 8  # errors
_LENGTH = 2000  # of each
_HEAD = "\nbrainevent: before this process was aborted, kernels had raised:\n"
_TAIL = (
    "If XLA aborted because a collective operation was stuck: the device of such a kernel did not reach "
    "it,\nand the others waited. The kernel's error is the cause.\n"
)
# A signal handler: it writes, puts back the handler before it, and lets that one have the signal. XLA aborts in several
# threads at once: the others wait, and put nothing back. Who calls it after that gets the system's handler.
_CODE = """
declare i64 @write(i32, ptr, i64)
declare i32 @sigaction(i32, ptr, ptr)
declare ptr @signal(i32, ptr)
declare i32 @raise(i32)
declare i32 @usleep(i32)
@state = internal global i32 0
define void @last_words(i32 %signal) {{
entry:
  %pair = cmpxchg ptr @state, i32 0, i32 1 seq_cst seq_cst
  %found = extractvalue {{ i32, i1 }} %pair, 0
  switch i32 %found, label %late [ i32 0, label %speak i32 1, label %wait ]
speak:
  %words_at = inttoptr i64 {words} to ptr
  %words = load ptr, ptr %words_at
  %size = load i64, ptr %words
  %text = getelementptr i64, ptr %words, i64 1
  %written = call i64 @write(i32 2, ptr %text, i64 %size)
  %before = inttoptr i64 {before} to ptr
  %restored = call i32 @sigaction(i32 %signal, ptr %before, ptr null)
  store atomic i32 2, ptr @state seq_cst, align 4
  br label %leave
wait:
  %state = load atomic i32, ptr @state seq_cst, align 4
  %spoken = icmp eq i32 %state, 2
  br i1 %spoken, label %leave, label %sleep
sleep:
  %slept = call i32 @usleep(i32 1000)
  br label %wait
late:
  %defaulted = call ptr @signal(i32 %signal, ptr null)
  br label %leave
leave:
  %raised = call i32 @raise(i32 %signal)
  ret void
}}
"""
_said: dict[str, str] = {}  # the time of day of each error, the latest last
_words = ctypes.c_void_p()  # the address of what is to be written: its size, then its bytes
_held: list[Any] = []  # what is to be written, and what was before it
_lock = threading.Lock()


def make_error(call_frame: int, message: str, code: int = frame.INTERNAL) -> int:
    """Make an XLA error of what a kernel raised, and note it."""
    with contextlib.suppress(Exception):  # losing a note is better than losing an error
        note(message)
    return frame.make_error(call_frame, message, code)


def latest() -> str:
    """Return the error that was noted last."""
    with _lock:
        return next(reversed(_said), "a kernel in C++ raised an error")


def note(message: str) -> None:
    """Have an error written if the process is aborted."""
    with _lock:
        _said.pop(message, None)
        _said[message] = time.strftime("%H:%M:%S")
        for oldest in list(_said)[:-_MOST]:
            del _said[oldest]
        lines = "".join(f"  {at} {text[:_LENGTH]}\n" for text, at in _said.items())
        text = f"{_HEAD}{lines}{_TAIL}".encode(errors="replace")
        memory = outliving(ctypes.create_string_buffer(len(text).to_bytes(8, sys.byteorder) + text))
        _words.value = ctypes.addressof(memory)
        _install()
        _held.append(memory)
        for old in _held[:-2]:  # that before it may be being written
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))
        _held[:] = _held[-2:]


def outliving(thing: _Thing) -> _Thing:
    """Keep an object alive after Python's end: XLA's threads may abort the process later."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


@functools.cache
def _install() -> tuple[Any, ...]:
    """Handle the signal of `abort()` before its current handler."""
    import llvmlite.binding as llvm

    libc = ctypes.CDLL(None)
    before = ctypes.create_string_buffer(1024)  # a struct sigaction, which is shorter
    libc.sigaction(signal.SIGABRT, None, before)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _CODE.format(words=ctypes.addressof(_words), before=ctypes.addressof(before))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    libc.signal(signal.SIGABRT, engine.get_function_address("last_words"))
    return tuple(map(outliving, (engine, before, _words)))
