# SPDX-License-Identifier: Apache-2.0
"""Numbers and columns as texts of a picture."""

from __future__ import annotations

from ..words import short

__all__ = ["axis_words", "number_text", "times_text"]

_TIMES = "\N{MULTIPLICATION SIGN}"
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))
_WORDS = {
    "mean_ms": "mean time of a call",
    "typical_ms": "typical time of a call",
    "median_ms": "median time of a call",
    "min_ms": "shortest time of a call",
    "std_ms": "standard deviation of the time of a call",
    "low_ms": "lower quartile of the time of a call",
    "high_ms": "upper quartile of the time of a call",
    "loop_ms": "time of the loop around a call",
    "peak_fraction": "share of the measured bandwidth",
    "label": "",  # categories need no label
    "_case": "",
}


def axis_words(column: str, unit: str = "") -> str:
    """Return the label of an axis.

    >>> axis_words("median_ms"), axis_words("throughput", "GB/s"), axis_words("n")
    ('median time of a call', 'throughput (GB/s)', 'n')
    """
    words = _WORDS.get(column, column)
    return f"{words} ({unit})" if unit else words


def times_text(factor: float) -> str:
    """Return a factor with two significant digits and a cross.

    >>> times_text(12.34)[:-1], times_text(1234)[:-1]
    ('12', '1200')
    """
    return f"{short(factor, 2)}{_TIMES}"


def number_text(number: float) -> str:
    """Return a number.

    >>> number_text(4000), number_text(0.1), number_text(2e6)
    ('4000', '0.1', '2M')
    """
    letter, scale = next((unit for unit in _LARGE if abs(number) >= unit[1]), ("", 1.0))
    return f"{short(number / scale, 6)}{letter}"
