# SPDX-License-Identifier: Apache-2.0
"""Compile the text of forms with Numba: without contraction, and with denormals flushed.

C's functions of float64 numbers are called for one number at a time: libraries of vector functions return other bits
for a number that is alone than for one among four, and then results would depend on where a thread's neurons begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..backends.numba import half
from ..backends.numba.floats import HARDWARE_FLUSHES, bits_of_float, double_of_bits, float_of_bits
from ..backends.numba.inner import inner
from ..backends.numba.internals import cgutils
from .float64 import PRIMITIVES_64
from .form import Form
from .numba_text import numba_text
from .primitives import ROUNDS_TO_SMALLEST, SMALLEST
from .text import all_functions

__all__ = ["FUNCTIONS_OF_C", "compiled_forms"]

_njit = inner(error_model="numpy", flushes=HARDWARE_FLUSHES)
_inlined = inner(error_model="numpy", flushes=HARDWARE_FLUSHES, later=True, forceinline=True)
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)
_ZERO = np.float32(0)


@_njit
def flush(x: Any) -> Any:
    """Return a float32 number, or a zero of its sign if it is a denormal: by bits, in two vector instructions."""
    bits = bits_of_float(x)
    return float_of_bits(bits if bits & _EXPONENT else bits & _SIGN)


@_njit
def product(x: Any, y: Any) -> Any:
    """Return the product of two float32 numbers, flushed without the help of the processor."""
    result = x * y
    tiny = (abs(result) == SMALLEST) & (abs(np.float64(x) * np.float64(y)) < ROUNDS_TO_SMALLEST)
    return result * _ZERO if tiny else flush(result)


@_njit
def quotient(x: Any, y: Any) -> Any:
    """Return the quotient of two float32 numbers, flushed without the help of the processor."""
    result = x / y
    tiny = (abs(result) == SMALLEST) & (abs(np.float64(x) / np.float64(y)) < ROUNDS_TO_SMALLEST)
    return result * _ZERO if tiny else flush(result)


@_njit
def bits_of(x: Any) -> Any:
    """Return the bits of a float32 number, the same for all NaN."""
    return np.uint32(0x7FC00000) if x != x else bits_of_float(x)  # noqa: PLR0124 - NaN alone differs


@_njit
def int32_of_float32(x: Any) -> Any:
    """Truncate and saturate; NaN gives 0."""
    inside = np.int32(x) if abs(x) < np.float32(2**31) else np.int32(0)
    return (
        np.int32(2**31 - 1) if x >= np.float32(2**31) else np.int32(-(2**31)) if x <= np.float32(-(2**31)) else inside
    )


@_njit
def uint32_of_float32(x: Any) -> Any:
    """Truncate and saturate; NaN gives 0."""
    inside = np.uint32(x) if (x > _ZERO) & (x < np.float32(2**32)) else np.uint32(0)
    return np.uint32(2**32 - 1) if x >= np.float32(2**32) else inside


@_njit
def div_int32(a: Any, b: Any) -> Any:
    """Truncate; x / 0 is -1."""
    if b == 0:
        return np.int32(-1)
    quotient = abs(np.int64(a)) // abs(np.int64(b))
    return np.int32(quotient if (a < 0) == (b < 0) else -quotient)


@_njit
def rem_int32(a: Any, b: Any) -> Any:
    """Return what is left of a, with its sign; x % 0 is x."""
    if b == 0:
        return a
    rest = abs(np.int64(a)) % abs(np.int64(b))
    return np.int32(-rest if a < 0 else rest)


@_njit
def div_uint32(a: Any, b: Any) -> Any:
    """Truncate; x / 0 has all bits set."""
    return np.uint32(2**32 - 1) if b == 0 else np.uint32(a // b)


@_njit
def rem_uint32(a: Any, b: Any) -> Any:
    """Return what is left of a; x % 0 is x."""
    return a if b == 0 else np.uint32(a % b)


@_njit
def shift_left_uint32(a: Any, n: Any) -> Any:
    """Shift; by 32 and more to 0."""
    return np.uint32(np.uint32(a) << (np.uint32(n) & np.uint32(31))) if np.uint32(n) < 32 else np.uint32(0)


@_njit
def shift_right_logical_uint32(a: Any, n: Any) -> Any:
    """Shift; by 32 and more to 0."""
    return np.uint32(np.uint32(a) >> (np.uint32(n) & np.uint32(31))) if np.uint32(n) < 32 else np.uint32(0)


@_njit
def shift_right_arithmetic_int32(a: Any, n: Any) -> Any:
    """Shift; by 32 and more to the sign."""
    return np.int32(np.int32(a) >> np.int32(np.uint32(n) if np.uint32(n) < np.uint32(31) else np.uint32(31)))


@_njit
def shift_left_int32(a: Any, n: Any) -> Any:
    """Shift as if without a sign."""
    return np.int32(shift_left_uint32(a, n))


@_njit
def shift_right_logical_int32(a: Any, n: Any) -> Any:
    """Shift as if without a sign."""
    return np.int32(shift_right_logical_uint32(a, n))


@_njit
def shift_right_arithmetic_uint32(a: Any, n: Any) -> Any:
    """Shift as if with a sign."""
    return np.uint32(shift_right_arithmetic_int32(a, n))


@_njit
def mul_high_uint32(a: Any, b: Any) -> Any:
    """Return the high half of a product."""
    return np.uint32((np.uint64(a) * np.uint64(b)) >> np.uint64(32))


@_njit
def mul_high_int32(a: Any, b: Any) -> Any:
    """Return the high half of a product."""
    return np.int32((np.int64(a) * np.int64(b)) >> np.int64(32))


@_njit
def bit_count_uint32(a: Any) -> Any:
    """Count the bits that are set: in pairs, fours and eights."""
    a = np.uint32(a - ((a >> 1) & np.uint32(0x55555555)))
    a = np.uint32((a & np.uint32(0x33333333)) + ((a >> 2) & np.uint32(0x33333333)))
    a = np.uint32((a + (a >> 4)) & np.uint32(0x0F0F0F0F))
    return np.uint32(np.uint32(a * np.uint32(0x01010101)) >> 24)


@_njit
def bit_count_int32(a: Any) -> Any:
    """Count the bits that are set."""
    return np.int32(bit_count_uint32(np.uint32(a)))


# ---- integers of 64 bits


@_njit
def int64_of_float32(x: Any) -> Any:
    """Truncate and saturate; NaN gives 0. The number may also be a float64."""
    inside = np.int64(x) if abs(x) < np.float32(2.0**63) else np.int64(0)
    low = np.int64(-(2**63)) if x <= np.float32(-(2.0**63)) else inside
    return np.int64(2**63 - 1) if x >= np.float32(2.0**63) else low


@_njit
def uint64_of_float32(x: Any) -> Any:
    """Truncate and saturate; NaN gives 0. The number may also be a float64."""
    inside = np.uint64(x) if (x > _ZERO) & (x < np.float32(2.0**64)) else np.uint64(0)
    return np.uint64(2**64 - 1) if x >= np.float32(2.0**64) else inside


@_njit
def _magnitude(a: Any) -> Any:
    return np.uint64(-a) if a < 0 else np.uint64(a)


@_njit
def div_int64(a: Any, b: Any) -> Any:
    """Truncate; x / 0 is -1."""
    if b == 0:
        return np.int64(-1)
    quotient = np.int64(_magnitude(a) // _magnitude(b))
    return quotient if (a < 0) == (b < 0) else -quotient


@_njit
def rem_int64(a: Any, b: Any) -> Any:
    """Return what is left of a, with its sign; x % 0 is x."""
    if b == 0:
        return a
    rest = np.int64(_magnitude(a) % _magnitude(b))
    return -rest if a < 0 else rest


@_njit
def div_uint64(a: Any, b: Any) -> Any:
    """Truncate; x / 0 has all bits set."""
    return np.uint64(2**64 - 1) if b == 0 else a // b


@_njit
def rem_uint64(a: Any, b: Any) -> Any:
    """Return what is left of a; x % 0 is x."""
    return a if b == 0 else a % b


@_njit
def shift_left_uint64(a: Any, n: Any) -> Any:
    """Shift; by 64 and more to 0."""
    return np.uint64(a) << (np.uint64(n) & np.uint64(63)) if np.uint64(n) < np.uint64(64) else np.uint64(0)


@_njit
def shift_right_logical_uint64(a: Any, n: Any) -> Any:
    """Shift; by 64 and more to 0."""
    return np.uint64(a) >> (np.uint64(n) & np.uint64(63)) if np.uint64(n) < np.uint64(64) else np.uint64(0)


@_njit
def shift_right_arithmetic_int64(a: Any, n: Any) -> Any:
    """Shift; by 64 and more to the sign."""
    return np.int64(a) >> np.int64(np.uint64(n) if np.uint64(n) < np.uint64(63) else np.uint64(63))


@_njit
def shift_left_int64(a: Any, n: Any) -> Any:
    """Shift as if without a sign."""
    return np.int64(shift_left_uint64(a, n))


@_njit
def shift_right_logical_int64(a: Any, n: Any) -> Any:
    """Shift as if without a sign."""
    return np.int64(shift_right_logical_uint64(a, n))


@_njit
def shift_right_arithmetic_uint64(a: Any, n: Any) -> Any:
    """Shift as if with a sign."""
    return np.uint64(shift_right_arithmetic_int64(a, n))


@_njit
def bit_count_uint64(a: Any) -> Any:
    """Count the bits that are set."""
    halves = np.uint32(a & np.uint64(0xFFFFFFFF)), np.uint32(a >> np.uint64(32))
    return np.uint64(bit_count_uint32(halves[0]) + bit_count_uint32(halves[1]))


@_njit
def bit_count_int64(a: Any) -> Any:
    """Count the bits that are set."""
    return np.int64(bit_count_uint64(np.uint64(a)))


# ---- floats of 16 bits, which are held in 32


@_njit
def rounded_float16(x: Any) -> Any:
    """Return the nearest number that a float16 holds."""
    return half.from_float16(half.to_float16(x))


@_njit
def rounded_bfloat16(x: Any) -> Any:
    """Return the nearest number that a bfloat16 holds."""
    return half.from_bfloat16(half.to_bfloat16(x))


_HELPERS = {name: value for name, value in globals().items() if re.match("[a-z]", name) and hasattr(value, "py_func")}


def compiled_forms(
    forms: Iterable[Form], *, by_hand: bool = not HARDWARE_FLUSHES, inlined: bool = False
) -> dict[str, Any]:
    """Return a Numba function of scalars for each form, by its name: it returns the outputs.

    Compiled code alone may call it, in a thread that flushes denormals (`flush_floats`), or if they are flushed
    `by_hand`. Float inputs that are denormals must be flushed by the caller: `flush`. Functions that are `inlined` are
    optimized as parts of the loops that call them.
    """
    forms = list(forms)
    scope: dict[str, Any] = {"np": np, "float_of_bits": float_of_bits, "double_of_bits": double_of_bits}
    scope |= _HELPERS | FUNCTIONS_OF_C
    exec(compile(numba_text(forms, by_hand=by_hand), "<rule>", "exec"), scope)
    compile_ = _inlined if inlined else _njit
    for form in [*all_functions(forms), *forms]:
        scope[f"be_{form.name}"] = compile_(scope[f"be_{form.name}"])
    return {form.name: scope[f"be_{form.name}"] for form in forms}


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
