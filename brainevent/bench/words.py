# SPDX-License-Identifier: Apache-2.0
"""Times and tables, written for readers."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["columns", "short", "time_text"]

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def time_text(seconds: float, micro: str = "u") -> str:
    """Return a time with three significant digits and a suitable unit.

    >>> time_text(0.0123), time_text(2.5e-6)
    ('12.3 ms', '2.5 us')
    """
    name, scale = next((unit for unit in _SECONDS if seconds >= unit[1]), _SECONDS[-1])
    return f"{short(seconds / scale, 3)} {name.replace('u', micro)}"


def short(number: float, digits: int) -> str:
    """Round to some digits, without an exponent if the number is readable without one."""
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:.0f}" if rounded == math.trunc(rounded) and abs(rounded) < 1e9 else f"{rounded:g}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out rows in columns; those in `right` are right-aligned.

    >>> print(columns([("name", "age"), ("a", "10 h")], right=[1]))
    name   age
    a     10 h
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
