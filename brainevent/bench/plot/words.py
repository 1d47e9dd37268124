# SPDX-License-Identifier: Apache-2.0
"""Numbers and columns, written as a picture shows them."""

from __future__ import annotations

import math

__all__ = ["axis_words", "number_text", "time_text", "times_text"]

_TIMES = "\N{MULTIPLICATION SIGN}"
_SECONDS = (("s", 1e3), ("ms", 1.0), ("\N{MICRO SIGN}s", 1e-3))  # in milliseconds, as records have them
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))
_WORDS = {
    "mean_ms": "mean time of a call",
    "median_ms": "median time of a call",
    "min_ms": "shortest time of a call",
    "std_ms": "standard deviation of the time of a call",
    "low_ms": "lower quartile of the time of a call",
    "high_ms": "upper quartile of the time of a call",
    "loop_ms": "time of the loop around a call",
    "peak_fraction": "share of the measured bandwidth",
    "label": "",  # the categories speak for themselves
}


def axis_words(column: str, unit: str = "") -> str:
    """Return what is written beside an axis.

    >>> axis_words("median_ms"), axis_words("throughput", "GB/s"), axis_words("n")
    ('median time of a call', 'throughput (GB/s)', 'n')
    """
    words = _WORDS.get(column, column)
    return f"{words} ({unit})" if unit else words


def time_text(milliseconds: float) -> str:
    """Return a time with the unit that suits it.

    >>> time_text(1500), time_text(25)
    ('1.5 s', '25 ms')
    """
    name, scale = next((unit for unit in _SECONDS if milliseconds >= unit[1]), _SECONDS[-1])
    return f"{_short(milliseconds / scale, 3)} {name}"


def times_text(factor: float) -> str:
    """Return a factor, in two digits that count and a cross.

    >>> times_text(12.34)[:-1], times_text(1234)[:-1]
    ('12', '1200')
    """
    return f"{_short(factor, 2)}{_TIMES}"


def number_text(number: float) -> str:
    """Return a number.

    >>> number_text(4000), number_text(0.1), number_text(2e6)
    ('4000', '0.1', '2M')
    """
    letter, scale = next((unit for unit in _LARGE if abs(number) >= unit[1]), ("", 1.0))
    return f"{_short(number / scale, 6)}{letter}"


def _short(number: float, digits: int) -> str:
    """Round to some digits, and write no exponent for a number that is read without."""
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:.0f}" if rounded == math.trunc(rounded) and abs(rounded) < 1e9 else f"{rounded:g}"
