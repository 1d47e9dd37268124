# SPDX-License-Identifier: Apache-2.0
"""Compute capabilities of GPUs, in any spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["capabilities"]

_CAPABILITY = re.compile(r"(?:sm_|compute_)?(?P<major>\d+?)\.?(?P<minor>\d)(?P<suffix>[a-z]?)")


def capabilities(value: str | float | Sequence[str | float], where: str) -> list[str]:
    """Return ["8.6", "9.0a"] for any spelling; `where` is the place of the argument, for errors."""
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    if not given:
        raise ValueError(f"{where}: {value!r} is not a compute capability; write '8.6', '86' or 'sm_86'")
    return [_capability(one, where) for one in given]


def _capability(value: str | float, where: str) -> str:
    found = _CAPABILITY.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"{where}: {value!r} is not a compute capability; write '8.6', '86' or 'sm_86'")
    major, minor, suffix = found["major"], found["minor"], found["suffix"]
    return f"{major}.{minor}{suffix}"
