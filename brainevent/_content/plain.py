# SPDX-License-Identifier: Apache-2.0
"""Plain values as bytes: two of them are equal where all bits are."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

__all__ = ["KINDS", "bytes_of"]

KINDS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), np.generic, np.dtype)


def bytes_of(value: Any) -> bytes:
    """Return the type and the bits of a plain value, or of what of it is plain: its class may be a user's.

    >>> bytes_of(0.0) == bytes_of(-0.0)
    False
    """
    kind = type(value).__qualname__.encode() + b" "
    if isinstance(value, np.generic):
        return kind + str(value.dtype).encode() + value.tobytes()
    if isinstance(value, complex):
        return kind + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, float):
        return kind + struct.pack("<d", value)
    base: Any = next((base for base in KINDS[:6] if isinstance(value, base)), type(value))
    return kind + base.__repr__(value).encode(errors="surrogatepass")
