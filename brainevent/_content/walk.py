# SPDX-License-Identifier: Apache-2.0
"""Walk all that decides what a function computes: bytecode, constants, closures, globals, helpers, extensions."""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import os
import re
import sys
import types
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .extensions import Taught, installed_file, is_intrinsic
from .named import imported, is_found, is_library, names_in, reads_data
from .plain import KINDS, bytes_of

__all__ = ["OpaqueError", "Walk"]

_NAMED = (type, types.BuiltinFunctionType, np.ufunc)
# What kernels, configurations and constants of Triton are made of.
_OF_TRITON = (
    "fn", "configs", "keys", "values", "kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "value", "name",
)  # fmt: skip


# What kernels are made with, which is no part of what they compute: it is what its version says.
_MACHINERY = ("brainevent.backends.", "brainevent.ffi.", "brainevent.operator.", "brainevent.toolchain.")


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
_HIDING = {"eval", "exec", "globals", "__import__"}  # by which a function reads what it does not name
_ADDRESS = re.compile(r"#[0-9a-f]{6,}|0x[0-9a-f]{6,}")
_LARGE = 10**6  # bytes of a global array, from which on Numba does not copy it
_tokens: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()  # of functions that were compiled before
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class OpaqueError(Exception):
    """The function captures something that has no content: its description."""


_taught = Taught(is_library)


class Walk:
    """One walk over values: yields their content, and notes where code of users stands."""

    def __init__(self) -> None:
        self.places: list[bytes] = []
        self.large: list[np.ndarray] = []  # arrays that Numba holds by address
        self.fleeting = False  # whether the name is one of this process
        self._names: tuple[str, ...] = ()  # of the function that is being walked, and those around it
        self._seen: list[Any] = []
        self._modules: list[tuple[types.ModuleType, tuple[str, ...]]] = []
        self._uses_numba = False

    def parts(self, value: Any) -> Iterator[bytes]:
        """Yield a value's content, or raise `OpaqueError`."""
        for index, known in enumerate(self._seen):
            if known is value:
                yield b"seen %d" % index
                return
        if isinstance(value, (enum.Enum, *KINDS, slice)):
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
            self._seen.append(value)
            machinery = str(value.__module__).startswith(_MACHINERY) and value.__closure__ is None
            yield from _named(value) if machinery else self._function(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.ModuleType):
            yield from self._module(value, self._names)
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
        if isinstance(value, functools.partial):
            yield b"partial"
            yield from self.parts((value.func, value.args, value.keywords))
        elif hasattr(type(value), "content_hash"):  # a compiled library of ours, or a function of one
            yield f"compiled {value.content_hash}".encode()
        elif isinstance(value, types.MethodType):
            yield b"method"
            yield from self.parts((value.__func__, value.__self__))
        elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
            yield from self._dispatcher(value)
        elif isinstance(value, type) and not (is_library(module) and is_found(value)):
            yield from self._class(value)
        elif isinstance(value, types.BuiltinFunctionType) and not _is_of_library(value.__self__):
            yield f"method {value.__name__}".encode()
            yield from self.parts(value.__self__)
        elif isinstance(value, _NAMED) or (module.startswith("jax.") and hasattr(value, "__qualname__")):
            yield f"name {module} {getattr(value, '__qualname__', value)}".encode()
        elif type(value).__module__.startswith("numba.core.types"):
            self.fleeting |= bool(_ADDRESS.search(str(value)))
            yield f"type {value}".encode()
        elif type(value).__module__.startswith("triton.") and any(hasattr(value, part) for part in _OF_TRITON):
            self._seen.append(value)
            yield type(value).__qualname__.encode()
            yield from self.parts({part: getattr(value, part) for part in _OF_TRITON if hasattr(value, part)})
        elif type(value).__module__.startswith("numba.") and not is_intrinsic(value):
            self._seen.append(value)
            yield from self._of_numba(value)
        elif hasattr(value, "__wrapped__") and is_library(type(value).__module__):  # under jax.jit, an intrinsic, ours
            self._seen.append(value)
            yield f"{type(value).__qualname__} {getattr(value, 'prefer_literal', '')}".encode()
            yield from self.parts(value.__wrapped__)
        else:
            raise OpaqueError(f"an object of type {type(value).__module__}.{type(value).__qualname__}")

    def _container(self, value: Any) -> Iterator[bytes]:
        kind = type(value)
        yield f"{kind.__module__} {kind.__qualname__} {getattr(kind, '_fields', '')} {len(value)}".encode()
        if kind not in (tuple, list, frozenset, set, dict) and not (is_library(kind.__module__) and is_found(kind)):
            yield from self.parts(kind)
        yield from self.parts(getattr(value, "default_factory", None))
        if isinstance(value, dict):
            for key in value:
                yield from self.parts((key, value[key]))
        else:
            for item in sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value:
                yield from self.parts(item)

    def _of_numba(self, value: Any) -> Iterator[bytes]:
        """Walk what `cfunc`, `vectorize` and `guvectorize` return; nothing else of Numba has content."""
        kind = type(value).__name__
        if kind == "CFunc":
            yield f"cfunc {value._sig}".encode()
            compiler = value._compiler
            yield from self._compiled_before(value, value._pyfunc)
            yield from self.parts((_described(compiler.targetoptions), _described(compiler.locals), value._pyfunc))
        elif kind == "DUFunc":
            yield f"vectorized {value._frozen} {value.types} {value.identity}".encode()
            yield from self.parts(value._dispatcher)
        elif kind == "GUFunc":
            builder = value.gufunc_builder
            yield f"vectorized {value.signature} {value._frozen} {builder._sigs} {builder.identity}".encode()
            yield from self.parts(builder.nb_func)
        else:
            raise OpaqueError(f"an object of type {type(value).__module__}.{kind}")

    def _dispatcher(self, value: Any) -> Iterator[bytes]:
        self._seen.append(value)
        signatures = [] if getattr(value, "_can_compile", True) else [str(s) for s in value.nopython_signatures]
        compiler = getattr(getattr(value, "_compiler", None), "pipeline_class", None)
        yield f"dispatcher {getattr(compiler, '__module__', '')} {getattr(compiler, '__qualname__', '')}".encode()
        if isinstance(compiler, type) and not is_library(compiler.__module__):
            yield from self.parts(compiler)
        places = getattr(getattr(value, "_compiler", None), "locals", {})
        options = _described(value.targetoptions), _described(places)
        self.fleeting |= bool(_ADDRESS.search(str(options)))
        yield from self.parts((*options, signatures))
        kept = type(getattr(value, "_cache", None)).__name__ not in ("NullCache", "NoneType")  # by Numba, as it was
        if len(self._seen) > 1 and (kept or getattr(value, "overloads", None)):
            yield from self._compiled_before(value, value.py_func)
        yield from self.parts(value.py_func)
        if not self._uses_numba:
            self._uses_numba = True
            for extension in _taught.by_no_name():
                yield from self._extension(extension)

    def _compiled_before(self, compiled: Any, function: types.FunctionType) -> Iterator[bytes]:
        """Give what was compiled with what its globals held then a mark that no other process has."""
        if reads_data(function):
            self.fleeting = True
            yield _tokens.setdefault(compiled, uuid.uuid4().bytes)

    def _extension(self, extension: Any) -> Iterator[bytes]:
        """Walk what any kernel may use: that of an installed package is what its file says."""
        module = getattr(extension, "__module__", None)
        installed = installed_file(module) if module else None
        if installed:
            yield f"installed {installed} {getattr(extension, '__qualname__', type(extension).__qualname__)}".encode()
            held = [cell.cell_contents for cell in getattr(extension, "__closure__", None) or ()]
            yield from self.parts((held, getattr(extension, "__defaults__", None)))
        else:
            yield from self.parts(extension)

    def _class(self, value: type) -> Iterator[bytes]:
        """Walk a class of users: a class for Numba, an enumeration, a named tuple, or any other."""
        self._seen.append(value)
        yield f"class {value.__module__} {value.__qualname__} {getattr(value, '_fields', '')}".encode()
        if (of_numba := getattr(value, "class_type", None)) is not None:  # a jitclass
            attributes = {name: str(kind) for name, kind in of_numba.struct.items()}
            yield from self.parts((attributes, of_numba.jit_props, of_numba.jit_methods, of_numba.jit_static_methods))
            return
        if issubclass(value, enum.Enum):
            for name, member in value.__members__.items():
                yield from self.parts((name, member.value))
        yield from self.parts((type(value), value.__bases__))
        for name in sorted(vars(value).keys() - _NOTES):
            yield from self._class_attribute(name, vars(value)[name])

    def _class_attribute(self, name: str, value: Any) -> Iterator[bytes]:
        """Walk an attribute: of what Python itself has put there, the kind says all."""
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
        yield from self._code(function.__code__)
        yield from self.parts((function.__defaults__, function.__kwdefaults__))
        around, names = self._names, tuple(names_in(function.__code__))
        if hidden := _HIDING.intersection(names) - function.__globals__.keys():
            raise OpaqueError(f"a function that calls {min(hidden)}()")
        self._names = tuple(dict.fromkeys((*around, *names)))
        yield from self.parts({name: x for name, x in vars(function).items() if name != "__wrapped__"})
        for cell in function.__closure__ or ():
            try:
                yield from self._looked_up(cell.cell_contents, names)
            except ValueError:  # an empty cell
                yield b"empty"
        for name in names:
            yield name.encode()
            if name in function.__globals__:
                yield from self._looked_up(function.__globals__[name], names)
            elif not isinstance(known := vars(builtins).get(name), (types.BuiltinFunctionType, type, type(None))):
                yield from self._looked_up(known, names)
        for module in imported(function):
            yield b"imports"
            yield from self._module(module, names)
        for extension in _taught.of(function):
            yield b"taught"
            yield from self.parts(extension)
        self._names = around

    def _looked_up(self, value: Any, names: Iterable[str]) -> Iterator[bytes]:
        return self._module(value, names) if isinstance(value, types.ModuleType) else self.parts(value)

    def _module(self, module: types.ModuleType, names: Iterable[str]) -> Iterator[bytes]:
        """Walk what code that uses these names may read of a module; a library is what its version says."""
        library = module.__name__.partition(".")[0]
        yield f"module {module.__name__} {getattr(sys.modules.get(library), '__version__', '')}".encode()
        names = tuple(names)
        if module.__name__ in ("numba", "numba.core.config"):  # settings, which compiled functions may read
            settings = sys.modules.get("numba.core.config")
            yield repr([(name, getattr(settings, name, None)) for name in names if name.isupper()]).encode()
        if is_library(module.__name__) or (module, names) in self._modules:
            return
        self._modules.append((module, names))
        for name in names:
            if hasattr(module, name):
                yield name.encode()
                yield from self._looked_up(getattr(module, name), names)

    def _code(self, code: types.CodeType) -> Iterator[bytes]:
        if not code.co_filename.startswith(_PACKAGE):
            place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno} ".encode()
            self.places.append(place + code.co_linetable)
        yield code.co_code
        yield code.co_exceptiontable
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, *counts)).encode()
        yield from self.parts(code.co_consts)


def _named(function: types.FunctionType) -> Iterator[bytes]:
    version = getattr(sys.modules.get("brainevent"), "__version__", "")
    yield f"function {function.__module__} {function.__qualname__} {version}".encode()


def _is_of_library(owner: Any) -> bool:
    """Say whether a builtin function is one of a library, by its name, and not of something that holds values."""
    if owner is None or isinstance(owner, (types.ModuleType, type)):
        return True
    return type(owner).__module__.startswith("numpy.random")  # whose functions Numba has, with a state of its own


def _described(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    def described(value: Any) -> str:
        return repr(sorted(value)) if isinstance(value, (set, frozenset)) else repr(value)

    return sorted((key, described(value)) for key, value in options.items())
