# SPDX-License-Identifier: Apache-2.0
"""Print the rows as a table and write them, with the machine, as JSON."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.row import Row
from benchmarks.samples import Summary

_NUMBERS = re.compile(r"\[\n([-+.\de,\s]+)\]")
_WORDS = {True: "yes", False: "NO", None: ""}


def format_table(title: str, rows: Sequence[Row]) -> str:
    """One benchmark: a line per row, medians with their quartiles."""
    lines: list[tuple[str, ...]] = [("", "median", "[quartiles]", "ratio", "[quartiles]", "", "bar", "met", "note")]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    # Names, units of comparison and notes are words; the other columns are numbers.
    words = (0, 5, 8)
    formatted = [
        "  ".join(
            cell.ljust(width) if column in words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([title, "-" * len(title), *formatted])


def _cells(row: Row) -> tuple[str, ...]:
    ratio = (f"{row.ratio.median:.2f} x", _spread(row.ratio, 2), row.ratio_to) if row.ratio else ("", "", "")
    digits = _digits(row.value.median)
    return (
        row.name,
        f"{row.value.median:.{digits}f} {row.unit}",
        _spread(row.value, digits),
        *ratio,
        str(row.bar) if row.bar else "",
        _WORDS[row.met],
        row.note,
    )


def _spread(summary: Summary, digits: int) -> str:
    return "" if summary.low == summary.high else f"[{summary.low:.{digits}f} {summary.high:.{digits}f}]"


def _digits(value: float) -> int:
    """Decimals that leave about three digits."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3


def format_verdict(rows: Sequence[Row], failures: Sequence[str]) -> str:
    """How many bars are met, which are not, and which benchmarks gave none."""
    judged = [row for row in rows if row.bar]
    missed = [f"{row.benchmark}: {row.name}" for row in judged if not row.met]
    verdict = f"bars met: {len(judged) - len(missed)} of {len(judged)}"
    return "\n".join([verdict, *(f"  missed: {name}" for name in missed), *(f"  failed: {name}" for name in failures)])


def write_result(path: Path, header: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write the whole run, every sample included."""
    content = header | {"rows": [_rounded(row.to_json()) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(in_lines(content))


def in_lines(content: Any) -> str:
    """JSON with a line for each value, but with each list of numbers in one line."""
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", json.dumps(content, indent=1)) + "\n"


def _rounded(value: Any) -> Any:
    """Five significant digits are more than these clocks have."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
