# SPDX-License-Identifier: Apache-2.0
"""Name a function by what it computes: the same in every process, another when any part of it changes."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

__all__ = ["content_name"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)
_NAMED = (type, types.BuiltinFunctionType, np.ufunc)
_LIBRARIES = {
    "brainevent",
    "jax",
    "jax_triton",
    "jaxlib",
    "llvmlite",
    "ml_dtypes",
    "numba",
    "numpy",
    "scipy",
    "triton",
    *sys.stdlib_module_names,
}
# What kernels, configurations and constants of Triton are made of.
_OF_TRITON = (
    "fn", "configs", "keys", "values", "kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "value", "name",
)  # fmt: skip


# What kernels are made with, which is no part of what they compute: it is what its version says.
_MACHINERY = ("brainevent.backends.", "brainevent.ffi.", "brainevent.operator.", "brainevent.toolchain.")


class _OpaqueError(Exception):
    """The function captures something that has no content."""


def content_name(*values: Any) -> str:
    """Return 32 hex digits from bytecode, constants, closures, globals and helpers; random if something is opaque."""
    digest = hashlib.sha256()
    try:
        for part in _parts((sys.version_info[:2], jax.__version__, values), []):
            digest.update(len(part).to_bytes(8, "little") + part)
    except _OpaqueError:
        return uuid.uuid4().hex
    return digest.hexdigest()[:32]


def _parts(value: Any, seen: list[Any]) -> Iterator[bytes]:
    """Walk a value's content."""
    for index, known in enumerate(seen):
        if known is value:
            yield b"seen %d" % index
            return
    if isinstance(value, _PLAIN):
        yield f"{type(value).__qualname__} {value!r}".encode()
    elif isinstance(value, (tuple, list, frozenset, set, dict)):
        yield from _container(value, seen)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, types.FunctionType):
        seen.append(value)
        machinery = str(value.__module__).startswith(_MACHINERY) and value.__closure__ is None
        yield from _named(value) if machinery else _function(value, seen)
    elif isinstance(value, types.CodeType):
        yield from _code(value, seen)
    elif isinstance(value, types.ModuleType):
        yield from _module(value, (), seen)
    else:
        yield from _object(value, seen)


def _object(value: Any, seen: list[Any]) -> Iterator[bytes]:
    module = str(getattr(value, "__module__", None) or type(value).__module__)
    if isinstance(value, functools.partial):
        yield b"partial"
        yield from _parts((value.func, value.args, value.keywords), seen)
    elif hasattr(type(value), "content_hash"):  # a compiled library of ours, or a function of one
        yield f"compiled {value.content_hash}".encode()
    elif isinstance(value, types.MethodType):
        yield b"method"
        yield from _parts((value.__func__, value.__self__), seen)
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):  # a Numba dispatcher
        seen.append(value)
        signatures = [] if getattr(value, "_can_compile", True) else [str(s) for s in value.nopython_signatures]
        yield b"dispatcher"
        yield from _parts((_options(value), signatures, value.py_func), seen)
    elif isinstance(value, _NAMED) or (module.startswith("jax.") and hasattr(value, "__qualname__")):
        yield f"name {module} {getattr(value, '__qualname__', value)}".encode()
    elif type(value).__module__.startswith("numba.core.types"):
        yield f"type {value}".encode()
    elif type(value).__module__.startswith("triton.") and any(hasattr(value, part) for part in _OF_TRITON):
        seen.append(value)
        yield type(value).__qualname__.encode()
        yield from _parts({part: getattr(value, part) for part in _OF_TRITON if hasattr(value, part)}, seen)
    elif hasattr(value, "__wrapped__"):  # a function under jax.jit, functools.wraps and the like
        seen.append(value)
        yield type(value).__qualname__.encode()
        yield from _parts(value.__wrapped__, seen)
    else:
        raise _OpaqueError


def _container(value: Any, seen: list[Any]) -> Iterator[bytes]:
    kind = type(value)
    yield f"{kind.__module__} {kind.__qualname__} {getattr(kind, '_fields', '')} {len(value)}".encode()
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield from _parts((key, value[key]), seen)
    else:
        for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
            yield from _parts(item, seen)


def _named(function: types.FunctionType) -> Iterator[bytes]:
    version = getattr(sys.modules.get("brainevent"), "__version__", "")
    yield f"function {function.__module__} {function.__qualname__} {version}".encode()


def _options(kernel: Any) -> list[tuple[str, str]]:
    def described(value: Any) -> str:
        return repr(sorted(value)) if isinstance(value, (set, frozenset)) else repr(value)

    return sorted((key, described(value)) for key, value in kernel.targetoptions.items())


def _function(function: types.FunctionType, seen: list[Any]) -> Iterator[bytes]:
    yield b"function"
    yield from _code(function.__code__, seen)
    yield from _parts((function.__defaults__, function.__kwdefaults__), seen)
    names = _names(function.__code__)
    for cell in function.__closure__ or ():
        try:
            yield from _looked_up(cell.cell_contents, names, seen)
        except ValueError:  # an empty cell
            yield b"empty"
    for name in names:
        yield name.encode()
        if name in function.__globals__:
            yield from _looked_up(function.__globals__[name], names, seen)


def _looked_up(value: Any, names: list[str], seen: list[Any]) -> Iterator[bytes]:
    return _module(value, names, seen) if isinstance(value, types.ModuleType) else _parts(value, seen)


def _module(module: types.ModuleType, names: Iterable[str], seen: list[Any]) -> Iterator[bytes]:
    """Walk what code that uses these names may read of a module; a library is what its version says."""
    library = module.__name__.partition(".")[0]
    yield f"module {module.__name__} {getattr(sys.modules.get(library), '__version__', '')}".encode()
    if library not in _LIBRARIES:
        for name in names:
            if hasattr(module, name):
                yield name.encode()
                yield from _looked_up(getattr(module, name), list(names), seen)


def _code(code: types.CodeType, seen: list[Any]) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)).encode()
    yield from _parts(code.co_consts, seen)


def _names(code: types.CodeType) -> list[str]:
    """Return every name that the code, or code within it, may look up as a global or an attribute."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return list(dict.fromkeys(names))
