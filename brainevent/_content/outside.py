# SPDX-License-Identifier: Apache-2.0
"""Find whether code that runs while Numba compiles can read more than its content: the environment, a file, the time.

An overload may be generated from such a value, and a later process would load a kernel with the old one.
"""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from .named import codes, is_library

__all__ = ["reads_outside"]

# Modules whose functions depend on their arguments alone, but for those that are named below.
_CLOSED = {
    "abc", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum", "fractions", "functools",
    "inspect", "itertools", "jax", "llvmlite", "math", "ml_dtypes", "numba", "numbers", "numpy", "operator", "re",
    "scipy", "string", "struct", "textwrap", "types", "typing", "typing_extensions", "warnings",
}  # fmt: skip
_READING = {
    "default_rng", "environ", "fromfile", "fromregex", "genfromtxt", "getenv", "getsource", "getsourcelines", "load",
    "loadtxt", "memmap", "open_memmap", "random",
}  # fmt: skip
_WALKED = ("brainevent.network.", "brainevent.scalar.")  # whose functions are walked as those of users are
_BUILTIN = {"__import__", "breakpoint", "dir", "eval", "exec", "globals", "hash", "id", "input", "locals", "open"}


def reads_outside(function: types.FunctionType) -> bool:
    """Return whether a function, or one within it, names something whose answer may change between processes."""
    held = (*_cells(function), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(map(_is_outside, held)) or any(_reads(code, function.__globals__) for code in codes(function.__code__))


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _reads(code: types.CodeType, known: Mapping[str, Any]) -> bool:
    for step in dis.get_instructions(code):
        name = str(step.argval)
        if step.opname == "IMPORT_NAME":
            if is_library(name) and not _is_closed(name):
                return True
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if name in known:
                if _is_outside(known[name]):
                    return True
            elif name in _BUILTIN:
                return True
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and name in _READING:
            return True
    return False


def _is_outside(value: Any) -> bool:
    """Return whether a value is a module, a function or a class of a library that may read something else."""
    if isinstance(value, types.ModuleType):
        return is_library(value.__name__) and not _is_closed(value.__name__)
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return False
    name, module = value.__name__, str(value.__module__)
    if getattr(builtins, name, None) is value:
        return name in _BUILTIN
    if isinstance(value, types.FunctionType) and module.startswith(_WALKED):
        return False
    return is_library(module) and (name in _READING or not _is_closed(module))


def _is_closed(module: str) -> bool:
    return module.partition(".")[0] in _CLOSED
