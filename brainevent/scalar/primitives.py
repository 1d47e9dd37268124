# SPDX-License-Identifier: Apache-2.0
"""The primitives of the form and their exact meaning, as NumPy functions of arrays.

This is the one place where the meaning is decided; every engine must return the same bits.

- float32 operations round to nearest even, each by itself: no contraction.
- A result that would be below 2^-126 in magnitude, rounded to 24 bits as if exponents had no end, becomes a zero of its
  sign; inputs of a rule likewise. So do x86 and GPUs with their denormals flushed to zero.
- All NaN are the same NaN: no rule can distinguish them, and `bitcast` to an integer gives 0x7FC00000.
- `max(a, b)` is a if a > b or a is NaN, else b; `min` likewise: NaN propagates, of two zeros the second is returned.
- Integers wrap. `div` truncates; x / 0 is -1 (all bits set), x % 0 is x, -2^31 / -1 is -2^31. Those of rules have 32
  bits, and those of loops also 64.
- A shift by all bits or more (a negative amount counts as such) gives 0, or the sign for an arithmetic shift to the
  right.
- Floats to integers truncate and saturate; NaN gives 0. `rem` of floats is C's fmod.
- float64 operations round as float32 does, and no denormal of theirs is flushed by the interpreter; engines may. They
  have functions such as `exp_float64`, whose last bits are those of the library that an engine calls.
- `select(c, a, b)` is a where c holds, else b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .._pieces import PIECE, copied_in_pieces
from .float64 import PRIMITIVES_64

__all__ = ["PRIMITIVES", "ROUNDS_TO_SMALLEST", "SMALLEST", "applied", "apply", "flush", "flushed", "result_dtype"]

SMALLEST = np.float32(2**-126)  # the smallest normal number
ROUNDS_TO_SMALLEST = 2**-126 - 2**-151  # the smallest real number that 24 bits round to it
_NAN = np.uint32(0x7FC00000)
_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}

Array = Any


def flush(x: Array) -> Array:
    """Return float32 values with denormals replaced by zeros of their sign."""
    return np.where(np.abs(x) < SMALLEST, np.copysign(np.float32(0), x), x)


def flushed(x: Array) -> Array:
    """Return values as an array; of float32 numbers, denormals are replaced by zeros of their sign."""
    array = np.asarray(x)
    if array.dtype != np.float32:
        return array
    return copied_in_pieces(array, flush) if array.ndim == 1 and array.size > PIECE else flush(array)


def _without_tiny(operation: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """Return a product or quotient, and zeros where only denormals' coarse rounding made it the smallest number."""
    result = operation(a, b)
    at_edge = np.abs(result) == SMALLEST
    if not at_edge.any():
        return result
    edge = np.flatnonzero(at_edge)
    exact = operation(a[edge].astype(np.float64), b[edge].astype(np.float64))
    tiny = edge[np.abs(exact) < ROUNDS_TO_SMALLEST]
    result[tiny] = np.copysign(np.float32(0), result[tiny])
    return result


def _multiply(a: Array, b: Array) -> Array:
    return _without_tiny(np.multiply, a, b) if a.dtype == np.float32 else a * b


def _divide(a: Array, b: Array) -> Array:
    if a.dtype == np.float32:
        return _without_tiny(np.divide, a, b)
    if a.dtype == np.float64:
        return a / b
    divisor = np.where(b == 0, b.dtype.type(1), b)
    rounded_up = ((a < 0) != (b < 0)) & (np.fmod(a, divisor) != 0)  # NumPy rounds down
    return np.where(b == 0, ~np.zeros_like(a), a // divisor + rounded_up.astype(a.dtype))


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


def _shift(function: Any, a: Array, n: Array, beyond: Array) -> Array:
    amount, bits = n.view(_unsigned(n)), 8 * a.itemsize
    return np.where(amount < bits, function(a, np.minimum(amount, bits - 1).astype(a.dtype)), beyond)


def _unsigned(a: Array) -> str:
    return f"uint{8 * a.itemsize}"


def _shift_right_logical(a: Array, n: Array) -> Array:
    bits = a.view(_unsigned(a))
    return _shift(np.right_shift, bits, n, np.zeros_like(bits)).view(a.dtype)


def _shift_right_arithmetic(a: Array, n: Array) -> Array:
    signed = a.view(f"int{8 * a.itemsize}")
    return _shift(np.right_shift, signed, n, np.where(signed < 0, ~np.zeros_like(signed), 0)).view(a.dtype)


def _bit_count(a: Array) -> Array:
    return np.bitwise_count(a.view(_unsigned(a))).astype(a.dtype)


def _multiply_high(a: Array, b: Array) -> Array:
    wide = np.int64 if a.dtype == np.int32 else np.uint64
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


# By name: elementwise functions of arrays of equal shape, whose result has the dtype of the operands unless said.
PRIMITIVES: dict[str, Callable[..., Array]] = {
    "copy": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": _multiply,
    "mul_high": _multiply_high,  # the high half of a product of integers
    "div": _divide,
    "rem": _remainder,
    "neg": lambda a: -a,
    "abs": np.abs,
    "max": lambda a, b: np.where((a > b) | np.not_equal(a, a), a, b),
    "min": lambda a, b: np.where((a < b) | np.not_equal(a, a), a, b),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "round_to_float16": lambda a: a.astype(np.float16).astype(np.float32),  # in loops: what floats of 16 bits hold
    "round_to_bfloat16": lambda a: a.astype(ml_dtypes.bfloat16).astype(np.float32),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "shift_left": lambda a, n: _shift(np.left_shift, a, n, np.zeros_like(a)),
    "shift_right_logical": _shift_right_logical,
    "shift_right_arithmetic": _shift_right_arithmetic,
    "bit_count": _bit_count,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "select": np.where,
    **PRIMITIVES_64,
}


def _convert(x: Array, dtype: str) -> Array:
    if x.dtype.kind != "f" or dtype in ("bool", "float32", "float64"):
        return x.astype(dtype)
    bounds, wide = np.iinfo(dtype), np.trunc(x.astype(np.float64))
    low, high = wide <= float(bounds.min), wide >= float(bounds.max)  # of 64 bits, the bounds are no floats
    inside = np.where(low | high | np.isnan(wide), 0, wide).astype(dtype)
    return np.where(low, bounds.min, np.where(high, bounds.max, inside)).astype(dtype)


def _bitcast(x: Array, dtype: str) -> Array:
    if x.dtype == np.float32:
        return np.where(np.isnan(x), _NAN, x.view(np.uint32)).view(dtype)
    return x.view(dtype)


def result_dtype(op: str, operand_dtypes: tuple[str, ...]) -> str:
    """Return the dtype of a primitive's result; that of `convert` and `bitcast` is chosen by the line."""
    return "bool" if op in _COMPARISONS else operand_dtypes[-1 if op == "select" else 0]


def apply(op: str, dtype: str, operands: tuple[Array, ...]) -> Array:
    """Apply a primitive to arrays of one dimension and equal length, where dtype is that of the result."""
    with np.errstate(all="ignore"):
        return applied(op, dtype, operands)


def applied(op: str, dtype: str, operands: tuple[Array, ...]) -> Array:
    """Do as `apply`, where the caller sees to it that NumPy does not warn."""
    if op == "convert":
        result = _convert(operands[0], dtype)
    elif op == "bitcast":
        result = _bitcast(operands[0], dtype)
    else:
        result = PRIMITIVES[op](*operands)
    return flush(result) if dtype == "float32" else result
