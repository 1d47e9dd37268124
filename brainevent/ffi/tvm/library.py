# SPDX-License-Identifier: Apache-2.0
"""Libraries with functions of TVM FFI, and functions of this process: what they contain, and their addresses."""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import os
import re
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import KernelArgumentError, did_you_mean

__all__ = ["INSTALL", "Source", "callable_of", "ffi", "found", "kept", "runtime_address"]

INSTALL = "pip install apache-tvm-ffi"

_FUNCTION = re.compile(rb"\0__tvm_ffi_([A-Za-z]\w*)(?=\0)")
_CELL = 24  # bytes of the header of an object; a function's own begin with the address to call
# Libraries that must be loaded before: the module and its function that returns their paths, and how to install them.
_RUNTIMES = {"cute": ("cutlass.cute.export.aot_config", "get_lib_paths", "pip install 'nvidia-cutlass-dsl[cu13]'")}
_process, _numbers = uuid.uuid4().hex, itertools.count()
_here: dict[str, Any] = {}  # functions of this process by token; they live as long as the process
_tokens: dict[int, str] = {}  # of functions by the addresses of their objects


@dataclass(frozen=True)
class Source:
    """A function of a library, or, under a token, of this process."""

    name: str
    library: bytes = field(default=b"", repr=False)
    token: str = ""
    runtime: str = ""  # what the library needs besides TVM FFI: a key of `_RUNTIMES`


def found(where: str, function: object, name: str | None) -> Source:
    """Return the function that a user means: an object of `tvm_ffi`, or the path of a library and a name."""
    if isinstance(function, (str, os.PathLike)):
        return _of_library(where, Path(function), name)
    if not hasattr(function, "__chandle__") or not callable(function):
        raise KernelArgumentError(
            f"{where}: function is {type(function).__name__}; pass the path of a library, or a tvm_ffi.Function"
        )
    return kept(function, name or "function")


def kept(function: Any, name: str) -> Source:
    """Return a function of this process, which lives as long as the process."""
    address = _address(function)
    if address not in _tokens:
        _tokens[address] = f"{_process} {next(_numbers)}"
        _here[_tokens[address]] = function
    return Source(name, token=_tokens[address])


def _address(function: Any) -> int:
    """Return the address of a function's object."""
    handle = function.__chandle__
    return int(handle() if callable(handle) else handle)


def _of_library(where: str, path: Path, name: str | None) -> Source:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KernelArgumentError(f"{where}: the library {str(path)!r} cannot be read: {error.strerror}") from None
    names = sorted({match.decode() for match in _FUNCTION.findall(content)})
    if name is None and len(names) == 1:
        return Source(names[0], content)
    if name is None or name not in names:
        listed = ", ".join(names) or "none (export with TVM_FFI_DLL_EXPORT_TYPED_FUNC)"
        what = "has several functions; pass name=" if name is None and names else f"has no function {name!r}"
        meant = did_you_mean(name, names) if name else ""
        raise KernelArgumentError(f"{where}: the library {str(path)!r} {what}{meant}; there are: {listed}")
    return Source(name, content)


def ffi() -> Any:
    """Import TVM FFI, whose runtime every such library needs."""
    try:
        import tvm_ffi
    except ImportError as error:
        raise RuntimeError(
            f"a kernel of TVM FFI needs the package 'apache-tvm-ffi' ({error}); run: {INSTALL}"
        ) from error
    return tvm_ffi


@functools.cache
def _runtime() -> ctypes.CDLL:
    """Return TVM FFI's library, as it is loaded in this process."""
    return ctypes.CDLL(ffi().libinfo.find_libtvm_ffi())


def runtime_address(symbol: str) -> int:
    """Return the address of a function of TVM FFI."""
    return ctypes.cast(getattr(_runtime(), symbol), ctypes.c_void_p).value or 0


def callable_of(source: Source) -> tuple[int, int]:
    """Return the address to call, and its first argument."""
    if source.token:
        if source.token not in _here:
            raise RuntimeError(f"the function {source.name!r} belongs to another process; pass the path of a library")
        function = _here[source.token]
    else:
        function = _loaded(source.library, source.runtime).get_function(source.name, query_imports=True)
        _here[f"{_process} {next(_numbers)}"] = function
    address = _address(function)
    return ctypes.c_int64.from_address(address + _CELL).value, address


@functools.cache
def _loaded(library: bytes, runtime: str) -> Any:
    """Load a copy of a library: the file itself may change, and the system's loader would not notice."""
    if runtime:
        _load_runtime(*_RUNTIMES[runtime])
    with tempfile.TemporaryDirectory(prefix="brainevent-") as folder:
        path = Path(folder, "library.so")
        path.write_bytes(library)
        return ffi().load_module(str(path))


def _load_runtime(module: str, function: str, install: str) -> None:
    """Load the libraries whose functions a library calls."""
    ffi()
    try:
        paths = getattr(importlib.import_module(module), function)(enable_tvm_ffi=True)
    except ImportError as error:
        raise RuntimeError(f"a kernel of this program needs a package ({error}); run: {install}") from error
    for path in paths:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
