# SPDX-License-Identifier: Apache-2.0
"""Kernels that loop for long, and look for Ctrl-C now and then: `ffi.pulse` for Numba functions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...ffi.pulse import SYMBOL, WORDS
from .internals import cgutils

__all__ = ["next_pulse", "pulse_memory"]

_I64 = ir.IntType(64)


@intrinsic
def pulse_memory(typing_context: Any) -> Any:
    """Return the address of the memory of a loop, which is that of the function that calls this."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.ArrayType(_I64, WORDS)
        memory = cgutils.alloca_once(builder, kind)
        builder.store(ir.Constant(kind, None), memory)
        return builder.ptrtoint(memory, _I64)

    return types.int64(), codegen


@intrinsic
def next_pulse(typing_context: Any, memory: Any, step: Any, steps: Any) -> Any:
    """Return the step of the next pulse of a loop, or -1 if it must end; only one with `steps` shows its progress."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_I64, [_I64] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, SYMBOL), args)

    return types.int64(*[types.int64] * 3), codegen
