# SPDX-License-Identifier: Apache-2.0
"""Everything of Numba that is no public interface: its compiler, modules and engine, and the text of compiled code.

A new release of Numba may need changes here, and nowhere else.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dis
import functools
import gc
import importlib
import inspect
import pickle
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import caching, cgutils, config, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock as compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.errors import RequireLiteralValue
from numba.core.lowering import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys
from numba.core.serialize import dumps, loads, runtime_build_excinfo_struct
from numba.core.typing.templates import make_intrinsic_template

from ..._content import needs_nothing_else, note_before
from .uninterrupted import uninterrupted

__all__ = [
    "Dispatcher",
    "RequireLiteralValue",
    "add_object_code",
    "can_compile",
    "cgutils",
    "compile_function",
    "compiler_lock",
    "compiling",
    "element",
    "exception_of",
    "function_type",
    "inner_compiler",
    "is_parallel",
    "library_of",
    "linked",
    "local_reason",
    "note_compilations",
    "object_code",
    "objects_of",
    "objects_of_text",
    "optimized",
    "processor",
    "row_major_array",
    "settings",
    "start_threads",
    "target_context",
    "text_of_objects",
    "threads_in",
    "with_named_threads",
    "without_gil",
]

_SETTINGS = (
    "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DIVERGENCE_CHECK", "ENABLE_AVX", "LLVM_REFPRUNE_FLAGS", "LLVM_REFPRUNE_PASS",
    "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE", "USING_SVML",
)  # fmt: skip
_LATER = ("numba.core.boxing", "numba.core.runtime.context")  # what Numba imports when it first compiles
_NEVER = 1_000_000_000
_WITH = ("BEFORE_WITH", "LOAD_SPECIAL")  # Python 3.11, and from 3.14 on
_FLUSHES = '"denormal-fp-math"="preserve-sign,preserve-sign"'
_INTERLEAVED = 4  # vectors that a loop computes at a time
_ENVIRONMENT = "_ZN08NumbaEnv"  # begins the name of a pointer that Numba keeps for a function; its loader fills it in
_THREAD_FUNCTIONS = {
    "get_num_threads": "i32 @get_num_threads()",
    "set_num_threads": "void @set_num_threads(i32)",
    "get_thread_id": "i32 @get_thread_id()",
    "get_parallel_chunksize": "i32 @get_parallel_chunksize()",
    "set_parallel_chunksize": "i32 @set_parallel_chunksize(i32)",
}
target_context = cpu_target.target_context


def __getattr__(name: str) -> Any:
    if name not in ("leading_zeros", "trailing_zeros"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("numba.cpython.unsafe.numbers"), name)  # slow to load, and rarely needed


def settings() -> dict[str, Any]:
    """Return those settings of Numba that affect compiled code."""
    return {name: str(getattr(config, name, None)) for name in _SETTINGS}


def processor() -> tuple[str, ...]:
    """Return what Numba compiles for: the target, the processor and its features."""
    with uninterrupted():
        return tuple(map(str, target_context.codegen().magic_tuple()))


# ---- compile functions -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Hold Numba's lock, load its registries, compile outdated helpers again, and postpone full garbage collections.

    Numba makes many objects for a kernel. Each time their number has grown enough, a full collection looks at all
    objects of the process, those of JAX included, for a tenth of the time. Young objects are collected as before.
    """
    with compiler_lock:
        young, middle, old = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        try:
            load_registries()
            with _nothing_outdated():
                yield
        finally:
            gc.set_threshold(young, middle, old)


def load_registries() -> None:
    """Load all types and functions of Numba, including those added since.

    Numba loads them once per process, and if that is interrupted, half stays missing.
    """
    with uninterrupted():
        for name in _LATER:
            importlib.import_module(name)
        cpu_target.typing_context.refresh()
        target_context.refresh()


@contextlib.contextmanager
def _nothing_outdated() -> Iterator[None]:
    """Make Numba compile cached helpers again if they use other code, whose changes its cache does not notice."""
    load = caching.Cache.load_overload

    def load_overload(self: Any, *arguments: Any) -> Any:
        return load(self, *arguments) if needs_nothing_else(self._py_func) else None

    caching.Cache.load_overload = load_overload
    try:
        yield
    finally:
        caching.Cache.load_overload = load


def can_compile(kernel: Dispatcher) -> bool:
    """Return whether a function can be compiled for further types: not if it has explicit signatures."""
    return bool(kernel._can_compile)


def compile_function(kernel: Dispatcher, arguments: tuple[types.Type, ...]) -> Any:
    """Compile like `kernel.compile(arguments)`, without an entry for Python, and without machine code yet."""
    compiler = copy.copy(kernel._compiler)
    # Numba needs the address of what it lifts out of a `with` block.
    whole = not any(step.opname in _WITH for step in dis.get_instructions(kernel.py_func))

    def customized(flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        flags.no_compile = whole
        return flags

    compiler._customize_flags = customized
    return compiler._compile_core(arguments, None)


@functools.cache
def inner_compiler(*, apart: bool, flushes: bool, later: bool, interleaved: bool) -> type[Compiler]:
    """Return a compiler of functions that only compiled code calls; `inner` says what the arguments mean."""
    marks = {"apart": apart, "flushes": flushes, "later": later, "interleaved": interleaved}
    name = "_".join(["Inner", *(mark for mark, on in marks.items() if on)])  # the content of functions includes it
    of_library = {"flushes": flushes, "later": later, "interleaved": interleaved}
    library_type = type(f"{name}_Library", (_InnerLibrary,), of_library)

    def __init__(  # noqa: N807 - of the class below
        self: Compiler, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, locals_: Any
    ) -> None:
        if apart:
            flags.noalias = True
        library = library or library_type(target.codegen(), "inner")
        Compiler.__init__(self, typing, target, library, args, result, flags, locals_)

    return type(name, (Compiler,), {"__init__": __init__, "__module__": __name__, "library_type": library_type})


class _InnerLibrary(JITCodeLibrary):
    """A module that is linked into others, and not given to the engine."""

    flushes = later = interleaved = False

    @property
    def codegen(self) -> Any:
        """The code generator for the compiler of the function."""
        return _WithoutEnvironments(self._codegen)

    def add_ir_module(self, ir_module: Any) -> None:
        """Add Numba's code; also with what Numba cannot say: flushed denormals, and vectors that are interleaved."""
        if not (self.flushes or self.interleaved):
            super().add_ir_module(ir_module)
            return
        text = cgutils.normalize_ir_text(str(ir_module))
        if self.flushes:
            text = re.sub(r"^(define .*)$", rf"\1 {_FLUSHES}", text, flags=re.M)
        module = llvm.parse_assembly(_with_interleaved_loops(text) if self.interleaved else text)
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)

    def _optimize_final_module(self) -> None:
        """Optimize it, unless the modules that link it in do so `later`."""
        if not self.later:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Raise: the function has no address, like a name that is not defined."""
        self._ensure_finalized()
        return 0


@functools.lru_cache(1_024)
def library_of(name: str, text: str) -> JITCodeLibrary:
    """Return a module in LLVM's language as a library that others link in, and optimize."""
    kind = inner_compiler(apart=False, flushes=False, later=True, interleaved=False)
    library = kind.library_type(target_context.codegen(), name)
    module = llvm.parse_assembly(text)
    module.name = name
    module.verify()
    library.add_llvm_module(module)
    library.finalize()
    return library


def function_type(name: str, signature: Any, called: Callable[..., Any]) -> types.Function:
    """Return the type of a function with a signature; `called` writes its call, as the code of an intrinsic does."""

    def defined(typing_context: Any, *given: Any) -> Any:
        return (signature, called) if len(given) == len(signature.args) else None

    names = ("typing_context", *(f"x{place}" for place in range(len(signature.args))))
    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in names]
    vars(defined)["__signature__"] = inspect.Signature(parameters)  # Numba passes what these name
    return types.Function(make_intrinsic_template(name, defined, name))


_BLOCK, _JUMP = re.compile(r'^"?(B\d+)"?:'), re.compile(r'^ +br label %"?(B\d+)"?$')


def _with_interleaved_loops(text: str) -> str:
    """Return the text of a module whose loops tell LLVM how many vectors to compute at a time, if it makes vectors."""
    lines, known, loops = list[str](), set[str](), 0
    first = max((int(number) for number in re.findall(r"^!(\d+) =", text, flags=re.M)), default=-1) + 1
    for line in text.splitlines():
        if (block := _BLOCK.match(line)) is not None:
            known.add(block[1])
        jump = _JUMP.match(line)
        is_back = jump is not None and jump[1] in known  # from the end of a loop to its beginning
        loops += is_back
        lines.append(f"{line}, !llvm.loop !{first + loops}" if is_back else line)
    lines += [f"!{number} = distinct !{{!{number}, !{first}}}" for number in range(first + 1, first + loops + 1)]
    lines.append(f'!{first} = !{{!"llvm.loop.interleave.count", i32 {_INTERLEAVED}}}')
    return "\n".join(lines)


class _WithoutEnvironments:
    """A code generator that does not set environments, because there is no machine code yet."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: the code that links the function in sets it."""


# The objects with which code makes Python's values: older code may still use them.
_of_libraries: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class _Noting(event.Listener):  # type: ignore[misc]
    """Listens to the beginning and end of Numba's compilations; Numba holds its lock between them."""

    def __init__(self) -> None:
        self._begun: dict[int, Callable[[Any], None]] = {}  # by the identity of what both events have

    def on_start(self, event: Any) -> None:
        self._begun[id(event.data)] = note_before(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        note = self._begun.pop(id(event.data), None)
        overload = event.data["dispatcher"].overloads.get(tuple(event.data["args"]))
        if note is not None and overload is not None:
            note(overload)
            if (library := getattr(overload, "library", None)) is not None:
                _of_libraries[library] = getattr(overload, "environment", None)


def note_compilations() -> None:
    """Note from now on the content of functions when Numba compiles them: their globals may change afterwards."""
    event.register("numba:compile", _Noting())


# ---- modules ---------------------------------------------------------------------------------------------------------

_of_modules: weakref.WeakKeyDictionary[llvm.ModuleRef, dict[str, Environment]] = weakref.WeakKeyDictionary()


def linked(compiled: Any) -> llvm.ModuleRef:
    """Return a compiled function's module, as Numba has compiled it so far, with all that it calls."""
    library = compiled.library
    if library._finalized:
        return library._get_module_for_linking().clone()
    module = library._final_module
    for helper in dict.fromkeys(library._linking_libraries):
        module.link_in(helper._get_module_for_linking(), preserve=True)
    return module


def optimized(name: str, define: Callable[[ir.Module], None], called: llvm.ModuleRef) -> llvm.ModuleRef:
    """Return an optimized module with the function `name`, which `define` writes, and all that it calls."""
    library = target_context.codegen().create_library(name)
    module = library.create_ir_module(name)
    define(module)
    library.add_ir_module(module)
    library._final_module.link_in(called)
    _make_private(library._final_module, name)
    library._optimize_final_module()
    library._final_module.verify()
    return library._final_module


def _make_private(module: llvm.ModuleRef, name: str) -> None:
    """Keep all but the handler within its module: other code in this process may have the same names."""
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
            function.name = f"{name}_{function.name}"  # LLVM may change how it is called, and share it
    known = {}
    for variable in module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            environment = Environment._memo.get(variable.name)
            variable.name = f"{name}_{variable.name}"
            if environment is not None:  # Numba keeps it as long as the function; the module may outlive that
                known[variable.name] = environment
    _of_modules[module] = known


def objects_of(module: llvm.ModuleRef, name: str) -> dict[str, list[Any]]:
    """Return the Python objects that a module of the handler `name` needs, by the names of pointers to them."""
    known = _of_modules[module]
    pointers = (v.name for v in module.global_variables if v.name.startswith(f"{name}_{_ENVIRONMENT}"))
    return {pointer: list(known[pointer].consts) if pointer in known else [] for pointer in pointers}


def text_of_objects(objects: list[Any]) -> bytes:
    """Return Python objects as Numba pickles them."""
    return bytes(dumps(objects))


def objects_of_text(text: bytes) -> list[Any]:
    """Return what `text_of_objects` pickled."""
    return list(loads(text))


def local_reason(module: llvm.ModuleRef) -> str | None:
    """Return why code works only in the process in which it was compiled, or None."""
    if any(variable.name.startswith("numba.dynamic.globals") for variable in module.global_variables):
        return "it holds a C function from ctypes or cffi, or a large global array"
    if any(function.name == "PyObject_CallFunctionObjArgs" for function in module.functions):
        return "it runs Python code in object mode"
    return None


def row_major_array(
    context: Any, builder: ir.IRBuilder, kind: types.Array, data: ir.Value, shape: Sequence[ir.Value]
) -> ir.Value:
    """Return Numba's structure of a row-major array at an address."""
    from numba.np import arrayobj  # slow to load, and kept handlers do not need it

    array = context.make_array(kind)(context, builder)
    itemsize = ir.IntType(64)(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [itemsize] * min(len(shape), 1)
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    arrayobj.populate_array(
        array, builder.inttoptr(data, array.data.type), list(shape), strides, itemsize, meminfo=None
    )
    return array._getvalue()


def element(context: Any, builder: ir.IRBuilder, kind: types.Array, array: ir.Value) -> ir.Value:
    """Return the element of an array without axes."""
    from numba.np import arrayobj  # slow to load, and kept kernels do not need it

    return arrayobj.load_item(context, builder, kind, context.make_array(kind)(context, builder, array).data)


# ---- machine code ----------------------------------------------------------------------------------------------------

_loaded: list[Any] = []  # code and what it points to live as long as the process


def object_code(module: llvm.ModuleRef) -> bytes:
    """Return a module's machine code for this processor, as an object file."""
    return bytes(target_context.codegen()._tm.emit_object(module))


def add_object_code(
    reference: llvm.ObjectFileRef, name: str, wanted: Sequence[str], objects: Mapping[str, list[Any]]
) -> tuple[int, list[str]]:
    """Load an object file, and return the address of `name`; or 0, and the symbols of `wanted` that are missing."""
    with uninterrupted():
        rtsys.initialize(target_context)  # memory for arrays that kernels make
    engine = target_context.codegen()._engine
    missing = [symbol for symbol in wanted if not (engine.is_symbol_defined(symbol) or llvm.address_of_symbol(symbol))]
    if missing:  # MCJIT would end the process
        return 0, missing
    engine._ee.add_object_file(reference)
    engine.finalize_object()
    for pointer, values in objects.items():
        environment = Environment({})
        environment.consts.extend(values)
        _loaded.append(environment)
        ctypes.c_void_p.from_address(engine.get_global_value_address(pointer)).value = id(environment)
    _loaded.append(reference)
    return int(engine.get_function_address(name)), []


class _Excinfo(ctypes.Structure):
    """Numba's record of an exception: pickled class, arguments and place; or also arguments known only at run time."""

    _fields_ = [
        ("pickled", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("arguments", ctypes.c_void_p),
        ("unwrap", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    ]


def exception_of(excinfo: int) -> tuple[type[BaseException], Any, Any]:
    """Return the class, the arguments and the place of an exception that compiled code raised, from Numba's record.

    The record is read once: that of an exception with arguments is given back.
    """
    record = _Excinfo.from_address(excinfo)
    pickled = ctypes.string_at(record.pickled, record.size)
    if record.dynamic <= 0:
        kind, args, place = pickle.loads(pickled)  # written by Numba's compiler, in code that we load
    else:
        arguments = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(record.unwrap)(record.arguments)
        kind, args, place = runtime_build_excinfo_struct(pickled, arguments)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_nrt_python.c_helpers["Free"])(excinfo)
    return kind, args, place


# ---- threads ---------------------------------------------------------------------------------------------------------

_BY_ADDRESS = re.compile(r"numba\.dynamic\.globals\.([0-9a-f]+)")
_CALL = r"^[^\n]*\bcall\b[^\n@]*@{}\([^\n]*\n"
_BETWEEN = r"(?P<between>(?:(?![^\n]*\bcall\b)[ \t][^\n]*\n)*)"  # instructions of the same block, none of them a call
_ACQUIRE = re.compile(_CALL.format("numba_gil_ensure") + _BETWEEN + _CALL.format("PyEval_SaveThread"), re.MULTILINE)
_RELEASE = re.compile(_CALL.format("PyEval_RestoreThread") + _BETWEEN + _CALL.format("numba_gil_release"), re.MULTILINE)


def start_threads() -> None:
    """Start Numba's threads."""
    from numba.np.ufunc import parallel

    parallel._launch_threads()


def threads_in(symbols: Sequence[str]) -> bool:
    """Return whether code with these undefined symbols calls functions of Numba's threads."""
    return not _THREAD_FUNCTIONS.keys().isdisjoint(symbols)


def is_parallel(module: llvm.ModuleRef) -> bool:
    """Return whether compiled code uses Numba's threads, in the kernel or in a helper."""
    return any(function.name == "numba_parallel_for" for function in module.functions)


def without_gil(module: llvm.ModuleRef) -> llvm.ModuleRef:
    """Return a copy of compiled code without the acquisition of Python's lock around its parallel loops.

    Numba acquires and releases it to ensure that such a loop runs without it. XLA's threads never hold it. For them
    this is a wait for the interpreter at every call, and the end of the thread if the interpreter is shutting down, for
    which XLA then waits without end.
    """
    text = str(module)
    for pattern in (_RELEASE, _ACQUIRE):  # in this order: what the second removes, the first reads
        text = pattern.sub(lambda match: match["between"], text)
    return llvm.parse_assembly(text)


def with_named_threads(module: llvm.ModuleRef) -> llvm.ModuleRef:
    """Return compiled code, copied if necessary, that finds the functions of Numba's threads by name.

    Numba writes their addresses, which other processes lack.
    """
    names = _names_by_address()
    variables = (variable.name for variable in module.global_variables)
    if names.keys().isdisjoint(map(_address, variables)):
        return module
    text = str(module)
    for address, name in names.items():
        pointer = f"@brainevent.pointer.{name}"
        by_address = rf"@numba\.dynamic\.globals\.{address:x}\b"
        text, count = re.subn(
            rf"^{by_address} = .*$", f"{pointer} = linkonce global ptr @{name}", text, flags=re.MULTILINE
        )
        text = re.sub(by_address, pointer, text)
        if count and not re.search(rf"^declare .*@{name}\(", text, re.MULTILINE):
            text += f"\ndeclare {_THREAD_FUNCTIONS[name]}\n"
    return llvm.parse_assembly(text)


def _address(variable: str) -> int | None:
    found = _BY_ADDRESS.fullmatch(variable)
    return int(found[1], 16) if found else None


def _names_by_address() -> dict[int | None, str]:
    """List the functions where Numba's threads run: before that, no code holds an address of theirs."""
    from numba.np.ufunc import parallel

    functions = {name: getattr(parallel, f"_{name}", None) for name in _THREAD_FUNCTIONS}
    return {ctypes.cast(f, ctypes.c_void_p).value: name for name, f in functions.items() if f is not None}
