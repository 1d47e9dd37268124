# SPDX-License-Identifier: Apache-2.0
"""The vertical axis of a picture: a column, a speed-up, or operations per second."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import did_you_mean
from ..rows import METRICS, Row, Rows, key_of
from ..words import short, time_text
from .style import WHERE

__all__ = [
    "Quantity",
    "Span",
    "axis_words",
    "column",
    "is_number",
    "number_text",
    "performance",
    "speedup",
    "times_text",
]

_SIGN = "\N{MULTIPLICATION SIGN}"
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
Span = tuple[float, float, float]  # a value, and the ends of its spread
_NONE: Span = (math.nan, math.nan, math.nan)
_TIMES = ("mean_ms", "median_ms", "min_ms")
_SPREADS = {"median_ms": "hold the middle half of the runs", "mean_ms": "reach one standard deviation to each side"}
_SPREADS["typical_ms"] = ", or ".join(_SPREADS.values())


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
    return f"{short(factor, 2)}{_SIGN}"


def number_text(number: float) -> str:
    """Return a number.

    >>> number_text(4000), number_text(0.1), number_text(2e6)
    ('4000', '0.1', '2M')
    """
    letter, scale = next((unit for unit in _LARGE if abs(number) >= unit[1]), ("", 1.0))
    return f"{short(number / scale, 6)}{letter}"


@dataclass(frozen=True)
class Quantity:
    """A number of each row, with its spread, and how it is written."""

    words: str
    of: Callable[[Row], Span]
    text: Callable[[float], str]
    spread: str = ""


def is_number(value: Any) -> bool:
    """Return whether a value is a number for an axis."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _measured(value: Any) -> bool:
    return is_number(value) and not math.isnan(value)


def column(y: str | None, rows: Rows) -> Quantity:
    """Draw a column: without a name, the median time, or the mean where there are no medians."""
    name = y or _typical_time(rows)
    values = [row[name] for row in rows.rows if row["success"] and row.get(name) is not None]
    known = [name for name in METRICS if any(map(_measured, (row[name] for row in rows.rows)))]
    if wrong := next((value for value in values if not is_number(value)), None):
        raise ValueError(
            f"{WHERE}: y={name!r} is not a number: it is {wrong!r} in a record; numbers: {', '.join(known)}"
        )
    if all(math.isnan(value) for value in values):
        raise ValueError(f"{WHERE}: no record has a number for y={name!r}; columns that do: {', '.join(known)}")
    units = {row["unit"] for row in rows.rows if row["unit"]} if name == "throughput" else set()
    text = _time_text if name == "typical_ms" or (name.endswith("_ms") and name in METRICS) else number_text
    words = axis_words(name, " or ".join(sorted(units)))
    return Quantity(words, lambda row: _span(row, name), text, _spread_words(name, rows))


def speedup(y: str | None, rows: Rows, hue: str, baseline: Any) -> tuple[Quantity, str]:
    """Draw the baseline's time divided by that of a row with the same data; return the baseline, too."""
    name = _time_column(y, rows, "speedup")
    known = list(dict.fromkeys(str(row.get(hue)) for row in rows.rows))
    chosen = ("reference" if "reference" in known else known[0]) if baseline is None else str(baseline)
    if chosen not in known:
        raise ValueError(
            f"{WHERE}: baseline={baseline!r} is not a {hue}{did_you_mean(chosen, known)}; "
            f"the records have: {', '.join(known)}"
        )
    if len(known) == 1:
        raise ValueError(
            f"{WHERE}: kind='speedup' compares with {chosen!r}, and the records have no other {hue}; measure one more"
        )
    same = [other for other in rows.names if other != hue]
    bases = {key_of(row, same): _span(row, name)[0] for row in rows.rows if str(row.get(hue)) == chosen}

    def of(row: Row) -> Span:
        base = bases.get(key_of(row, same), math.nan)
        value, low, high = _span(row, name)
        return _over(base, value), _over(base, high), _over(base, low)

    return Quantity(f"speed-up over {chosen}", of, times_text, _spread_words(name, rows)), chosen


def performance(y: str | None, rows: Rows) -> Quantity:
    """Draw billions of operations per second, for rows with numbers of operations and bytes."""
    name = _time_column(y, rows, "roofline")
    if not any(row["flops"] and row["bytes"] for row in rows.rows):
        raise ValueError(
            f"{WHERE}: kind='roofline' needs the work of a call, and no record has both bytes and flops; "
            "measure with BenchmarkConfig(..., bytes=..., flops=...)"
        )

    def of(row: Row) -> Span:
        work = (row["flops"] or math.nan) / 1e6  # times are milliseconds
        value, low, high = _span(row, name)
        return _over(work, value), _over(work, high), _over(work, low)

    return Quantity("GFLOP/s", of, number_text, _spread_words(name, rows))


def _time_text(milliseconds: float) -> str:
    return time_text(milliseconds * 1e-3, "\N{MICRO SIGN}")


def _typical_time(rows: Rows) -> str:
    """Return the column of the typical times of all rows, or that it differs between rows."""
    own = [row for row in rows.rows if row["success"]]
    same = (name for name in ("median_ms", "mean_ms") if all(row[name] == row["typical_ms"] for row in own))
    return next(same, "typical_ms")


def _time_column(y: str | None, rows: Rows, kind: str) -> str:
    if y is not None and y not in _TIMES:
        raise ValueError(
            f"{WHERE}: kind={kind!r} shows times, and y={y!r} is not a time; use one of {', '.join(_TIMES)}"
        )
    return y or _typical_time(rows)


def _span(row: Row, name: str) -> Span:
    if not row["success"] or row.get(name) is None:
        return _NONE
    value = float(row[name])
    low = high = math.nan
    if name == "typical_ms":
        name = "median_ms" if value == row["median_ms"] else "mean_ms"
    if name == "median_ms":
        low, high = row["low_ms"], row["high_ms"]
    elif name == "mean_ms":
        low, high = value - row["std_ms"], value + row["std_ms"]
        low = max(low, row["min_ms"]) if row["min_ms"] <= value else low  # no run was faster than the fastest
    return (value, value, value) if math.isnan(low) or math.isnan(high) else (value, low, high)


def _spread_words(name: str, rows: Rows) -> str:
    spans = [_span(row, name) for row in rows.rows]
    return _SPREADS.get(name, "") if any(low < high for _, low, high in spans) else ""


def _over(a: float, b: float) -> float:
    return a / b if b else math.nan
