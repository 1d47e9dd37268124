# SPDX-License-Identifier: Apache-2.0
"""Integers of 8 and 16 bits within a rule: engines hold them in 32 bits, with the value that JAX has.

After each operation whose result may need more bits, the result is wrapped to the width that it has in JAX.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .form import FLOATS, Operand, Writer, constant

__all__ = ["clamped_to", "high_product", "is_narrow", "seen_by", "wrapped_to"]

# Primitives of JAX whose result is one of their operands or of the inner jaxpr's results, or has fewer bits.
_KEEP = {
    *("copy", "copy_p", "stop_gradient", "max", "min", "and", "or", "xor", "select_n", "clamp", "rem", "sign"),
    *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "concatenate", "stack", "slice", "transpose", "rev"),
    *("iota", "empty", "tile", "pad", "split", "unstack", "optimization_barrier", "argmax", "argmin", "gather"),
    *("dynamic_slice", "dynamic_update_slice", "scatter", "while", "scan", "cond"),
    *("reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor", "cummax", "cummin"),
}
_OF_BITS = ("population_count", "shift_right_logical")  # of their first operand, without a sign


def is_narrow(dtype: Any) -> bool:
    """Say whether a dtype of JAX is an integer that engines hold in more bits than it has."""
    return str(dtype) in ("int8", "int16", "uint8", "uint16")


def wrapped_to(writer: Writer, primitive: str, dtype: Any, value: Operand) -> Operand:
    """Return the result of a primitive with the bits that it has in a narrow dtype."""
    return value if primitive in _KEEP else _wrapped(writer, dtype, value, signed=np.dtype(dtype).kind == "i")


def seen_by(writer: Writer, primitive: str, dtype: Any, value: Operand) -> Operand:
    """Return the first operand of a primitive, of a narrow dtype, with the bits on which the result depends."""
    if primitive in _OF_BITS:
        return _wrapped(writer, dtype, value, signed=False)
    if primitive == "shift_right_arithmetic":
        return _wrapped(writer, dtype, value, signed=True)
    if primitive == "clz":  # the bits at the top, and ones below, which end the count
        beyond = _bits_beyond(dtype)
        shifted = writer.emit("shift_left", value, constant(beyond, value.dtype))
        return writer.emit("or", shifted, constant((1 << beyond) - 1, value.dtype))
    return value


def high_product(writer: Writer, dtype: Any, a: Operand, b: Operand) -> Operand:
    """Return the high half of a product of a narrow dtype, which 32 bits hold."""
    shift = f"shift_right_{'arithmetic' if np.dtype(dtype).kind == 'i' else 'logical'}"
    return writer.emit(shift, writer.emit("mul", a, b), constant(np.iinfo(dtype).bits, a.dtype))


def clamped_to(writer: Writer, dtype: Any, value: Operand) -> Operand:
    """Return a float as an integer of a narrow dtype: truncated and saturated; NaN gives 0."""
    assert value.dtype in FLOATS
    bounds = np.iinfo(dtype)
    value = writer.emit("convert", value, dtype="int32")
    value = writer.emit("min", writer.emit("max", value, constant(bounds.min, "int32")), constant(bounds.max, "int32"))
    return writer.emit("convert", value, dtype="uint32") if bounds.min == 0 else value


def _bits_beyond(dtype: Any) -> int:
    return 32 - 8 * np.dtype(dtype).itemsize


def _wrapped(writer: Writer, dtype: Any, value: Operand, *, signed: bool) -> Operand:
    beyond, held = _bits_beyond(dtype), value.dtype
    if not signed:
        return writer.emit("and", value, constant((1 << (32 - beyond)) - 1, held))
    shifted = writer.emit("shift_left", value, constant(beyond, held))
    return writer.emit("shift_right_arithmetic", shifted, constant(beyond, held))
