# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._html import document, paragraph, table
from .record import BenchmarkRecord
from .rows import METRICS, flat_rows
from .table import remarks

__all__ = ["as_html"]


def as_html(records: Sequence[BenchmarkRecord], operator: str) -> str:
    """Return a table in HTML: a row for each record, the fastest of each label marked, and remarks below."""
    title = f"benchmark of {operator}" if operator else "benchmark"
    if not records:
        return document(title, paragraph("no records"))
    rows = flat_rows(records)
    right = [i for i, name in enumerate(rows.columns) if name in METRICS]
    cells = [[rows.cell(row, column) for column in rows.columns] for row in rows.rows]
    text = "\n".join(line for line in remarks(records) if line)
    return document(
        title, table(rows.titles(rows.columns), cells, right=right, marked=_fastest(records)), paragraph(text)
    )


def _fastest(records: Sequence[BenchmarkRecord]) -> list[int]:
    """Return the fastest record of each platform and label, if there are several."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, record in enumerate(records):
        if record.success and record.mismatch is None and not math.isnan(record.typical_ms):
            groups.setdefault((record.platform, record.label), []).append(i)
    return [min(some, key=lambda i: records[i].typical_ms) for some in groups.values() if len(some) > 1]
