# SPDX-License-Identifier: Apache-2.0
"""The pulse of native loops that may run long: every few milliseconds they look for Ctrl-C, and show their progress.

Nothing of Python runs, unless Ctrl-C was pressed: then Python's handler decides whether the loop ends.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import os
import signal
import string
import threading
from pathlib import Path
from typing import Any

from .. import config
from . import frame
from .callbacks import native_address
from .last_words import outliving

__all__ = ["INTERRUPTED", "REPORT", "SYMBOL", "WORDS", "LoopInterruptedError", "addresses", "prepare"]

WORDS = 6  # of a loop's memory
SYMBOL = f"brainevent_loop_pulse_{WORDS}"  # int64 pulse(address of the loop's memory, step, number of steps or 0)
REPORT = "brainevent_loop_report"  # what reports errors of kernels with such loops
INTERRUPTED = "a native loop was interrupted by Ctrl-C"

_SOURCE = Path(__file__).with_suffix(".ll")
_APART = 5_000_000  # nanoseconds from one pulse to the next
_YOUNG = 2_000_000  # of a loop: until then it neither looks for Ctrl-C nor shows anything
_PATIENCE = 300_000_000  # in which JAX, which looks every 200 ms while it waits for a result, notices Ctrl-C
_TEXTS = {
    "LINE": b"%sloop: %lld of %lld steps, %lld %% in %lld.%lld s, about %lld s left%s",
    "LAST_LINE": b"%sloop: %lld steps in %lld.%lld s\n",
    "OVER": b"\r\x1b[K",
    "NEWLINE": b"\n",
    "NOTHING": b"",
    "INTERRUPTED": INTERRUPTED.encode(),
}
_OF_PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyObject_CallObject", "Py_DecRef")
_main = ctypes.c_uint64()  # the thread in which Python handles signals
_ends = ctypes.c_int64()  # whether Python ends
_report = ctypes.c_uint64()  # the function that reports what kernels raise


class LoopInterruptedError(Exception):
    """Ctrl-C was pressed, and the program has no handler of its own that goes on."""


def _note_main() -> None:
    _main.value = threading.get_ident()


def _note_end() -> None:
    _ends.value = 1


def prepare(report: int) -> None:
    """Let compiled code find the pulse by its name, and count how often Ctrl-C is pressed from now on.

    `report` is the address of the function that reports what kernels raise.
    """
    _report.value = report
    addresses()


def _interrupted(call_frame: int) -> int:
    return frame.make_error(call_frame, INTERRUPTED, frame.INTERNAL)


@functools.cache
def addresses() -> tuple[int, int]:
    """Return the addresses of the pulse, and of the function of a call frame that returns the error afterwards."""
    import llvmlite.binding as llvm

    _main.value = threading.main_thread().ident or 0
    os.register_at_fork(after_in_child=_note_main)
    atexit.register(_note_end)  # runs before JAX waits for its programs, as JAX was there first
    texts = {name: ctypes.create_string_buffer(text) for name, text in _TEXTS.items()}
    raised = LoopInterruptedError.__name__.encode()
    texts["RAISED"] = ctypes.create_string_buffer(raised)
    objects = {
        "GETSIGNAL": importlib.import_module("_signal").getsignal,  # that of `signal` is a function of Python
        "ARGUMENTS": (int(signal.SIGINT),),
        "DEFAULT": signal.default_int_handler,
    }
    numbers = {name: ctypes.addressof(text) for name, text in texts.items()}
    numbers |= {name: id(thing) for name, thing in objects.items()}
    cells = {"MAIN": _main, "ENDS": _ends, "SHOWS": config.loop_progress_cell, "REPORT": _report}
    numbers |= {name: ctypes.addressof(cell) for name, cell in cells.items()}
    numbers |= {
        "APART": _APART,
        "YOUNG": _YOUNG,
        "PATIENCE": _PATIENCE,
        "ANSWER": native_address(_interrupted, lambda error: INTERRUPTED),
    }
    numbers |= {
        "RAISED_SIZE": len(raised),
        "API": frame.OFFSETS["XLA_FFI_CallFrame.api"],
        "CREATE": frame.OFFSETS["XLA_FFI_Api.XLA_FFI_Error_Create"],
        "ERROR_SIZE": frame.SIZES["XLA_FFI_Error_Create_Args"],
        "INTERNAL": frame.INTERNAL,
    }
    functions = {name: _function(getattr(ctypes.pythonapi, name)) for name in _OF_PYTHON}
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = string.Template(_SOURCE.read_text()).substitute(numbers, **functions)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    for thing in (engine, texts, objects, cells):  # signals may come after Python's end
        outliving(thing)
    llvm.add_symbol(SYMBOL, engine.get_function_address("pulse"))
    llvm.add_symbol(REPORT, engine.get_function_address("report"))
    ctypes.CFUNCTYPE(None)(engine.get_function_address("watch"))()
    return engine.get_function_address("pulse"), engine.get_function_address("interrupted")


def _function(function: Any) -> str:
    return f"inttoptr (i64 {ctypes.cast(function, ctypes.c_void_p).value} to ptr)"
