# SPDX-License-Identifier: Apache-2.0
"""Python functions that XLA and kernels call: exceptions become XLA errors, and Ctrl-C is not lost."""

from __future__ import annotations

import ctypes
import string
import threading
from collections.abc import Callable
from typing import Any

from . import frame, last_words

__all__ = ["native_address"]

_WORDS = 4  # the most that native code passes
_SLOTS = 6  # of a module: the package itself needs five, and each takes time to compile
_Python = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (_WORDS + 1), ctypes.c_void_p)

# If Python raises, ctypes returns what its memory held before, and XLA would take that for an error's address. Python
# may raise before a function's first line: when a signal is waiting. So signals are asked for first, unless the kernel
# did that and left what was raised; Python writes its answer down, and as long as there is none it is asked again.
# `room`: whether there is an answer; the answer; the exception that a signal raised, as PyErr_Fetch gives it, and in
# its place the class of the one to raise afterwards.
_CODE = """
define internal i64 @ask(i64 %0, i64 %1, i64 %2, i64 %3, ptr %cell) {
entry:
  %room = alloca [5 x i64]
  %kind = getelementptr i64, ptr %room, i64 2
  %args = alloca [4 x i64]
  store [5 x i64] zeroinitializer, ptr %room
  %state = call i32 $PyGILState_Ensure()
  %waiting = call ptr $PyErr_Occurred()
  %nothing_waits = icmp eq ptr %waiting, null
  br i1 %nothing_waits, label %check, label %take
check:
  %signalled = call i32 $PyErr_CheckSignals()
  %interrupted = icmp ne i32 %signalled, 0
  br i1 %interrupted, label %take, label %begin
take:
  %value = getelementptr i64, ptr %room, i64 3
  %trace = getelementptr i64, ptr %room, i64 4
  call void $PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  br label %begin
begin:
  call void $PyGILState_Release(i32 %state)
  %python = load ptr, ptr %cell
  br label %call
call:
  %attempt = phi i64 [ 0, %begin ], [ %next, %again ]
  call void %python(i64 %0, i64 %1, i64 %2, i64 %3, i64 %attempt, ptr %room)
  %answered = load i64, ptr %room
  %done = icmp ne i64 %answered, 0
  br i1 %done, label %return, label %again
again:
  %next = add i64 %attempt, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %call, label %fail
return:
  %answer_at = getelementptr i64, ptr %room, i64 1
  %answer = load i64, ptr %answer_at
  %raised = load ptr, ptr %kind
  %quiet = icmp eq ptr %raised, null
  br i1 %quiet, label %leave, label %raise
raise:
  %holding = call i32 $PyGILState_Ensure()
  %thread = call i64 $PyThread_get_thread_ident()
  %count = call i32 $PyThreadState_SetAsyncExc(i64 %thread, ptr %raised)
  call void $PyGILState_Release(i32 %holding)
  br label %leave
leave:
  ret i64 %answer
fail:
  %frame = inttoptr i64 %0 to ptr
  %api_at = getelementptr i8, ptr %frame, i64 $api
  %api = load ptr, ptr %api_at
  %create_at = getelementptr i8, ptr %api, i64 $create
  %create = load ptr, ptr %create_at
  store [4 x i64] [i64 $size, i64 0, i64 $text, i64 $code], ptr %args
  %error = call i64 %create(ptr %args)
  ret i64 %error
}
"""
_SLOT = """
define i64 @slot_{n}(i64 %0, i64 %1, i64 %2, i64 %3) {{
  %cell = inttoptr i64 {cell} to ptr
  %answer = call i64 @ask(i64 %0, i64 %1, i64 %2, i64 %3, ptr %cell)
  ret i64 %answer
}}
"""
_TEXT = ctypes.create_string_buffer(b"Python could not be asked: it raised before it began, 16 times")
_OF_PYTHON = (
    *("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Occurred", "PyErr_Fetch"),
    *("PyThread_get_thread_ident", "PyThreadState_SetAsyncExc"),
)
_keep: list[Any] = []  # objects that native code points to live as long as the process
_free: list[tuple[int, Any]] = []  # native functions, each with the cell of its callee
_classes: list[type[BaseException]] = []  # the latest exceptions to raise
_lock = threading.Lock()


def native_address(
    handle: Callable[..., int], describe: Callable[[BaseException], str], *, words: int = 1, code: int = frame.INTERNAL
) -> int:
    """Return the address of a native function that calls `handle` with its words, beginning with a call frame.

    It returns the result of `handle`, an XLA error or 0, and is never freed. An exception becomes an error with the
    text of `describe`. KeyboardInterrupt, and an exception that a signal raised before the call, are raised again once
    XLA has the error.
    """

    def answer(*given: int) -> None:
        memory = (ctypes.c_int64 * 5).from_address(given[-1])
        interrupt = _taken(memory) or (KeyboardInterrupt() if given[-2] else None)  # raised at the first line
        try:
            if interrupt is not None:
                raise interrupt
            memory[1] = handle(*given[:words])
        except KeyboardInterrupt as error:
            interrupt = error
            memory[1] = frame.make_error(given[0], describe(error), code)
        except BaseException as error:  # noqa: BLE001 - native code waits for an answer in any case
            memory[1] = last_words.make_error(given[0], describe(error), code)
        if interrupt is not None:
            memory[2] = id(_class_that_makes(interrupt))
        memory[0] = 1

    function = _Python(answer)
    with _lock:
        if not _free:
            _free.extend(_compiled())
        address, cell = _free.pop()
        cell.value = ctypes.cast(function, ctypes.c_void_p).value
        _keep.extend([function, cell])
    return address


def _compiled() -> list[tuple[int, Any]]:
    """Return native functions without callees, with their cells."""
    import llvmlite.binding as llvm

    cells = [ctypes.c_void_p() for _ in range(_SLOTS)]
    numbers = {
        "api": frame.OFFSETS["XLA_FFI_CallFrame.api"],
        "create": frame.OFFSETS["XLA_FFI_Api.XLA_FFI_Error_Create"],
        "size": frame.SIZES["XLA_FFI_Error_Create_Args"],
        "text": ctypes.addressof(_TEXT),
        "code": frame.INTERNAL,
    }
    functions = {
        name: f"inttoptr (i64 {ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value} to ptr)"
        for name in _OF_PYTHON
    }
    text = string.Template(_CODE).substitute(numbers, **functions)
    text += "".join(_SLOT.format(n=n, cell=ctypes.addressof(cell)) for n, cell in enumerate(cells))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    _keep.append(engine)
    return [(engine.get_function_address(f"slot_{n}"), cell) for n, cell in enumerate(cells)]


def _taken(memory: Any) -> BaseException | None:
    """Return the exception that a signal raised before the call, or None."""
    kind, value, _ = found = [ctypes.cast(word, ctypes.py_object).value if word else None for word in memory[2:]]
    for x in filter(None, found):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(x))
    memory[2:] = [0, 0, 0]
    if kind is None or isinstance(value, BaseException):
        return value
    return kind() if value is None else kind(value)


def _class_that_makes(error: BaseException) -> type[BaseException]:
    """Return a class that native code can raise; the instances that it makes are the exception itself."""
    itself = {"__new__": lambda cls, *args: error}
    again = type(type(error).__name__, (type(error),), itself) if error.args else type(error)
    _classes[:] = [*_classes[-7:], again]
    return again
