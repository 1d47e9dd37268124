# SPDX-License-Identifier: Apache-2.0
"""The formats that matrices are turned into, by name: so no format's file imports another's to be turned into it."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["format_named", "named_format"]

T = TypeVar("T")

_FORMATS: dict[str, type] = {}


def named_format(cls: type[T]) -> type[T]:
    """Let other matrices be turned into this format; the room's `__init__` loads all of these."""
    _FORMATS[cls.__name__] = cls
    return cls


def format_named(name: str) -> Any:
    """Return the class of a format."""
    return _FORMATS[name]
