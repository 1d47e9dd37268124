# SPDX-License-Identifier: Apache-2.0
"""Python numbers that are part of a program: converted to a declared type where that is exact."""

from __future__ import annotations

import math
from typing import Any

import jax
import ml_dtypes
import numpy as np

from ..errors import KernelArgumentError

__all__ = ["HALVES", "byte_size", "number_bytes"]

HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def number_bytes(where: str, kind: str, value: Any) -> bytes:
    """Return the bytes of `value` as the declared type; bytes distinguish 0.0 from -0.0 in a cache key."""
    if isinstance(value, (jax.Array, np.ndarray)):
        raise KernelArgumentError(
            f"{where} is an array ({value.dtype}{list(value.shape)}); it is fixed when a program is compiled: "
            "pass a Python number (under jit, name it in static_argnames), or make it an operand"
        )
    if not isinstance(value, (bool, int, float, np.generic)):
        raise KernelArgumentError(f"{where} is {value!r}, of {type(value).__name__}; pass a number")
    if kind in HALVES and isinstance(value, np.uint16):  # its bits, as plain `jax.ffi.ffi_call` needs them
        return value.tobytes()
    return _exact(where, kind, value).tobytes()


def _exact(where: str, kind: str, value: Any) -> np.generic:
    dtype = HALVES.get(kind) or np.dtype(kind)
    if isinstance(value, (bool, np.bool_)) or kind == "bool":
        if isinstance(value, (bool, np.bool_)) and kind == "bool":
            return np.bool_(value)
        expected = "True or False" if kind == "bool" else "a number"
        raise KernelArgumentError(f"{where} is {value!r}; it was declared {kind}: pass {expected}")
    if dtype.kind in "iu":
        return _integer(where, dtype, value)
    try:
        with np.errstate(over="ignore"):
            converted = dtype.type(value)
    except OverflowError:  # an integer beyond all floats
        converted = dtype.type(math.inf)
    number = float(converted)
    # A Python float (also np.float64) is rounded, as everywhere in JAX; all others must be exact.
    lost = math.isinf(number) and not (isinstance(value, (float, np.floating)) and math.isinf(value))
    if lost or (not isinstance(value, float) and not _same(number, value)):
        raise KernelArgumentError(
            f"{where} is {_shown(value)}, which {kind} cannot represent; pass another number, or declare a wider type"
        )
    return converted


def _integer(where: str, dtype: np.dtype[Any], value: Any) -> np.generic:
    limits = np.iinfo(dtype)
    is_whole = isinstance(value, (int, np.integer)) or (math.isfinite(value) and value == int(value))
    if not is_whole or not limits.min <= int(value) <= limits.max:
        raise KernelArgumentError(
            f"{where} is {_shown(value)}, which {dtype.name} cannot represent; pass a whole number from {limits.min} "
            f"to {limits.max}, or declare another type"
        )
    return dtype.type(int(value))


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def _same(number: float, value: Any) -> bool:
    plain = value.item() if isinstance(value, np.generic) else value  # NumPy would compare as floats
    return bool(number == plain) or (math.isnan(number) and math.isnan(plain))


def byte_size(x: Any) -> int:
    """Return the bytes of an array."""
    return math.prod(x.shape) * np.dtype(x.dtype).itemsize
