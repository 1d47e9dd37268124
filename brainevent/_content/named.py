# SPDX-License-Identifier: Apache-2.0
"""The names and imports in code; modules and classes of libraries, which a version identifies."""

from __future__ import annotations

import contextlib
import contextvars
import dis
import functools
import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import struct
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

__all__ = [
    "KINDS",
    "PLAIN",
    "OpaqueError",
    "add_libraries",
    "bytes_of",
    "codes",
    "digest_of",
    "imported",
    "importing_nothing",
    "is_found",
    "is_library",
    "is_passed_on",
    "names_in",
    "reads_computed_names",
]

PLAIN = {bool: b"bool ", int: b"int ", str: b"str ", bytes: b"bytes ", type(None): b"NoneType "}  # written by repr
KINDS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), np.generic, np.dtype)
_may_import: contextvars.ContextVar[bool] = contextvars.ContextVar("may_import", default=True)
_LIBRARIES = {"brainevent", "jax", "jaxlib", "ml_dtypes", "numpy", "scipy", *sys.stdlib_module_names}
_of_languages: set[str] = set()  # libraries of kernel languages
_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_IMPORTS = dis.opmap["IMPORT_NAME"]
_KNOWN = 4_096  # functions whose code was read


class OpaqueError(Exception):
    """The function captures an object without content; the text describes it."""


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return a hash of parts, each of which is delimited."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part))
        digest.update(part)
    return digest.digest()


def bytes_of(value: Any) -> bytes:
    """Return the type and the bits of a plain value, or of what of it is plain: its class may be a user's.

    >>> bytes_of(0.0) == bytes_of(-0.0)
    False
    """
    if word := PLAIN.get(type(value)):
        return word + repr(value).encode(errors="surrogatepass")
    kind = type(value).__qualname__.encode() + b" "
    if isinstance(value, np.generic):
        return kind + str(value.dtype).encode() + value.tobytes()
    if isinstance(value, complex):
        return kind + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, float):
        return kind + struct.pack("<d", value)
    base: Any = next((base for base in KINDS[:6] if isinstance(value, base)), type(value))
    return kind + base.__repr__(value).encode(errors="surrogatepass")


def add_libraries(names: Iterable[str]) -> None:
    """Let the versions of these modules identify them, if they have one when a function of them is named."""
    _of_languages.update(names)


def is_library(module: str) -> bool:
    """Return whether a module's version identifies it; a user's module can have the name of one of Python's."""
    name = module.partition(".")[0]
    if name in _of_languages:
        return hasattr(sys.modules.get(name), "__version__")
    if name not in _LIBRARIES:
        return False
    return name not in sys.stdlib_module_names or name not in sys.modules or _is_standard(sys.modules[name])


def _is_standard(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:  # built into Python, or made by hand
        return getattr(module, "__spec__", None) is not None or module.__name__ == "__main__"
    return file.startswith(_STANDARD) and not file.startswith(_SITE)


def is_found(value: type) -> bool:
    """Return whether a class is the one that its module has under its name: any class can name a module."""
    if value.__module__.partition(".")[0] not in sys.stdlib_module_names:
        return True
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def imported(function: types.FunctionType) -> Iterator[types.ModuleType]:
    """Yield the modules of users that a function imports when it is called; one that is not there is not."""
    package = function.__globals__.get("__package__") or ""
    for code in codes(function.__code__):
        if _IMPORTS in code.co_code[::2]:
            steps = list(dis.get_instructions(code))
            for number, step in enumerate(steps):
                if step.opname == "IMPORT_NAME":
                    levels = [before.argval for before in steps[:number] if before.opname == "LOAD_CONST"][-2:-1]
                    name = "." * (levels[0] if levels and isinstance(levels[0], int) else 0) + str(step.argval)
                    yield from _module_named(name, package)


@contextlib.contextmanager
def importing_nothing() -> Iterator[None]:
    """Import nothing in order to read it: another thread may be importing it, and wait for a lock of this thread."""
    before = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(before)


def _module_named(name: str, package: str) -> Iterator[types.ModuleType]:
    try:
        name = importlib.util.resolve_name(name, package)
        if not is_library(name):
            if name not in sys.modules and not _may_import.get():
                raise OpaqueError(f"an import of {name}, which is not loaded yet")
            yield importlib.import_module(name)
    except ImportError:
        return


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code, and all code within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def names_in(code: types.CodeType) -> list[str]:
    """Return every name that the code, or code within it, may look up as a global or an attribute."""
    names = list(code.co_names)
    if "getattr" in names:
        names += [constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier()]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += names_in(constant)
    return list(dict.fromkeys(names))


def is_passed_on(code: types.CodeType, name: str) -> bool:
    """Return whether code, or code within it, does more with a name than read attributes that it names."""
    return name in _passed_on(code)


@functools.lru_cache(_KNOWN)  # a function is read again for each of those that call it
def _passed_on(code: types.CodeType) -> frozenset[str]:
    found = set[str]()
    for each in codes(code):
        for step, then in itertools.pairwise(_steps(each)):
            if _kind(step) == "L" and then.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                # from Python 3.13 on, of two
                found.update(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    return frozenset(found)


_BY_STRINGS = {"attrgetter", "methodcaller", "vars"}  # functions that read attributes
_BY_CONSTANT = re.compile("N?[CL]A*C([CL]A*)?F")  # after `getattr`: an object, a constant, perhaps a default


def reads_computed_names(code: types.CodeType) -> bool:
    """Return whether code, or code within it, reads attributes by strings that are not constants in it."""
    for each in codes(code):
        if not _BY_STRINGS.isdisjoint(each.co_names):
            return True
        if "getattr" in each.co_names:
            steps = _steps(each)
            kinds = "".join(map(_kind, steps))
            places = (k for k, step in enumerate(steps, 1) if step.argval == "getattr")
            if not all(_BY_CONSTANT.match(kinds, k) for k in places):
                return True
    return False


def _steps(code: types.CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL")]


def _kind(step: dis.Instruction) -> str:
    """Return a letter: Constant, Attribute, other Load, Null, Function call, or Z."""
    name = step.opname
    if name in ("LOAD_CONST", "PUSH_NULL", "CALL"):
        return {"LOAD_CONST": "C", "PUSH_NULL": "N", "CALL": "F"}[name]
    if name.startswith("LOAD"):
        return "A" if name.endswith(("ATTR", "METHOD")) else "Z" if name == "LOAD_CLOSURE" else "L"
    return "Z"
