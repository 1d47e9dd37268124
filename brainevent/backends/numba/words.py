# SPDX-License-Identifier: Apache-2.0
"""Words of 64 bits in native code: read and written at addresses, as arrays, as functions, and between threads.

A *table* is an array of such words, of which native code is given the address.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

__all__ = ["acquire", "array_at", "as_word", "call", "put", "release", "word", "yield_thread"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _pointer(builder: ir.IRBuilder, address: Any, index: Any = None) -> Any:
    pointer = builder.inttoptr(address, _I64.as_pointer())
    return pointer if index is None else builder.gep(pointer, [index])


@intrinsic
def word(typing_context: Any, table: Any, index: Any) -> Any:
    """Return a word of a table."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load(_pointer(builder, *args))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def put(typing_context: Any, table: Any, index: Any, value: Any) -> Any:
    """Write a word of a table."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store(args[2], _pointer(builder, *args[:2]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def array_at(typing_context: Any, address: Any, size: Any, dtype: Any) -> Any:
    """Return the array at an address, given how many elements it has, or a tuple of sizes."""
    sizes = size.count if isinstance(size, types.BaseTuple) else 1
    kind = types.Array(dtype.dtype, sizes, "C")

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        array = context.make_array(kind)(context, builder)
        itemsize = _I64(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        data = builder.inttoptr(args[0], array.data.type)
        shape = cgutils.unpack_tuple(builder, args[1], sizes) if isinstance(size, types.BaseTuple) else [args[1]]
        strides = [itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        arrayobj.populate_array(array, data, shape, strides, itemsize, None)
        return array._getvalue()

    given = types.UniTuple(types.int64, sizes) if isinstance(size, types.BaseTuple) else types.int64
    return kind(types.int64, given, dtype), codegen


@intrinsic
def as_word(typing_context: Any, value: Any) -> Any:
    """Return an integer as a word, and None as 0."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _I64(0) if value == types.none else context.cast(builder, args[0], value, types.int64)

    return types.int64(value), codegen


@intrinsic
def call(typing_context: Any, function: Any, a: Any, b: Any, c: Any) -> Any:
    """Call the native function of three words at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_I64, [_I64] * 3).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), args[1:])

    return types.int64(*[types.int64] * 4), codegen


@intrinsic
def acquire(typing_context: Any, address: Any) -> Any:
    """Read a word that another thread releases: what that thread wrote before is seen afterwards."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_pointer(builder, args[0]), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def release(typing_context: Any, address: Any, value: Any) -> Any:
    """Write a word for other threads, after all that this thread wrote before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store_atomic(args[1], _pointer(builder, args[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def yield_thread(typing_context: Any) -> Any:
    """Let another thread of the machine run."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_I32, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen
