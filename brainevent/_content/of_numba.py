# SPDX-License-Identifier: Apache-2.0
"""Walk what Numba makes of functions: by `jit`, `cfunc`, `vectorize`, `stencil` and classes."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .compiled import is_current, is_unchanged, mark_of, needs_nothing_else
from .extensions import Taught, installed_file
from .named import OpaqueError, is_library
from .outside import reads_outside
from .walking import Walking

__all__ = ["class_parts", "compiled_parts", "dispatcher_parts", "overload_parts", "taught_parts", "type_parts"]

_ADDRESS = re.compile(r"#[0-9a-f]{6,}|0x[0-9a-f]{6,}")


def dispatcher_parts(walk: Walking, dispatcher: Any) -> Iterator[bytes]:
    """Yield the digest of a function that Numba compiles when it is called, and marks of its older code.

    The digest depends only on the function, so that it can be compared with an earlier one.
    """
    yield from _known(walk, dispatcher, _dispatcher, _marks)


def overload_parts(walk: Walking, function: Any, taught: Taught) -> Iterator[bytes]:
    """Yield the digest of what was registered for a function, and marks of overloads that were called before."""
    if found := taught.of(function):

        def walked(walk: Walking, _: Any) -> Iterator[bytes]:
            return (part for extension in found for part in _extension(walk, extension))

        def marks(walk: Walking, function: Any, content: bytes) -> Iterator[bytes]:
            for template in taught.templates(function):
                if not walk.as_written and not is_unchanged(template, content):
                    yield from _mark(walk, template)

        yield from _known(walk, function, walked, marks)


def _known(
    walk: Walking, value: Any, parts: Callable[..., Iterator[bytes]], marks: Callable[..., Any]
) -> Iterator[bytes]:
    """Walk an object once, separately."""
    if id(value) in walk.open:  # it calls itself
        walk.recursive.add(id(value))
        yield b"itself %d" % (len(walk.open) - walk.open[id(value)])
        return
    if id(value) not in walk.known:
        walk.open[id(value)] = len(walk.open)
        content = walk.apart(parts(walk, value))
        del walk.open[id(value)]
        walk.known[id(value)] = value, (content, *marks(walk, value, content))
    yield from walk.known[id(value)][1]


def _dispatcher(walk: Walking, value: Any) -> Iterator[bytes]:
    compiled_by = getattr(value, "_compiler", None)
    compiler = getattr(compiled_by, "pipeline_class", None)
    yield f"dispatcher {getattr(compiler, '__module__', '')} {getattr(compiler, '__qualname__', '')}".encode()
    if isinstance(compiler, type) and not is_library(compiler.__module__):
        yield from walk.parts(compiler)
    options = f"{_described(value.targetoptions)} {_described(getattr(compiled_by, 'locals', {}))}"
    walk.fleeting |= bool(_ADDRESS.search(options))
    signatures = [] if getattr(value, "_can_compile", True) else [str(s) for s in value.nopython_signatures]
    yield f"{options} {signatures}".encode()
    yield from walk.parts(value.py_func)


def _marks(walk: Walking, dispatcher: Any, content: bytes) -> Iterator[bytes]:
    """Yield a mark of each overload that may hold other content, unless none is used."""
    if dispatcher is walk.anew and id(dispatcher) not in walk.recursive:
        return
    for overload in list(getattr(dispatcher, "overloads", {}).values()):
        if not is_current(overload, content, walk.taught(), dispatcher.py_func):
            yield from _mark(walk, overload)


def _mark(walk: Walking, compiled: Any) -> Iterator[bytes]:
    """Yield what distinguishes code from all other, unless it is about what is written, not about what was compiled."""
    if not walk.as_written:
        walk.fleeting = True
        yield mark_of(compiled)


def compiled_parts(walk: Walking, value: Any) -> Iterator[bytes]:
    """Walk what `cfunc`, `vectorize`, `guvectorize` and `stencil` return; nothing else of Numba has content."""
    kind = type(value).__name__
    if kind == "CFunc":
        yield f"cfunc {value._sig}".encode()
        compiler = value._compiler
        yield from walk.parts((_described(compiler.targetoptions), _described(compiler.locals), value._pyfunc))
        if not needs_nothing_else(value._pyfunc):  # it is compiled once, unseen
            yield from _mark(walk, value)
    elif kind == "DUFunc":
        yield f"vectorized {value._frozen} {value.types} {value.identity}".encode()
        yield from walk.parts(value._dispatcher)
    elif kind == "GUFunc":
        builder = value.gufunc_builder
        yield f"vectorized {value.signature} {value._frozen} {builder._sigs} {builder.identity}".encode()
        yield from walk.parts(builder.nb_func)
    elif kind == "StencilFunc":
        function = value.kernel_ir.func_id.func
        yield f"stencil {value.mode}".encode()
        yield from walk.parts((value.options, function))
        if not needs_nothing_else(function):  # globals are looked up once, unseen
            yield from _mark(walk, value)
    else:
        raise OpaqueError(f"an object of type {type(value).__module__}.{kind}")


def type_parts(walk: Walking, value: Any) -> Iterator[bytes]:
    """Yield what a type of Numba's is called: that of an object has its address."""
    walk.fleeting |= bool(_ADDRESS.search(str(value)))
    yield f"type {value}".encode()


def class_parts(walk: Walking, of_numba: Any) -> Iterator[bytes]:
    """Walk what `jitclass` makes of a class."""
    attributes = {name: str(kind) for name, kind in of_numba.struct.items()}
    yield from walk.parts((attributes, of_numba.jit_props, of_numba.jit_methods, of_numba.jit_static_methods))


def taught_parts(walk: Walking, extension: Any) -> Iterator[bytes]:
    """Walk what any kernel may use: that of an installed package is what its file says."""
    module = getattr(extension, "__module__", None)
    installed = installed_file(module) if module else None
    if installed:
        yield f"installed {installed} {getattr(extension, '__qualname__', type(extension).__qualname__)}".encode()
        held = [cell.cell_contents for cell in getattr(extension, "__closure__", None) or ()]
        functions = [x for x in (extension, *vars(extension).values()) if isinstance(x, types.FunctionType)]
        walk.fleeting |= any(map(reads_outside, functions))
        yield from walk.parts((held, getattr(extension, "__defaults__", None)))
    else:
        yield from _extension(walk, extension)


def _extension(walk: Walking, extension: Any) -> Iterator[bytes]:
    """Walk what Numba calls while it compiles."""
    walk.extending += 1
    yield from walk.parts(extension)
    walk.extending -= 1


def _described(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    def described(value: Any) -> str:
        return repr(sorted(value)) if isinstance(value, (set, frozenset)) else repr(value)

    return sorted((key, described(value)) for key, value in options.items())
