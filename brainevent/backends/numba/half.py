# SPDX-License-Identifier: Apache-2.0
"""Read and write float16 and bfloat16 in Numba kernels.

Numba computes in neither on the CPU. Elements of such arrays can be copied, and converted by these functions.
Arithmetic with them does not compile.

>>> import jax, jax.numpy as jnp, numba, brainevent
>>> from brainevent import half
>>> @numba.njit
... def double(x, out):
...     for i in range(x.size):
...         out[i] = half.to_bfloat16(2 * half.from_bfloat16(x[i]))
>>> x = jnp.arange(3, dtype=jnp.bfloat16)
>>> brainevent.numba_kernel(double, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
Array([0, 2, 4], dtype=bfloat16)
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_cast, models, register_model

from .internals import element

__all__ = ["from_bfloat16", "from_float16", "to_bfloat16", "to_float16"]


class Half(types.Type):  # type: ignore[misc]
    """The Numba type of an element: 16 bits without arithmetic."""


FLOAT16, BFLOAT16 = Half("float16"), Half("bfloat16")


@register_model(Half)
class _HalfModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, ir.IntType(16))


@lower_cast(types.Array, Half)  # type: ignore[untyped-decorator]
def _only_element(context: Any, builder: ir.IRBuilder, source: Any, target: Any, value: Any) -> ir.Value:
    """Let `out[...] = x` copy arrays of rank 0, as it does for numbers."""
    return element(context, builder, source, value)


def _bitcast(result: Any, *accepted: Any) -> Any:
    """Make an intrinsic that reads the bits of a value as another type."""

    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        if value not in accepted:
            return None
        kind = {types.float32: ir.FloatType(), types.uint32: ir.IntType(32)}.get(result, ir.IntType(16))

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return builder.bitcast(args[0], kind)

        return result(value), codegen

    return cast


_as_float = _bitcast(types.float32, types.uint32)
_as_bits = _bitcast(types.uint32, types.float32)
_bits_of_float16 = _bitcast(types.uint16, FLOAT16)
_bits_of_bfloat16 = _bitcast(types.uint16, BFLOAT16)
_float16 = _bitcast(FLOAT16, types.uint16)
_bfloat16 = _bitcast(BFLOAT16, types.uint16)


@numba.njit
def from_bfloat16(element: Any) -> Any:
    """Return a bfloat16 as float32."""
    return _as_float(np.uint32(np.uint32(_bits_of_bfloat16(element)) << np.uint32(16)))


@numba.njit
def to_bfloat16(number: Any) -> Any:
    """Return the bfloat16 nearest to a number; ties go to the even one."""
    bits = _as_bits(np.float32(number))
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):  # NaN stays NaN
        return _bfloat16(np.uint16((bits >> np.uint32(16)) | np.uint32(0x40)))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return _bfloat16(np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)))


@numba.njit
def from_float16(element: Any) -> Any:
    """Return a float16 as float32."""
    wide = np.uint32(_bits_of_float16(element))
    sign, rest = (wide & np.uint32(0x8000)) << np.uint32(16), wide & np.uint32(0x7FFF)
    if rest >= np.uint32(0x7C00):  # infinity and NaN
        return _as_float(np.uint32(sign | np.uint32(0x7F800000) | ((rest & np.uint32(0x3FF)) << np.uint32(13))))
    if rest < np.uint32(0x400):  # zero and subnormals; XLA's threads flush those of float32, so make none on the way
        return _as_float(np.uint32(sign | _as_bits(np.float32(rest) * np.float32(2.0**-24))))
    return _as_float(np.uint32(sign | ((rest << np.uint32(13)) + np.uint32(112 << 23))))


@numba.njit
def to_float16(number: Any) -> Any:
    """Return the float16 nearest to a number; ties go to the even one."""
    bits = _as_bits(np.float32(number))
    sign, rest = (bits >> np.uint32(16)) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
    if rest > np.uint32(0x7F800000):  # NaN stays NaN
        return _float16(np.uint16(sign | np.uint32(0x7E00)))
    if rest >= np.uint32(0x477FF000):  # rounds to more than the largest, 65504
        return _float16(np.uint16(sign | np.uint32(0x7C00)))
    if rest < np.uint32(0x38800000):  # below the smallest normal: let the addition round
        aligned = _as_bits(_as_float(np.uint32(rest)) + np.float32(0.5)) - np.uint32(0x3F000000)
        return _float16(np.uint16(sign | np.uint32(aligned)))
    odd = (rest >> np.uint32(13)) & np.uint32(1)
    rounded = np.uint32(rest + np.uint32(0xFFF) + odd) >> np.uint32(13)
    return _float16(np.uint16(sign | np.uint32(rounded - np.uint32(0x1C000))))


def __dir__() -> list[str]:
    return sorted(__all__)
