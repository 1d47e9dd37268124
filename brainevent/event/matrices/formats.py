# SPDX-License-Identifier: Apache-2.0
"""Matrix formats by name; conversions use this table, so that files of formats need not import each other."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["format_named", "named_format"]

T = TypeVar("T")

_FORMATS: dict[str, type] = {}


def named_format(cls: type[T]) -> type[T]:
    """Let matrices be converted to this format; the room's `__init__` imports all such formats."""
    _FORMATS[cls.__name__] = cls
    return cls


def format_named(name: str) -> Any:
    """Return the class of a format."""
    return _FORMATS[name]
