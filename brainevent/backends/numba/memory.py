# SPDX-License-Identifier: Apache-2.0
"""Memory operations that Numba lacks: prefetch elements, and test many flags at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

__all__ = ["any_of", "prefetch"]

_BYTE = ir.IntType(8).as_pointer()


def _address(context: Any, builder: ir.IRBuilder, array_type: Any, array: Any, index: Any) -> ir.Value:
    """Return the address of an element of a row-major array of one axis."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


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
