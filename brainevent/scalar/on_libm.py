# SPDX-License-Identifier: Apache-2.0
"""C's functions of float64 numbers in compiled code, each called for one number at a time.

Libraries of vector functions return other bits for a number that is alone than for one among four: then results would
depend on where a thread's neurons begin. So the compiler must not know what these functions are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .float64 import PRIMITIVES_64

__all__ = ["FUNCTIONS_OF_C"]

_DOUBLE = ir.DoubleType()


def _codegen(name: str, count: int) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * count)
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        function.attributes.add("nobuiltin")
        return builder.call(function, args)

    return codegen


def _unary(name: str) -> Any:
    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        return types.float64(types.float64), _codegen(name, 1)

    return function


def _binary(name: str) -> Any:
    @intrinsic
    def function(typing_context: Any, x: Any, y: Any) -> Any:
        return types.float64(types.float64, types.float64), _codegen(name, 2)

    return function


_OF_TWO = ("atan2", "nextafter", "pow")
# By the name of the primitive.
FUNCTIONS_OF_C = {
    primitive: (_binary if primitive.removesuffix("_float64") in _OF_TWO else _unary)(
        primitive.removesuffix("_float64")
    )
    for primitive in PRIMITIVES_64
}
