# SPDX-License-Identifier: Apache-2.0
"""Memory in native code: words, arrays and functions at addresses; elements prefetched, and many flags at once.

A *table* is an array of words of 64 bits, of which native code is given the address.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .internals import RequireLiteralValue, cgutils, row_major_array

__all__ = [
    "acquire", "add_to", "any_of", "array_at", "as_word", "call", "count_up", "count_within", "join_thread",
    "large_pages", "prefetch", "put", "release", "stack_memory", "start_thread", "unknown", "word", "yield_thread",
]  # fmt: skip

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTE = ir.IntType(8).as_pointer()
_LINE = 64  # bytes


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
        shape = cgutils.unpack_tuple(builder, args[1], sizes) if isinstance(size, types.BaseTuple) else [args[1]]
        return row_major_array(context, builder, kind, args[0], shape)

    given = types.UniTuple(types.int64, sizes) if isinstance(size, types.BaseTuple) else types.int64
    return kind(types.int64, given, dtype), codegen


@intrinsic
def stack_memory(typing_context: Any, words: Any) -> Any:
    """Return the address of some words, a literal number, in lines of a cache: memory of the function that calls this.

    It lives as long as this function runs, and has any content.
    """
    if not isinstance(words, types.IntegerLiteral):
        raise RequireLiteralValue("stack_memory takes a literal number")
    nbytes = 8 * words.literal_value + _LINE

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        with builder.goto_entry_block():  # not cgutils.alloca_once, which clears it in each turn of a loop
            memory = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
        begin = builder.add(builder.ptrtoint(memory, _I64), _I64(_LINE - 1))
        return builder.and_(begin, _I64(-_LINE))

    return types.int64(words), codegen


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
def unknown(typing_context: Any, number: Any) -> Any:
    """Return a number that LLVM does not know, also if it is a constant."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.asm(ir.FunctionType(_I64, [_I64]), "", "=r,0", args, False)  # moved from a register to itself

    return types.int64(types.int64), codegen


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
def add_to(typing_context: Any, address: Any, number: Any) -> Any:
    """Add a number to a word to which several threads add; return what it was before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "acq_rel")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def count_up(typing_context: Any, address: Any) -> Any:
    """Add 1 to a word that several threads count up; return what it was before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), _I64(1), "acq_rel")

    return types.int64(types.int64), codegen


def _of_threads(builder: ir.IRBuilder, name: str, args: Any) -> ir.Value:
    """Call a function of words of POSIX threads; return its status."""
    kind = ir.FunctionType(_I32, [_I64] * len(args))
    status = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)
    return builder.sext(status, _I64)


@intrinsic
def start_thread(typing_context: Any, handle: Any, function: Any, argument: Any) -> Any:
    """Run the native function of one word at an address in a thread, whose name is put at `handle`; 0 if it began."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _of_threads(builder, "pthread_create", [args[0], _I64(0), args[1], args[2]])

    return types.int64(*[types.int64] * 3), codegen


@intrinsic
def join_thread(typing_context: Any, thread: Any) -> Any:
    """Wait for the end of a thread, of which the name is given."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _of_threads(builder, "pthread_join", [args[0], _I64(0)])

    return types.int64(types.int64), codegen


@intrinsic
def yield_thread(typing_context: Any) -> Any:
    """Let another thread of the machine run."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_I32, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _address(context: Any, builder: ir.IRBuilder, array_type: Any, array: Any, index: Any) -> ir.Value:
    """Return the address of an element of a row-major array of one axis."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


_MADV_HUGEPAGE = 14  # of Linux


@intrinsic
def large_pages(typing_context: Any, begin: Any, nbytes: Any) -> Any:
    """Ask the system for large pages of memory that begins at a page, if it has any; nothing else changes."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if sys.platform == "linux":
            kind = ir.FunctionType(_I32, [_BYTE, _I64, _I32])
            function = cgutils.get_or_insert_function(builder.module, kind, "madvise")
            builder.call(function, [builder.inttoptr(args[0], _BYTE), args[1], _I32(_MADV_HUGEPAGE)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array[index]`; any index is allowed."""
    if not isinstance(array, types.Array) or array.ndim != 1 or array.layout != "C":
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        address = builder.bitcast(_address(context, builder, signature.args[0], *args), _BYTE)
        i32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [_BYTE, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [address, i32(0), i32(3), i32(1)])  # to read, keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@intrinsic
def any_of(typing_context: Any, flags: Any, start: Any, count: Any) -> Any:
    """Return whether one of `count` booleans, a literal, is true, from `flags[start]`, aligned or not."""
    if not isinstance(count, types.IntegerLiteral):
        raise RequireLiteralValue("any_of takes a literal count")
    if not isinstance(flags, types.Array) or flags.dtype != types.bool_ or flags.ndim != 1 or flags.layout != "C":
        return None
    word = ir.IntType(8 * count.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        address = builder.bitcast(_address(context, builder, signature.args[0], *args[:2]), word.as_pointer())
        return builder.icmp_unsigned("!=", builder.load(address, align=1), word(0))

    return types.bool_(flags, types.int64, count), codegen


@intrinsic
def count_within(typing_context: Any, numbers: Any, start: Any, count: Any, least: Any, span: Any) -> Any:
    """Return how many of up to 16 numbers, from `numbers[start]`, are from `least` to `least + span`, which may wrap.

    All arguments but `start` are uint32; all 16 numbers are read.
    """
    if not isinstance(numbers, types.Array) or numbers.dtype != types.uint32 or numbers.ndim != 1:
        return None
    kind = ir.VectorType(_I32, 16)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        def all_(value: ir.Value) -> ir.Value:
            first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _I32(0))
            return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ir.Constant(kind, [0] * 16))

        address = builder.bitcast(_address(context, builder, signature.args[0], *args[:2]), kind.as_pointer())
        after = builder.sub(builder.load(address, align=4), all_(args[3]))
        within = builder.bitcast(builder.icmp_unsigned("<=", after, all_(args[4])), ir.IntType(16))
        chosen = builder.sub(builder.shl(_I32(1), args[2]), _I32(1))
        return builder.zext(builder.ctpop(builder.and_(builder.zext(within, _I32), chosen)), _I64)

    return types.int64(numbers, types.int64, types.uint32, types.uint32, types.uint32), codegen
