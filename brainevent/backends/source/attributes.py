# SPDX-License-Identifier: Apache-2.0
"""Attributes of a C++ function in the form of `jax.ffi`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._compat import unsigned_attribute
from ...ffi.scalars import HALVES

__all__ = ["attribute_value"]


def attribute_value(kind: str, data: bytes) -> Any:
    """Return an attribute for `jax.ffi`; half precision is passed as its bits."""
    value = np.frombuffer(data, "uint16" if kind in HALVES else kind)[0]
    return unsigned_attribute(int(value)) if kind == "uint64" else value
