# SPDX-License-Identifier: Apache-2.0
"""Calls in Numba's threads, without Numba's own parallel loops: these take a second or two to compile, each."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .internals import cgutils, target_context

__all__ = ["side_by_side"]

_I64 = ir.IntType(64)
_BYTES, _WORDS = ir.IntType(8).as_pointer(), _I64.as_pointer()
_PART = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _WORDS, _WORDS, _BYTES])
_FOR = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_I64] * 3)


@intrinsic
def side_by_side(typing_context: Any, function: Any, count: Any, table: Any, threads: Any) -> Any:
    """Call `function(number, address of table)` for all numbers below `count`, at least 1; errors are ignored.

    Numba frees an array after its last use: so it is the array that is passed, not its address.
    """
    if not isinstance(function, types.Dispatcher) or not isinstance(table, types.Array):
        return None
    of_words = types.int64, types.int64
    function.get_call_type(typing_context, of_words, {})
    compiled = function.dispatcher.overloads[of_words]

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        _, count, words, threads = args
        word = builder.ptrtoint(context.make_array(table)(context, builder, words).data, _I64)
        context.add_linking_libs([compiled.library])
        part = _part(builder.module, f"{builder.function.name}_part", compiled)
        given = cgutils.alloca_once(builder, _BYTES, size=_I64(2))
        builder.store(ir.Constant(_BYTES, None), given)
        builder.store(builder.inttoptr(word, _BYTES), builder.gep(given, [_I64(1)]))
        # The first pointer grows by one for each call: it is the number.
        sizes, apart = cgutils.alloca_once(builder, _I64), cgutils.alloca_once(builder, _I64, size=_I64(2))
        builder.store(count, sizes)
        for k, bytes_ in enumerate((1, 0)):
            builder.store(_I64(bytes_), builder.gep(apart, [_I64(k)]))
        run = cgutils.get_or_insert_function(builder.module, _FOR, "numba_parallel_for")
        pointers = [builder.bitcast(x, _BYTES) for x in (part, given, sizes, apart)]
        builder.call(run, [*pointers, ir.Constant(_BYTES, None), _I64(0), _I64(2), threads])
        return context.get_dummy_value()

    return types.void(function, types.int64, table, types.int64), codegen


def _part(module: ir.Module, name: str, compiled: Any) -> ir.Function:
    """Define what a thread calls: the function for some numbers that follow each other."""
    part = ir.Function(module, _PART, name)
    part.linkage = "internal"
    builder = ir.IRBuilder(part.append_basic_block("entry"))
    given, sizes, _, _ = part.args
    first = builder.ptrtoint(builder.load(given), _I64)
    word = builder.ptrtoint(builder.load(builder.gep(given, [_I64(1)])), _I64)
    with cgutils.for_range(builder, builder.load(sizes), intp=_I64) as loop:
        arguments = [builder.add(first, loop.index), word]
        target_context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, arguments)
    builder.ret_void()
    return part
