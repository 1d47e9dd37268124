# SPDX-License-Identifier: Apache-2.0
"""Load shared libraries from open files: code stays loaded, and everything else is freed with its users."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import threading
import weakref
from typing import Any

from ...errors import KernelLoadError
from ...ffi import last_words
from ...ffi.callbacks import native_address

__all__ = ["Library", "load_library", "load_library_file"]

_CELL = "BE_REPORT"  # the variable of a library with the address of the report function
_lock = threading.RLock()  # loading a library may run code
_numbers = itertools.count()
_Identity = tuple[int, int, int, int]
_handles: dict[_Identity, ctypes.CDLL] = {}  # a loaded library stays, so its file's number is not reused
_libraries: weakref.WeakValueDictionary[_Identity, Library] = weakref.WeakValueDictionary()


class Library:
    """A loaded library, and its file's content, which is mapped as long as this object lives."""

    def __init__(self, handle: ctypes.CDLL, descriptor: int):
        self.handle = handle
        self._size = os.fstat(descriptor).st_size
        self._address = _map(descriptor, self._size)
        weakref.finalize(self, _unmap, self._address, self._size).atexit = False

    def read_bytes(self) -> bytes:
        """Return the file's content, even if the file was removed."""
        return ctypes.string_at(self._address, self._size)


def load_library_file(path: str) -> Library:
    """Load a library by its path."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise KernelLoadError(
            f"the library {path} was removed before it was loaded (was the cache cleared?); load the source again"
        ) from error
    except OSError as error:
        raise KernelLoadError(f"cannot load the library {path}: {error.strerror}; make it readable") from error
    try:
        return load_library(path, descriptor)
    finally:
        os.close(descriptor)


def load_library(path: str, descriptor: int, advice: str = "build it again with force_rebuild=True") -> Library:
    """Load a library from its open file, even if its path has changed; the caller may close the file.

    `advice` says what a user should do about a file that is not a library.
    """
    status = os.fstat(descriptor)
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    with _lock:
        library = _libraries.get(identity)
        if library is None:
            if identity not in _handles:
                _handles[identity] = _loaded(path, descriptor, advice)
            library = _libraries[identity] = Library(_handles[identity], descriptor)
    return library


def _loaded(path: str, descriptor: int, hint: str) -> ctypes.CDLL:
    name = _unused_name(descriptor)
    if not os.path.exists(name):  # no /proc here
        name = path
    try:
        handle = _reporting(ctypes.CDLL(name))
        _show_path(handle, name, path)
        return handle
    except OSError as error:
        reason = str(error).replace(name, path)
        if "cannot open shared object" in reason:
            hint = "a library that it needs is not found: add its folder with extra_ldflags=['-Wl,-rpath,FOLDER']"
        elif "undefined symbol" in reason:
            hint = "a function that it calls is not defined: name its library in extra_ldflags=['-lNAME']"
        raise KernelLoadError(f"cannot load the library {path}: {reason}; {hint}") from error


def _unused_name(descriptor: int) -> str:
    """Return a path of an open file that was not used to load a library before.

    The loader treats equal paths as the same library without reading the file, and numbers of descriptors are reused.
    """
    spelling = f"{next(_numbers):b}".replace("0", "./").replace("1", ".//")
    return f"/proc/self/fd/{spelling}{descriptor}"


class _LinkMap(ctypes.Structure):
    """The beginning of the loader's record of a library, which its handle points to: link_map of <link.h>."""

    _fields_ = [("l_addr", ctypes.c_void_p), ("l_name", ctypes.c_void_p)]


def _show_path(handle: ctypes.CDLL, name: str, path: str) -> None:
    """Show a library's path to debuggers and sanitizers: the name by which it was loaded becomes invalid."""
    record = ctypes.cast(handle._handle, ctypes.POINTER(_LinkMap)).contents
    if record.l_name and ctypes.string_at(record.l_name) == os.fsencode(name):
        record.l_name = _libc.strdup(os.fsencode(path))  # the loader may free it, like the old one


_libc = ctypes.CDLL(None, use_errno=True)
_libc.strdup.restype = ctypes.c_void_p
_libc.strdup.argtypes = [ctypes.c_char_p]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _map(descriptor: int, size: int) -> Any:
    """Map a file; Python's own `mmap` would keep its descriptor."""
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"mmap: {os.strerror(ctypes.get_errno())}")
    return address


def _unmap(address: Any, size: int) -> None:
    _libc.munmap(address, size)


def _reporting(library: ctypes.CDLL) -> ctypes.CDLL:
    """Make a loaded library report its errors."""
    with contextlib.suppress(ValueError):  # it was not built by this package, and has no such variable
        ctypes.c_void_p.in_dll(library, _CELL).value = _report_address()
    return library


@functools.cache
def _report_address() -> int:
    return native_address(_report, lambda error: f"an entry point failed: {error!r}", words=3)


def _report(call_frame: int, text: int, code: int) -> int:
    """Make an XLA error from an exception of an entry point."""
    message = ctypes.string_at(text).decode(errors="replace")
    return last_words.make_error(call_frame, message, ctypes.c_int32(code).value)
