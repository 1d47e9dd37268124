# SPDX-License-Identifier: Apache-2.0
"""Walk everything that determines what a function computes: bytecode, constants, closures, globals, helpers."""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import os
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .extensions import Taught, is_intrinsic
from .named import (
    KINDS,
    PLAIN,
    OpaqueError,
    bytes_of,
    digest_of,
    imported,
    is_found,
    is_library,
    is_passed_on,
    names_in,
    reads_computed_names,
)
from .of_numba import class_parts, compiled_parts, dispatcher_parts, overload_parts, taught_parts, type_parts
from .outside import reads_outside
from .walking import Walking

__all__ = ["Walk"]

_PLAIN = (enum.Enum, *KINDS, slice)
_NAMED = (type, types.BuiltinFunctionType, np.ufunc)
# What kernels, configurations and constants of Triton are made of.
_OF_TRITON = (
    "fn", "configs", "keys", "values", "kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "value", "name",
)  # fmt: skip


# The libraries that make kernels: their version identifies them.
_MACHINERY = ("brainevent.backends.", "brainevent.ffi.", "brainevent.operator.", "brainevent.toolchain.")


# Whose functions classes of users have.
_PYTHONS = ("abc", "dataclasses", "enum", "typing")


# What Python notes of a class; a default of a dataclass is an attribute, too.
_NOTES = {
    "__annotate_func__", "__annotations__", "__annotations_cache__", "__dataclass_fields__", "__dataclass_params__",
    "__dict__", "__doc__", "__firstlineno__", "__module__", "__orig_bases__", "__parameters__",
    "__static_attributes__", "__weakref__",
}  # fmt: skip
# Of a class, what Python makes of other things in it, or what holds what its instances have.
_DESCRIPTORS = (
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, functools.cached_property, type(getattr(Iterable, "_abc_impl", None)),
    type(vars(collections.namedtuple("_Pair", "first"))["first"]),
)  # fmt: skip
_ABSENT = ("_HAS_DEFAULT_FACTORY_CLASS", "_MISSING_TYPE")  # in place of a default
_HIDING = {"eval", "exec", "globals", "__import__"}  # by which a function reads what it does not name
_LARGE = 10**6  # bytes of a global array, from which on Numba does not copy it
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_taught = Taught(is_library)


@dataclass
class _Scope:
    """The state of a joint walk: the index of objects that may recur, and the read parts of modules."""

    seen: dict[int, tuple[int, Any]] = field(default_factory=dict)  # by identity, which the value keeps valid
    modules: set[tuple[int, tuple[str, ...]]] = field(default_factory=set)
    attributes: set[tuple[int, str]] = field(default_factory=set)
    names: tuple[str, ...] = ()  # of the function that is being walked, and those around it
    all_names: dict[str, None] = field(default_factory=dict)  # of all functions
    passed_on: dict[int, types.ModuleType] = field(default_factory=dict)  # modules of users that any function may read
    computes_names: str = ""  # a function that reads attributes by names that the code does not show


class Walk(Walking):
    """One walk over values: yields their content, and notes the place of users' code.

    `anew` is a function that Numba will compile again, even if it was compiled before. With `as_written`, the content
    does not depend on earlier compilations.
    """

    def __init__(self, anew: Any = None, as_written: bool = False) -> None:
        super().__init__(anew, as_written)
        self.places: list[bytes] = []
        self.large: list[np.ndarray] = []  # arrays that Numba holds by address
        self._taught: Any = ...  # it is looked up once
        self._scope = _Scope()

    def all_parts(self, value: Any) -> Iterator[bytes]:
        """Yield a value's content, and that of Numba's extensions if it uses them, or raise `OpaqueError`."""
        yield from self.parts(value)
        yield from self._passed_on()
        if self.known:
            yield self.taught() or b""

    def taught(self) -> bytes | None:
        """Return the digest of extensions that any kernel can use; b"" if there are none, None during that walk."""
        if self._taught is ...:
            walk = Walk(as_written=self.as_written)
            walk.places, walk.large, walk._taught = self.places, self.large, None
            parts = [part for extension in _taught.by_no_name() for part in taught_parts(walk, extension)]
            self._taught = digest_of(parts) if parts else b""
            self.fleeting |= walk.fleeting
        return self._taught

    def _passed_on(self) -> Iterator[bytes]:
        """Yield what functions may read of modules that are passed to them, or held by something."""
        scope, counts = self._scope, (0, 0)
        while scope.passed_on and counts != (counts := (len(scope.all_names), len(scope.passed_on))):
            for module in list(scope.passed_on.values()):
                yield from self._module(module, tuple(scope.all_names))
        if scope.computes_names and scope.modules:
            raise OpaqueError(f"{scope.computes_names}, which may read a module")

    def apart(self, parts: Iterator[bytes]) -> bytes:
        """Return the digest of parts that are walked separately: it does not depend on the context."""
        around, self._scope = self._scope, _Scope()
        try:
            return digest_of(parts)
        finally:
            self._scope = around

    def _see(self, value: Any) -> None:
        self._scope.seen[id(value)] = len(self._scope.seen), value

    def parts(self, value: Any) -> Iterator[bytes]:
        """Yield a value's content, or raise `OpaqueError`."""
        if type(value) in PLAIN:
            yield bytes_of(value)
        elif known := self._scope.seen.get(id(value)):
            yield b"seen %d" % known[0]
        elif isinstance(value, _PLAIN):
            yield from self._plain(value)
        elif isinstance(value, (tuple, list, frozenset, set, dict)):
            yield from self._container(value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
            yield f"array {value.dtype} {value.shape} {order}".encode()
            yield value.tobytes()
            if value.nbytes > _LARGE:
                self.large.append(value)
        elif isinstance(value, types.FunctionType):
            self._see(value)
            yield from self._named(value) if _is_named(value) else self._function(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.ModuleType):
            self._pass_on(value)
            yield from self._module(value, self._scope.names)
        else:
            yield from self._object(value)

    def _plain(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, enum.Enum):
            yield f"member {value.name} {value.value!r}".encode()
            yield from self.parts(type(value))
        elif isinstance(value, slice):
            yield b"slice"
            yield from self.parts((value.start, value.stop, value.step))
        else:
            yield bytes_of(value)
            if not (type(value) in KINDS or isinstance(value, (np.generic, np.dtype))):
                yield from self.parts(type(value))

    def _object(self, value: Any) -> Iterator[bytes]:
        module = str(getattr(value, "__module__", None) or type(value).__module__)
        if hasattr(type(value), "content_parts"):  # what of ours says itself what it is made of, itself perhaps
            self._see(value)
            yield type(value).__qualname__.encode()
            yield from self.parts(value.content_parts)
        elif isinstance(value, functools.partial):
            yield b"partial"
            yield from self.parts((value.func, value.args, value.keywords))
        elif hasattr(type(value), "content_hash"):  # a compiled library of ours, or a function of one
            yield f"compiled {value.content_hash}".encode()
        elif isinstance(value, types.MethodType):
            yield b"method"
            yield from self.parts((value.__func__, value.__self__))
        elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
            yield from dispatcher_parts(self, value)
        elif isinstance(value, type) and not (is_library(module) and is_found(value)):
            yield from self._class(value)
        elif isinstance(value, types.BuiltinFunctionType) and not _is_of_library(value.__self__):
            yield f"method {value.__name__}".encode()
            yield from self.parts(value.__self__)
        else:
            yield from self._of_library(value, module)

    def _of_library(self, value: Any, module: str) -> Iterator[bytes]:
        """Walk objects of libraries, or raise `OpaqueError`."""
        if type(value).__module__ == "dataclasses" and type(value).__name__ in _ABSENT:
            yield type(value).__name__.encode()
        elif isinstance(value, _NAMED) or (module.startswith("jax.") and _has_name(value, module)):
            yield f"name {module} {getattr(value, '__qualname__', value)}".encode()
        elif type(value).__module__.startswith("numba.core.types"):
            yield from type_parts(self, value)
        elif type(value).__module__.startswith("triton.") and any(hasattr(value, part) for part in _OF_TRITON):
            self._see(value)
            yield type(value).__qualname__.encode()
            yield from self.parts({part: getattr(value, part) for part in _OF_TRITON if hasattr(value, part)})
        elif type(value).__module__.startswith("numba.") and not is_intrinsic(value):
            self._see(value)
            yield from compiled_parts(self, value)
        elif hasattr(value, "__wrapped__") and is_library(type(value).__module__):  # under jax.jit, an intrinsic, ours
            self._see(value)
            yield f"{type(value).__qualname__} {getattr(value, 'prefer_literal', '')}".encode()
            yield from self.parts(value.__wrapped__)
            if type(value).__module__.startswith("jax."):  # with a derivative or a batch of its own
                yield from self.parts({name: x for name, x in vars(value).items() if not name.startswith("__")})
        else:
            raise OpaqueError(f"an object of type {type(value).__module__}.{type(value).__qualname__}")

    def _container(self, value: Any) -> Iterator[bytes]:
        kind = type(value)
        yield f"{kind.__module__} {kind.__qualname__} {getattr(kind, '_fields', '')} {len(value)}".encode()
        if kind not in (tuple, list, frozenset, set, dict) and not (is_library(kind.__module__) and is_found(kind)):
            yield from self.parts(kind)
        if hasattr(value, "default_factory"):
            yield from self.parts(value.default_factory)
        if isinstance(value, dict):
            for key in value:
                yield from self.parts((key, value[key]))
        else:
            for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
                yield from self.parts(item)

    def _class(self, value: type) -> Iterator[bytes]:
        """Walk a class of users: a class for Numba, an enumeration, a named tuple, or any other."""
        self._see(value)
        yield f"class {value.__module__} {value.__qualname__} {getattr(value, '_fields', '')}".encode()
        if (of_numba := getattr(value, "class_type", None)) is not None:  # a jitclass
            yield from class_parts(self, of_numba)
            return
        if issubclass(value, enum.Enum):
            for name, member in value.__members__.items():
                yield from self.parts((name, member.value))
        yield from self.parts((type(value), value.__bases__))
        for name in sorted(vars(value).keys() - _NOTES):
            yield from self._class_attribute(name, vars(value)[name])

    def _class_attribute(self, name: str, value: Any) -> Iterator[bytes]:
        """Walk an attribute; those that Python adds are identified by their kind."""
        value = getattr(value, "__func__", value)
        value = (value.fget, value.fset) if isinstance(value, property) else value
        yield name.encode()
        if isinstance(value, _DESCRIPTORS):
            yield str(type(value)).encode()
            yield from self.parts(getattr(value, "func", None))
        else:
            yield from self.parts(value)

    def _function(self, function: types.FunctionType) -> Iterator[bytes]:
        yield b"function"
        self.fleeting |= self.extending > 0 and reads_outside(function)
        yield from self._code(function.__code__)
        yield from self.parts((function.__defaults__, function.__kwdefaults__))
        around, names = self._scope.names, tuple(names_in(function.__code__))
        if hidden := _HIDING.intersection(names) - function.__globals__.keys():
            raise OpaqueError(f"a function that calls {min(hidden)}()")
        self._scope.names = tuple(dict.fromkeys((*around, *names)))
        is_of_users = not is_library(str(function.__module__))
        if is_of_users:
            self._scope.all_names.update(dict.fromkeys(names))
        if is_of_users and reads_computed_names(function.__code__):
            self._scope.computes_names = f"function {function.__qualname__}, which reads attributes by computed names"
        yield from self.parts({name: x for name, x in vars(function).items() if name != "__wrapped__"})
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                if is_passed_on(function.__code__, name):
                    self._pass_on(cell.cell_contents)
                yield from self._looked_up(cell.cell_contents, names)
            except ValueError:  # an empty cell
                yield b"empty"
        for name in names:
            yield name.encode()
            if name in function.__globals__:
                if is_passed_on(function.__code__, name):
                    self._pass_on(function.__globals__[name])
                yield from self._looked_up(function.__globals__[name], names)
            elif not isinstance(known := vars(builtins).get(name), (types.BuiltinFunctionType, type, type(None))):
                yield from self._looked_up(known, names)
        for module in imported(function):
            self._pass_on(module)
            yield b"imports"
            yield from self._module(module, names)
        yield from overload_parts(self, function, _taught)
        self._scope.names = around

    def _named(self, function: types.FunctionType) -> Iterator[bytes]:
        """Yield the name of a function that a version identifies, and its closure."""
        version = getattr(sys.modules.get("brainevent"), "__version__", "")
        yield f"function {function.__module__} {function.__qualname__} {version}".encode()
        for cell in function.__closure__ or ():
            yield from self.parts(cell.cell_contents)

    def _looked_up(self, value: Any, names: Iterable[str]) -> Iterator[bytes]:
        return self._module(value, names) if isinstance(value, types.ModuleType) else self.parts(value)

    def _pass_on(self, value: Any) -> None:
        """Note a module of users that functions may read which do not name it."""
        if isinstance(value, types.ModuleType) and not is_library(value.__name__):
            self._scope.passed_on[id(value)] = value

    def _module(self, module: types.ModuleType, names: Iterable[str]) -> Iterator[bytes]:
        """Walk the parts of a module that code with these names can read; a version identifies a library."""
        library = module.__name__.partition(".")[0]
        yield f"module {module.__name__} {getattr(sys.modules.get(library), '__version__', '')}".encode()
        names = tuple(names)
        if module.__name__ in ("numba", "numba.core.config"):  # settings, which compiled functions may read
            settings = sys.modules.get("numba.core.config")
            yield repr([(name, getattr(settings, name, None)) for name in names if name.isupper()]).encode()
        scope = self._scope
        if is_library(module.__name__) or (id(module), names) in scope.modules:
            return
        scope.modules.add((id(module), names))
        for name in names:
            if (id(module), name) not in scope.attributes and hasattr(module, name):
                yield name.encode()
                value = getattr(module, name)
                self._pass_on(value)
                if not isinstance(value, types.ModuleType):  # what is read of a module depends on the names
                    scope.attributes.add((id(module), name))
                yield from self._looked_up(value, names)

    def _code(self, code: types.CodeType) -> Iterator[bytes]:
        if not code.co_filename.startswith(_PACKAGE):
            place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno} ".encode()
            self.places.append(place + code.co_linetable)
        yield code.co_code
        yield code.co_exceptiontable
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, *counts)).encode()
        yield from self.parts(code.co_consts)


def _is_named(function: types.FunctionType) -> bool:
    """Return whether a version identifies a function: one that makes kernels, or one of Python's own."""
    module = str(function.__module__)
    of_python = module in _PYTHONS and function.__globals__ is getattr(sys.modules.get(module), "__dict__", None)
    return of_python or (module.startswith(_MACHINERY) and function.__closure__ is None)


def _has_name(value: Any, module: str) -> bool:
    """Return whether a name identifies an object of a library: one of `jax.numpy.frompyfunc` is not found by name."""
    name = getattr(value, "__name__", "")
    return hasattr(value, "__qualname__") or getattr(sys.modules.get(module), name, None) is value


def _is_of_library(owner: Any) -> bool:
    """Return whether a builtin function is one of a library, by its name, and not of something that holds values."""
    if owner is None or isinstance(owner, (types.ModuleType, type)):
        return True
    return type(owner).__module__.startswith("numpy.random")  # Numba has its functions, with a state in Numba
