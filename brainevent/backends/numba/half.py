# SPDX-License-Identifier: Apache-2.0
"""Read and write float16 and bfloat16 in Numba kernels, which see these arrays as their bits, in uint16.

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
from numba.core import types
from numba.extending import intrinsic

__all__ = ["from_bfloat16", "from_float16", "to_bfloat16", "to_float16"]


@intrinsic
def _as_float(typing_context: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@intrinsic
def _as_bits(typing_context: Any, number: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), codegen


@numba.njit
def from_bfloat16(bits: Any) -> Any:
    """Return the float32 of a bfloat16's bits."""
    return _as_float(np.uint32(np.uint32(bits) << np.uint32(16)))


@numba.njit
def to_bfloat16(number: Any) -> Any:
    """Return the bits of the bfloat16 nearest to a number; ties go to the even one."""
    bits = _as_bits(np.float32(number))
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):  # NaN stays NaN
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@numba.njit
def from_float16(bits: Any) -> Any:
    """Return the float32 of a float16's bits."""
    wide = np.uint32(bits)
    sign, rest = (wide & np.uint32(0x8000)) << np.uint32(16), wide & np.uint32(0x7FFF)
    if rest >= np.uint32(0x7C00):  # infinity and NaN
        return _as_float(np.uint32(sign | np.uint32(0x7F800000) | ((rest & np.uint32(0x3FF)) << np.uint32(13))))
    if rest < np.uint32(0x400):  # zero and subnormals; XLA's threads flush those of float32, so make none on the way
        return _as_float(np.uint32(sign | _as_bits(np.float32(rest) * np.float32(2.0**-24))))
    return _as_float(np.uint32(sign | ((rest << np.uint32(13)) + np.uint32(112 << 23))))


@numba.njit
def to_float16(number: Any) -> Any:
    """Return the bits of the float16 nearest to a number; ties go to the even one."""
    bits = _as_bits(np.float32(number))
    sign, rest = (bits >> np.uint32(16)) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
    if rest > np.uint32(0x7F800000):  # NaN stays NaN
        return np.uint16(sign | np.uint32(0x7E00))
    if rest >= np.uint32(0x477FF000):  # rounds to more than the largest, 65504
        return np.uint16(sign | np.uint32(0x7C00))
    if rest < np.uint32(0x38800000):  # below the smallest normal: let the addition round
        aligned = _as_bits(_as_float(np.uint32(rest)) + np.float32(0.5)) - np.uint32(0x3F000000)
        return np.uint16(sign | np.uint32(aligned))
    odd = (rest >> np.uint32(13)) & np.uint32(1)
    rounded = np.uint32(rest + np.uint32(0xFFF) + odd) >> np.uint32(13)
    return np.uint16(sign | np.uint32(rounded - np.uint32(0x1C000)))
