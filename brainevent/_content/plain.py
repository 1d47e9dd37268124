# SPDX-License-Identifier: Apache-2.0
"""Plain values as bytes, which are equal if all bits are equal."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["KINDS", "PLAIN", "OpaqueError", "bytes_of", "digest_of"]

PLAIN = {bool: b"bool ", int: b"int ", str: b"str ", bytes: b"bytes ", type(None): b"NoneType "}  # written by repr
KINDS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), np.generic, np.dtype)


class OpaqueError(Exception):
    """The function captures an object without content; the text describes it."""


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return a hash of parts, each of which is delimited."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part))
        digest.update(part)
    return digest.digest()


def bytes_of(value: Any) -> bytes:
    """Return the type and the bits of a plain value, or of what of it is plain: its class may be a user's.

    >>> bytes_of(0.0) == bytes_of(-0.0)
    False
    """
    if word := PLAIN.get(type(value)):
        return word + repr(value).encode(errors="surrogatepass")
    kind = type(value).__qualname__.encode() + b" "
    if isinstance(value, np.generic):
        return kind + str(value.dtype).encode() + value.tobytes()
    if isinstance(value, complex):
        return kind + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, float):
        return kind + struct.pack("<d", value)
    base: Any = next((base for base in KINDS[:6] if isinstance(value, base)), type(value))
    return kind + base.__repr__(value).encode(errors="surrogatepass")
