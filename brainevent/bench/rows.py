# SPDX-License-Identifier: Apache-2.0
"""Records as flat rows, with a cell for each field and each keyword."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import did_you_mean
from .record import BenchmarkRecord
from .words import TimeUnit

__all__ = ["METRICS", "Row", "Rows", "check_column", "flat_rows", "key_of"]

Row = dict[str, Any]
_KEYS = ("platform", "backend")
_TIMES = ("mean_ms", "std_ms", "min_ms")
_MORE_TIMES = ("median_ms", "low_ms", "high_ms")
_ALL_TIMES = (*_TIMES, *_MORE_TIMES, "loop_ms")
_SHOWN_TIMES = ("mean_ms", "min_ms", "median_ms")  # a deviation, or a loop, may be much shorter
# Columns of measurements, not of configurations.
METRICS = (
    *_TIMES, *_MORE_TIMES, "loop_ms", "throughput", "unit", "peak_fraction", "nans", "mismatch", "error",
    "bytes", "flops", "peak_bandwidth", "peak_flops",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows with the columns that they are shown in."""

    columns: list[str]
    rows: list[Row]

    @property
    def names(self) -> list[str]:
        """The columns that describe the configuration of a row."""
        return [column for column in self.columns if column not in METRICS]

    @functools.cached_property
    def unit(self) -> TimeUnit:
        """The unit of all times, in which none has too few digits; names of columns remain those in milliseconds."""
        return TimeUnit.of(row[column] for row in self.rows for column in _SHOWN_TIMES if row["success"])

    def titles(self, columns: Iterable[str]) -> list[str]:
        """Return the titles of columns, those of times with the unit of all times."""
        return [self.unit.title(column) if column in _ALL_TIMES else column for column in columns]

    def cell(self, row: Row, column: str, *, exact: bool = False) -> str:
        """Return the text of a cell: `FAILED` for the time of a failed backend; if `exact`, times in milliseconds."""
        value = row.get(column)
        if column in _TIMES and not row["success"]:
            return "FAILED" if column == "mean_ms" else ""
        if value is None or (isinstance(value, float) and math.isnan(value) and column not in _TIMES):
            return ""
        if column in _ALL_TIMES:
            return f"{value:.9g}" if exact else self.unit.cell(value)
        if column in ("throughput", "peak_fraction"):
            return f"{value:.4g}"
        return str(value)


def check_column(where: str, name: str, known: Iterable[str], shown: Iterable[str]) -> None:
    """Raise if there is no such column, and list those that are shown."""
    names = list(known)
    if name not in names:
        raise ValueError(
            f"{where}: there is no column {name!r}{did_you_mean(name, names)}; columns: {', '.join(shown)}"
        )


def key_of(row: Row, columns: Iterable[str]) -> tuple[str, ...]:
    """Return what rows with equal cells in some columns have in common."""
    return tuple(repr(row.get(column)) for column in columns)


def flat_rows(records: Sequence[BenchmarkRecord], *, all_columns: bool = False) -> Rows:
    """Return the rows of records, with the columns of a table, or with all that are not empty."""
    kernel, data = ({key for r in records for key in getattr(r, field)} for field in ("kernel_kwargs", "data_kwargs"))
    taken = {*_KEYS, "label", "success", "typical_ms", *METRICS}
    kernel_columns = {key: f"kernel_kwargs.{key}" if key in taken else key for key in sorted(kernel, key=str)}
    taken |= kernel
    data_columns = {key: f"data_kwargs.{key}" if key in taken else key for key in sorted(data, key=str)}
    rows = [_row(record, kernel_columns, data_columns) for record in records]
    shown = ("median_ms", "loop_ms", "throughput", "peak_fraction")
    optional = [name for name in METRICS[len(_TIMES) :] if all_columns or name in shown]
    more = [name for name in optional if any(_says_something(row[name]) for row in rows)]
    return Rows([*_KEYS, *kernel_columns.values(), *data_columns.values(), "label", *_TIMES, *more], rows)


def _says_something(value: Any) -> bool:
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def _row(record: BenchmarkRecord, kernel: Mapping[str, str], data: Mapping[str, str]) -> Row:
    row = {name: getattr(record, name) for name in (*_KEYS, "label", "success", "typical_ms", *METRICS)}
    row.update({column: record.kernel_kwargs[key] for key, column in kernel.items() if key in record.kernel_kwargs})
    row.update({column: record.data_kwargs[key] for key, column in data.items() if key in record.data_kwargs})
    return row
