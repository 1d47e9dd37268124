# SPDX-License-Identifier: Apache-2.0
"""The bits of floats, and how a processor computes with them: native code sets it, and sets it back."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .internals import cgutils

__all__ = [
    "HARDWARE_FLUSHES", "bits_of_float", "double_of_bits", "float_of_bits", "flush_floats", "flushing", "reading",
    "restore_floats", "restoring",
]  # fmt: skip

# ARM flushes what is denormal before it is rounded, so otherwise than GPUs.
HARDWARE_FLUSHES = platform.machine() in ("x86_64", "AMD64")

_FLUSHING = 0x9FC0  # round to nearest, flush denormals of operands and of results, no traps
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


@intrinsic
def bits_of_float(typing_context: Any, x: Any) -> Any:
    """Return the bits of a float32 number."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], _I32)

    return types.uint32(types.float32), codegen


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float32 number of these bits."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@intrinsic
def double_of_bits(typing_context: Any, bits: Any) -> Any:
    """Return the float64 number of these bits."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


def _control(builder: ir.IRBuilder, name: str, value: Any = None) -> Any:
    """Read or write the register that says how x86 computes floats."""
    cell = cgutils.alloca_once(builder, _I32)
    if value is not None:
        builder.store(value, cell)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(cell, _BYTES)])
    return builder.load(cell)


def reading(builder: ir.IRBuilder) -> ir.Value:
    """Return how the thread computes."""
    return builder.zext(_control(builder, "stmxcsr"), _I64) if HARDWARE_FLUSHES else _I64(0)


def flushing(builder: ir.IRBuilder) -> ir.Value:
    """Write code that rounds to nearest and flushes denormals from here on; return how the thread computed before."""
    before = reading(builder)
    if HARDWARE_FLUSHES:
        _control(builder, "ldmxcsr", _I32(_FLUSHING))
    return before


def restoring(builder: ir.IRBuilder, before: ir.Value) -> None:
    """Write code that computes as before."""
    if HARDWARE_FLUSHES:
        _control(builder, "ldmxcsr", builder.trunc(before, _I32))


@intrinsic
def flush_floats(typing_context: Any) -> Any:
    """Let this thread round to nearest and flush denormals; return how it computed before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return flushing(builder)

    return types.int64(), codegen


@intrinsic
def restore_floats(typing_context: Any, before: Any) -> Any:
    """Let this thread compute as it did before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        restoring(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
