# SPDX-License-Identifier: Apache-2.0
"""Compile an XLA handler around a Numba function: it reads the call frame, makes array views, and calls."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types

from ...ffi import frame, pulse
from . import floats, half, runtime
from .internals import (
    Dispatcher,
    can_compile,
    cgutils,
    compile_function,
    compiling,
    is_parallel,
    linked,
    optimized,
    row_major_array,
    target_context,
    with_named_threads,
    without_gil,
)

__all__ = [
    "ArraySpec",
    "Spec",
    "compile_handler",
    "flat",
    "grouped",
    "takes_arrays",
]

I32, I64 = ir.IntType(32), ir.IntType(64)
POINTER = ir.IntType(8).as_pointer()


@dataclass(frozen=True)
class ArraySpec:
    """The part of an array's type that a handler is compiled for; shapes are read at run time."""

    dtype: np.dtype
    ndim: int

    @property
    def numba_type(self) -> types.Array:
        """The array as the kernel sees it; see `half` for float16 and bfloat16."""
        element = {"float16": half.FLOAT16, "bfloat16": half.BFLOAT16}.get(self.dtype.name)
        return types.Array(element or numba.from_dtype(self.dtype), self.ndim, "C")

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(':' * self.ndim)}]"


Spec = ArraySpec | tuple[ArraySpec, ...]  # of an argument: an array, or a tuple of arrays


def flat(arguments: Sequence[Any]) -> list[Any]:
    """Return the arrays of arguments, of which some are tuples of arrays."""
    return [x for argument in arguments for x in (argument if isinstance(argument, tuple) else (argument,))]


def grouped(arrays: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Return arrays as arguments: tuples where there are some in `like`."""
    rest = iter(arrays)
    return [tuple(next(rest) for _ in each) if isinstance(each, tuple) else next(rest) for each in like]


def compile_handler(kernel: Dispatcher, operands: Sequence[Spec], results: Sequence[Spec], name: str) -> llvm.ModuleRef:
    """Return an optimized module with the handler `name`, and all that it calls; errors of Numba are passed on.

    Kernel and handler are optimized together, once; no machine code is made of the kernel alone.
    """
    arguments = (*operands, *results)
    specs = flat(arguments)
    with compiling():
        compiled, as_tuple = _compile(kernel, tuple(map(_type, arguments)))
        if compiled.objectmode or isinstance(compiled.signature.return_type, types.Generator):
            kind = "Python code in object mode" if compiled.objectmode else "a generator"
            raise TypeError(f"it is {kind}; a kernel is a function that Numba compiles completely (numba.njit)")
        called = with_named_threads(linked(compiled))
        parallel = is_parallel(called)
        has_pulse = any(function.name == pulse.SYMBOL for function in called.functions)
        report = pulse.REPORT if has_pulse else runtime.REPORT

        def define(module: ir.Module) -> None:
            one = _define_call(module, compiled, as_tuple, arguments, name, kernel.py_func.__name__, report, parallel)
            _define_handler(module, one, len(flat(operands)), specs, name)

        return optimized(name, define, without_gil(called) if parallel else called)


def _type(argument: Spec) -> types.Type:
    if isinstance(argument, tuple):
        return types.BaseTuple.from_types([spec.numba_type for spec in argument])
    return argument.numba_type


def _compile(kernel: Dispatcher, arrays: tuple[types.Type, ...]) -> tuple[Any, bool]:
    """Return a kernel compiled by Numba for these arrays, and whether it takes them as one tuple.

    Kernels with explicit signatures, defaults or *args are called through a function that adapts the arguments.
    """
    if takes_arrays(kernel, len(arrays)):
        return compile_function(kernel, arrays), False

    @numba.njit
    def adapted(arrays):  # type: ignore[no-untyped-def]
        kernel(*arrays)

    return compile_function(adapted, (types.Tuple(arrays),)), True


def takes_arrays(kernel: Dispatcher, count: int) -> bool:
    """Return whether a kernel can be compiled again for this number of arrays, without an adapter."""
    parameters = inspect.signature(kernel.py_func).parameters.values()
    plain = len(parameters) == count and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return can_compile(kernel) and plain


class _Code:
    """An IR builder that reads and writes words at byte offsets from addresses."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def at(self, base: ir.Value, offset: int | str, kind: ir.Type = I64) -> ir.Value:
        offset = frame.OFFSETS[offset] if isinstance(offset, str) else offset
        return self.builder.inttoptr(self.builder.add(base, I64(offset)), kind.as_pointer())

    def load(self, base: ir.Value, offset: int | str, kind: ir.Type = I64) -> ir.Value:
        return self.builder.load(self.at(base, offset, kind))

    def load_index(self, base: ir.Value, index: ir.Value) -> ir.Value:
        return self.builder.load(self.builder.gep(self.builder.inttoptr(base, I64.as_pointer()), [index]))


def _define_call(
    module: ir.Module,
    compiled: Any,
    as_tuple: bool,
    passed: Sequence[Spec],
    name: str,
    title: str,
    reports: str,
    parallel: bool,
) -> ir.Function:
    """Define `error = call(frame, data addresses, dims addresses)`: one call of the kernel."""
    specs = flat(passed)
    count = len(specs)
    function = ir.Function(module, ir.FunctionType(I64, [I64] * (1 + 2 * count)), f"{name}_call")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    context, code = target_context, _Code(builder)
    call_frame, data, dims = function.args[0], function.args[1 : 1 + count], function.args[1 + count :]
    views = [_array_view(code, *view) for view in zip(specs, data, dims, strict=True)]
    arguments = [
        context.make_tuple(builder, _type(spec), list(view)) if isinstance(spec, tuple) else view
        for spec, view in zip(passed, grouped(views, passed), strict=True)
    ]
    if as_tuple:
        arguments = [context.make_tuple(builder, compiled.signature.args[0], arguments)]
    if parallel:
        before = builder.call(_external(module, runtime.ENTER_PARALLEL, I64, [I64]), [I64(0)])
    computed = floats.reading(builder)
    status, _ = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, arguments)
    if parallel:
        builder.call(_external(module, runtime.LEAVE_PARALLEL, I64, [I64]), [before])
    with builder.if_then(status.is_error, likely=False):
        floats.restoring(builder, computed)  # a kernel that raised could not
        text = cgutils.global_constant(module, f"{name}_title", cgutils.make_bytearray(title.encode() + b"\0"))
        report = _external(module, reports, I64, [I64, I32, POINTER, POINTER])
        excinfo, text = (builder.bitcast(pointer, POINTER) for pointer in (status.excinfoptr, text))
        builder.ret(builder.call(report, [call_frame, status.code, excinfo, text]))
    builder.ret(I64(0))
    return function


def _external(module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
    return cgutils.get_or_insert_function(module, ir.FunctionType(result, arguments), name)


def _array_view(code: _Code, spec: ArraySpec, data: ir.Value, dims: ir.Value) -> ir.Value:
    """Make Numba's array structure for a row-major buffer."""
    shape = [code.load(dims, 8 * axis) for axis in range(spec.ndim)]
    return row_major_array(target_context, code.builder, spec.numba_type, data, shape)


def _define_handler(
    module: ir.Module, one: ir.Function, operands: int, specs: Sequence[ArraySpec], name: str
) -> ir.Function:
    """Define the XLA handler `error = name(frame)`."""
    function = ir.Function(module, ir.FunctionType(I64, [I64]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    code, call_frame = _Code(builder), function.args[0]
    _answer_metadata_query(code, call_frame)
    groups = [code.load(call_frame, f"XLA_FFI_CallFrame.{group}") for group in ("args.args", "rets.rets")]
    buffers = [code.load(groups[0], 8 * i) for i in range(operands)]
    buffers += [code.load(groups[1], 8 * i) for i in range(len(specs) - operands)]
    data = [code.load(buffer, "XLA_FFI_Buffer.data") for buffer in buffers]
    dims = [code.load(buffer, "XLA_FFI_Buffer.dims") for buffer in buffers]
    batch = code.load(code.load(call_frame, "XLA_FFI_CallFrame.attrs.attrs"), 0)  # attributes are sorted by name
    unbatched = builder.icmp_unsigned("==", code.load(batch, "XLA_FFI_Array.size"), I64(0))
    with builder.if_then(unbatched, likely=True):
        builder.ret(builder.call(one, [call_frame, *data, *dims]))
    ranks = [code.load(buffer, "XLA_FFI_Buffer.rank") for buffer in buffers]
    own = [
        builder.add(d, builder.mul(builder.sub(rank, I64(spec.ndim)), I64(8)))  # skip the batch axes
        for d, rank, spec in zip(dims, ranks, specs, strict=True)
    ]
    _loop_over_batch(code, one, call_frame, code.load(batch, "XLA_FFI_Array.data"), data, own)
    builder.ret(I64(0))
    return function


def _answer_metadata_query(code: _Code, call_frame: ir.Value) -> None:
    """Return our version of XLA's interface when XLA asks for it, once, at registration."""
    builder, function = code.builder, code.builder.function
    look, inspect, answer, further, run = (
        function.append_basic_block(f"metadata_{step}") for step in ("look", "inspect", "answer", "further", "none")
    )
    first, entry = code.load(call_frame, "XLA_FFI_CallFrame.extension_start"), builder.block
    builder.branch(look)
    builder.position_at_end(look)
    extension = builder.phi(I64)
    extension.add_incoming(first, entry)
    builder.cbranch(builder.icmp_unsigned("==", extension, I64(0)), run, inspect)
    builder.position_at_end(inspect)
    kind = code.load(extension, "XLA_FFI_Extension_Base.type", I32)
    builder.cbranch(builder.icmp_unsigned("==", kind, I32(frame.METADATA_EXTENSION)), answer, further)
    builder.position_at_end(further)
    extension.add_incoming(code.load(extension, "XLA_FFI_Extension_Base.next"), further)
    builder.branch(look)
    builder.position_at_end(answer)
    metadata = code.load(extension, "XLA_FFI_Metadata_Extension.metadata")
    major, minor = frame.api_version()
    for field, value in (("api_version.major_version", major), ("api_version.minor_version", minor), ("traits", 0)):
        builder.store(I32(value), code.at(metadata, f"XLA_FFI_Metadata.{field}", I32))
    builder.ret(I64(0))
    builder.position_at_end(run)


def _loop_over_batch(
    code: _Code, one: ir.Function, call_frame: ir.Value, batch: ir.Value, data: Sequence[ir.Value], dims: list[ir.Value]
) -> None:
    """Call the kernel for each element of the batch; see `ffi.call.NativeTarget` for what `batch` holds."""
    builder, row = code.builder, I64(1 + len(data))
    levels = code.load(batch, 0)
    row_of = lambda level: builder.add(I64(1), builder.mul(level, row))  # noqa: E731
    total = cgutils.alloca_once_value(builder, I64(1))
    with cgutils.for_range(builder, levels, intp=I64) as level:
        builder.store(builder.mul(builder.load(total), code.load_index(batch, row_of(level.index))), total)
    rest = cgutils.alloca_once(builder, I64)
    shifted = [cgutils.alloca_once(builder, I64) for _ in data]
    with cgutils.for_range(builder, builder.load(total), intp=I64) as element:
        builder.store(element.index, rest)
        for cell, address in zip(shifted, data, strict=True):
            builder.store(address, cell)
        with cgutils.for_range(builder, levels, intp=I64) as level:
            first = row_of(level.index)
            size, left = code.load_index(batch, first), builder.load(rest)
            builder.store(builder.udiv(left, size), rest)
            index = builder.urem(left, size)
            for k, cell in enumerate(shifted):
                stride = code.load_index(batch, builder.add(first, I64(1 + k)))
                builder.store(builder.add(builder.load(cell), builder.mul(index, stride)), cell)
        error = builder.call(one, [call_frame, *map(builder.load, shifted), *dims])
        with builder.if_then(builder.icmp_unsigned("!=", error, I64(0)), likely=False):
            builder.ret(error)
