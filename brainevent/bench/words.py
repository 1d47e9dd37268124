# SPDX-License-Identifier: Apache-2.0
"""Times and tables, written for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["TimeUnit", "columns", "short", "time_text"]

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def time_text(seconds: float, micro: str = "u") -> str:
    """Return a time with three significant digits and a suitable unit.

    >>> time_text(0.0123), time_text(2.5e-6)
    ('12.3 ms', '2.5 us')
    """
    name, scale = next((unit for unit in _SECONDS if seconds >= unit[1]), _SECONDS[-1])
    return f"{short(seconds / scale, 3)} {name.replace('u', micro)}"


@dataclass(frozen=True)
class TimeUnit:
    """The unit of the times of a table, so many of which make a millisecond, and their decimals."""

    name: str
    per_ms: float
    decimals: int

    @classmethod
    def of(cls, times_ms: Iterable[float]) -> TimeUnit:
        """Return the unit in which the shortest of some times has three digits, at most milliseconds.

        >>> TimeUnit.of([0.0003, 12.5]).cell(0.0003), TimeUnit.of([12.5]).cell(12.5)
        ('0.300', '12.5000')
        """
        least = min((time for time in times_ms if time > 0), default=math.inf)  # NaN is above nothing
        return next((unit for unit in _IN_TABLES if least * unit.per_ms >= _LEAST * 10**-unit.decimals), _IN_TABLES[-1])

    def cell(self, time_ms: float) -> str:
        """Return a time in this unit."""
        return f"{time_ms * self.per_ms:.{self.decimals}f}"

    def title(self, column: str) -> str:
        """Return the title of a column of times, whose name ends with `ms`."""
        return column.removesuffix("ms") + self.name


_LEAST = 100  # of the last digit: three digits
_IN_TABLES = (TimeUnit("ms", 1, 4), TimeUnit("us", 1e3, 3), TimeUnit("ns", 1e6, 2))


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
