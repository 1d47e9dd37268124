# SPDX-License-Identifier: Apache-2.0
"""Numba functions as native code without XLA, kept by content: of words, and of arrays and numbers (`Loop`)."""

from __future__ import annotations

import ast
import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types

from ..._content import Content
from . import floats, memory
from .inner import inner
from .internals import Dispatcher, compile_function, compiling, linked, optimized, target_context
from .kept import address_of

__all__ = ["FAILED", "Loop", "compile_native", "files_of", "hash_of", "loop_of", "native_address"]

_PREFIX = "brainevent_native_"
_I64 = ir.IntType(64)
FAILED = -(2**63)  # what a function returns that cannot allocate memory
_addresses: dict[str, int] = {}  # by name; code lives as long as the process
_lock = threading.Lock()
_parsing = threading.Lock()  # Python 3.11 raises a SystemError where two threads make syntax trees at the same time

_BITS = {np.float32: np.uint32, np.uint64: np.int64}  # numbers that a word holds as these
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def hash_of(files: Iterable[Path]) -> str:
    """Return the hash of the files on which compiled code depends."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def native_address(
    title: str, source: str, words: int, make: Callable[[], Dispatcher], *, flushes: bool = False
) -> int:
    """Return the address of `int64 function(int64, ...)` with this number of words, compiled once and cached.

    `source` contains everything on which the code of `make` depends, which is called if the cache has none. The
    function must not raise; if memory that it allocates is missing, it returns `FAILED`. `flushes` says that denormals
    are flushed while it runs.
    """
    digest = hashlib.sha256(f"{title} {words} {source}".encode()).hexdigest()[:32]
    name = _PREFIX + digest
    with _lock:
        if name not in _addresses:
            content = Content(digest, "", None)
            _addresses[name] = address_of(name, title, content, lambda: compile_native(make(), words, name, flushes))
        return _addresses[name]


def compile_native(kernel: Dispatcher, words: int, name: str, flushes: bool = False) -> llvm.ModuleRef:
    """Return an optimized module that holds a function of words under `name`, and all that it calls."""
    with compiling():
        compiled = compile_function(kernel, (types.int64,) * words)

        def define(module: ir.Module) -> None:
            function = ir.Function(module, ir.FunctionType(_I64, [_I64] * words), name)
            builder = ir.IRBuilder(function.append_basic_block("entry"))
            before = floats.flushing(builder) if flushes else None
            status, result = target_context.call_internal_no_propagate(
                builder, compiled.fndesc, compiled.signature, function.args
            )
            if flushes:
                floats.restoring(builder, before)
            builder.ret(builder.select(status.is_error, _I64(FAILED), result))

        return optimized(name, define, linked(compiled))


def loop_of(path: str) -> Callable[[Callable[..., Any]], Loop]:
    """Return a decorator that makes loops of functions in this file; what they do, it and its imports decide."""
    file = Path(path)
    sources = functools.cache(lambda: hash_of(files_of(file)))

    def decorated(function: Callable[..., Any]) -> Loop:
        return Loop(f"{file.parent.name}_{function.__name__}", lambda: inner(function, error_model="numpy"), sources)

    return decorated


def files_of(file: Path) -> list[Path]:
    """Return a file and those of its room that it imports, directly or not; caches look at `backends/numba` itself."""
    package = Path(__file__).parents[2]
    room = package / file.relative_to(package).parts[0]
    found, ahead = {file}, [file]
    while ahead:
        new = set(_imported(ahead.pop(), room)) - found
        found |= new
        ahead += new
    return sorted(found)


def _imported(file: Path, room: Path) -> Iterator[Path]:
    with _parsing:
        tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for path in (folder, *(folder / alias.name for alias in node.names)):
                for known in (path.with_suffix(".py"), path / "__init__.py"):
                    if room in known.parents and known.is_file():
                        yield known


@dataclass(eq=False)
class Loop:
    """A function that `make` returns, decorated with `inner`, which must not raise.

    It takes contiguous arrays, integers, NumPy's numbers and named tuples of these, and returns an integer or None. It
    runs without Python's lock, and with denormals flushed. `sources` returns the hash of all that its code depends on:
    `make` is called only if no earlier process has compiled the function for these types.

    >>> @inner
    ... def largest(numbers):
    ...     found = numbers[0]
    ...     for number in numbers:
    ...         found = max(found, number)
    ...     return found
    >>> Loop("largest", lambda: largest, lambda: "of an example")(np.array([3, 7, 2]))
    7
    """

    title: str
    make: Callable[[], Any]
    sources: Callable[[], str]
    _functions: dict[Any, Any] = field(default_factory=dict)  # by the types of arguments

    def __call__(self, *arguments: Any) -> int:
        """Run the loop; arrays of the arguments are read and written in place."""
        given: list[int] = []
        kinds = tuple(_read(argument, given) for argument in arguments)
        function = self._functions.get(kinds)
        if function is None:
            function = self._functions[kinds] = _ENTRY(self._address(kinds))
        table = np.array(given, np.int64)
        result = int(function(table.ctypes.data))
        if result == FAILED:
            raise MemoryError(f"{self.title}: there is not enough memory")
        return result

    def _address(self, kinds: tuple[Any, ...]) -> int:
        text, scope = _text(kinds)

        def make() -> Any:
            names = {**scope, "loop": self.make(), **vars(memory), **vars(floats), "np": np}
            exec(compile(text, f"<{self.title}>", "exec"), names)
            return inner(error_model="numpy")(names["entry"])

        return native_address(self.title, f"{self.sources()} {text}", 1, make, flushes=True)


def _read(argument: Any, given: list[int]) -> Any:
    """Append the words of an argument, and return its type."""
    kind = type(argument)
    if kind is np.ndarray:
        assert argument.flags.c_contiguous
        given += (argument.__array_interface__["data"][0], *argument.shape)
        return argument.dtype.type, argument.ndim
    if isinstance(argument, tuple):
        return kind, *(_read(part, given) for part in argument)
    assert not isinstance(argument, float)  # pass an array of one number
    given.append(int(argument.view(_BITS[kind]) if kind in _BITS else argument))
    return np.int64 if kind is int else kind


def _text(kinds: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    """Return the text of an entry that reads a table and calls the loop; and the named tuples that it makes."""
    scope: dict[str, Any] = {}
    place = iter(range(1 << 30))

    def word() -> str:
        return f"word(table, {next(place)})"

    def of(kind: Any) -> str:
        if isinstance(kind, type):
            if kind is np.float32:
                return f"float_of_bits(np.uint32({word()}))"
            return f"np.{np.dtype(kind).name}({word()})"
        first, *rest = kind
        if issubclass(first, tuple):
            scope[first.__name__] = first
            return f"{first.__name__}({', '.join(of(part) for part in rest)})"
        address, sizes = word(), [word() for _ in range(rest[0])]
        return f"array_at({address}, ({', '.join(sizes)},), np.{np.dtype(first).name})"

    arguments = ", ".join(of(kind) for kind in kinds)
    return f"def entry(table):\n    return as_word(loop({arguments}))\n", scope
