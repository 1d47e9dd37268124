# SPDX-License-Identifier: Apache-2.0
"""Lay records out as a table: plain, sorted, grouped, compared with a baseline, or as a hierarchy."""

from __future__ import annotations

import functools
import itertools
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _html
from ..errors import did_you_mean
from .expression import condition
from .record import BenchmarkRecord
from .rows import METRICS, Row, Rows, check_column, flat_rows, key_of

__all__ = ["Layout", "as_html", "remarks", "table"]

_SEPARATOR, _MARK = 3, 3  # characters between columns, and behind the best row
# Measurements that others can replace, the least important first.
_SPARE = ("std_ms", "peak_fraction", "loop_ms", "min_ms", "mean_ms", "throughput")
_TIMES = ("median_ms", "mean_ms")
_WHERE = "BenchmarkResult.print"
Compare = str | Callable[[Mapping[str, Any]], Any]
Columns = str | Sequence[str]


@dataclass(frozen=True)
class Layout:
    """The layout of a table: the keywords of `BenchmarkResult.print`."""

    sort_by: str | None = None
    group_by: Columns | None = None
    compare_by: Compare | None = None
    highlight_best: bool = True
    order_by: Columns | None = None
    speedup_vs: str | None = None
    vary_by: Columns | None = None
    width: int | None = None  # of a hierarchy, in characters: less important columns are omitted
    in_order: bool = False  # keeps a hierarchy's groups in the order of the records


def table(records: Sequence[BenchmarkRecord], layout: Layout) -> str:
    """Return the text of a table of records, with remarks."""
    rows = flat_rows(records)
    layout = _by_backend(replace(layout, sort_by=_named(layout.sort_by)))
    outer, inner = _order(rows, layout)
    order = [*outer, *inner]
    lines = _hierarchy(rows, outer, inner, layout) if order else _flat(rows, layout)
    said = _left_out(rows, layout)
    if layout.speedup_vs is not None and not order:
        said.append("speedup_vs has no effect here: it needs a column in order_by or vary_by")
    return "\n".join([*lines, *([""] if said else []), *said, *remarks(records)])


def _by_backend(layout: Layout) -> Layout:
    """Return a layout that compares backends, if `speedup_vs` is the only choice."""
    others = (layout.sort_by, layout.group_by, layout.compare_by, layout.order_by, layout.vary_by)
    alone = layout.speedup_vs is not None and all(choice is None for choice in others)
    return replace(layout, vary_by="backend") if alone else layout


def _named(sort_by: str | None) -> str | None:
    """Return the name of a column by its title, in which the unit may be another one."""
    name = re.sub("_[un]s$", "_ms", sort_by) if isinstance(sort_by, str) else sort_by
    return name if name in METRICS else sort_by


def _left_out(rows: Rows, layout: Layout) -> list[str]:
    """Return a note on names of a hierarchy that are not columns."""
    which = "order_by" if layout.order_by is not None else "vary_by"
    unknown = [name for name in _as_list(getattr(layout, which)) if name not in rows.columns]
    if not unknown:
        return []
    names = " or ".join(f"{name!r}{did_you_mean(name, rows.columns)}" for name in unknown)
    return [f"{which}: there is no column {names}, so {'it is' if len(unknown) == 1 else 'they are'} left out"]


def remarks(records: Sequence[BenchmarkRecord]) -> list[str]:
    """Return remarks: results that differ, results with NaN, and failures."""
    lines = []
    for record in records:
        who = f"[{record.platform}|{record.backend}] {record.label}"
        if record.mismatch is not None:
            lines.append(f"mismatch: {who}: {record.mismatch}")
        if record.nans:
            lines.append(f"NaN: {who}: {record.nans} in the results")
        if not record.success and record.error:
            lines.append(f"failed: {who}: {record.error.splitlines()[0]}")
    return ["", *lines] if lines else []


# ---- flat tables -----------------------------------------------------------------------------------------------------


def _flat(rows: Rows, layout: Layout) -> list[str]:
    columns, body = list(rows.columns), list(rows.rows)
    for name in (*_as_list(layout.sort_by), *_as_list(layout.group_by)):
        check_column(_WHERE, name, dict.fromkeys([*rows.columns, *METRICS]), rows.columns)
    groups = _as_list(layout.group_by)
    if layout.compare_by is not None:
        body = _compared(body, rows, layout.compare_by, groups or rows.names)
        columns.append("speedup")
    if layout.sort_by is not None:
        body.sort(key=_sort_key([layout.sort_by]))
    if groups:
        first = {key: i for i, key in reversed(list(enumerate(key_of(row, groups) for row in body)))}
        body.sort(key=lambda row: first[key_of(row, groups)])
    best = _best(body, groups) if groups and layout.highlight_best else set()
    cells = [[_cell(rows, row, column) for column in columns] for row in body]
    return _text(rows, columns, [list(zip(cells, (id(row) in best for row in body), strict=True))])


def _cell(rows: Rows, row: Row, column: str) -> str:
    extra = row.get("_extra", {})
    cell: str = extra[column] if column in extra else rows.cell(row, column)
    return f"{cell} {row['unit']}".strip() if column == "throughput" and cell else cell


def _compared(body: Sequence[Row], rows: Rows, compare_by: Compare, groups: Sequence[str]) -> list[Row]:
    """Add the speed-up over the baseline: the only row that fulfils the condition, or the one with the same data.

    Rows have the same data if they agree in the columns of `groups`, except the backend.
    """
    known = list(dict.fromkeys([*rows.columns, "success", *METRICS]))
    holds = condition(compare_by, known, _WHERE) if isinstance(compare_by, str) else compare_by
    if not callable(holds):
        raise TypeError(f"{_WHERE}: compare_by must be a string or a function, found {type(compare_by).__name__}")
    baselines = [row for row in body if holds(row)]
    if not baselines:
        raise ValueError(
            f"{_WHERE}: compare_by={compare_by!r} is true for no row, so there is no baseline; change the condition"
        )
    same = [name for name in groups if name != "backend"]
    times: dict[tuple[str, ...], float] = {key_of(row, same): row["typical_ms"] for row in reversed(baselines)}
    only = baselines[0]["typical_ms"] if len(baselines) == 1 else math.nan
    return [
        {**row, "_extra": {"speedup": _times(times.get(key_of(row, same), only), row["typical_ms"], "")}}
        for row in body
    ]


def _times(baseline: float, time: float, unit: str = "x") -> str:
    speedup = baseline / time if time else math.nan
    return "" if math.isnan(speedup) else f"{speedup:.2f}{unit}"


# ---- hierarchies -----------------------------------------------------------------------------------------------------


def _order(rows: Rows, layout: Layout) -> tuple[list[str], list[str]]:
    """Return the columns of the groups of a hierarchy, and those within them; unknown ones are ignored."""
    if layout.order_by is not None:
        order = [name for name in dict.fromkeys(_as_list(layout.order_by)) if name in rows.columns]
        return order[:-1], order[-1:]
    vary = [name for name in dict.fromkeys(_as_list(layout.vary_by)) if name in rows.columns]
    fixed = [name for name in rows.names if name not in vary]
    # A label such as n=100 repeats what varies: each row would be a group.
    others = [name for name in fixed if name != "label"]
    if "label" in fixed and _determine_label(rows, [*others, *vary]) and not _determine_label(rows, others):
        fixed = others
    return (fixed, vary) if vary else ([], [])


def _determine_label(rows: Rows, columns: Sequence[str]) -> bool:
    """Return whether rows that agree in these columns have the same label."""
    labelled = {key_of(row, [*columns, "label"]) for row in rows.rows}
    return len(labelled) == len({key_of(row, columns) for row in rows.rows})


def _hierarchy(rows: Rows, outer: list[str], inner: list[str], layout: Layout) -> list[str]:
    order, leaf = [*outer, *inner], inner[-1]
    body = list(rows.rows) if layout.in_order else sorted(rows.rows, key=_sort_key(order))
    if layout.in_order:
        first = {key: i for i, key in reversed(list(enumerate(key_of(row, outer) for row in body)))}
        body.sort(key=lambda row: first[key_of(row, outer)])
    columns = [*order, *(name for name in rows.columns if name in METRICS and name not in order)]
    if layout.speedup_vs is not None:
        columns.append(f"vs_{layout.speedup_vs}")
        body = _against(body, outer, leaf, layout.speedup_vs)
    best = _best(body, outer) if layout.highlight_best else set()
    cell = functools.partial(_cell, rows)
    if layout.width is not None:
        columns = narrowed(columns, order, body, cell, layout.width)
    groups = [list(members) for _, members in itertools.groupby(body, key=lambda row: key_of(row, outer))]
    lines = _text(rows, columns, [_marked(rows, group, columns, outer, best) for group in groups])
    if layout.width is None or max(map(len, lines)) <= layout.width:
        return lines
    titles = [_title(rows, group[0], outer, layout.width) for group in groups]
    columns = narrowed([name for name in columns if name not in outer], inner, body, cell, layout.width)
    return _text(rows, columns, [_marked(rows, group, columns, (), best) for group in groups], titles)


def _marked(
    rows: Rows, group: Sequence[Row], columns: Sequence[str], outer: Collection[str], best: Collection[int]
) -> list[tuple[list[str], bool]]:
    """Return the cells of a group's rows, and which are the best; those of outer columns only in the first row."""
    return [
        (["" if i and column in outer else _cell(rows, row, column) for column in columns], id(row) in best)
        for i, row in enumerate(group)
    ]


def _title(rows: Rows, row: Row, outer: Sequence[str], width: int) -> str:
    """Return the title of a group: its label, or its columns."""
    words = str(row["label"]) if "label" in outer else ", ".join(f"{name}={_cell(rows, row, name)}" for name in outer)
    return textwrap.fill(words, width, subsequent_indent="    ", break_on_hyphens=False)


def _against(body: Sequence[Row], outer: Sequence[str], leaf: str, speedup_vs: str) -> list[Row]:
    values = list(dict.fromkeys(str(row.get(leaf)) for row in body))
    if str(speedup_vs) not in values:
        raise ValueError(
            f"{_WHERE}: speedup_vs={speedup_vs!r} is not a value of the column {leaf!r}"
            f"{did_you_mean(str(speedup_vs), values)}; values: {', '.join(values) or 'none'}"
            f"{'; benchmark(backends=[...]) measures others, and the reference' if leaf == 'backend' else ''}"
        )
    times = {key_of(row, outer): row["typical_ms"] for row in reversed(body) if str(row.get(leaf)) == str(speedup_vs)}
    name = f"vs_{speedup_vs}"
    return [
        {**row, "_extra": {name: _times(times.get(key_of(row, outer), math.nan), row["typical_ms"])}} for row in body
    ]


# ---- shared ----------------------------------------------------------------------------------------------------------


def _as_list(columns: Columns | None) -> list[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)


def _sort_key(columns: Sequence[str]) -> Callable[[Row], Any]:
    """Sort numbers before text, and missing cells last; then by text, so that equal cells are adjacent."""

    def key(row: Row) -> Any:
        return [_rank(row.get(column)) for column in columns]

    return key


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, numbers.Real):
        return (2, 0.0, "") if math.isnan(value) else (0, float(value), "")
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def _best(body: Iterable[Row], groups: Sequence[str]) -> set[int]:
    """Return the fastest rows of their groups, without rows with wrong results."""
    best: dict[tuple[str, ...], Row] = {}
    for row in body:
        if not row["success"] or row["mismatch"] is not None or math.isnan(row["typical_ms"]):
            continue
        key = key_of(row, groups)
        if key not in best or row["typical_ms"] < best[key]["typical_ms"]:
            best[key] = row
    return {id(row) for row in best.values()}


def _text(
    rows: Rows, columns: Sequence[str], groups: Sequence[Sequence[tuple[list[str], bool]]], titles: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table: right-aligned numbers, a line or title above each group, `*` after the best."""
    cells = [row for group in groups for row, _ in group]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    right = [name in METRICS or all(_number(row[i]) for row in cells) for i, name in enumerate(columns)]

    def line(row: Sequence[str]) -> str:
        padded = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True))
        return " | ".join(padded)

    rule = "-+-".join("-" * width for width in widths)
    lines = [line(rows.titles(columns)).rstrip()]
    for group, above in zip(groups, titles or [rule] * len(groups), strict=True):
        lines += above.splitlines()
        lines += [f"{line(row)}  *" if starred else line(row).rstrip() for row, starred in group]
    return lines


def _number(cell: str) -> bool:
    try:
        float(cell.removesuffix("x") or "0")
    except ValueError:
        return False
    return True


def narrowed(
    columns: Sequence[str], keys: Sequence[str], body: Sequence[Row], cell: Callable[[Row, str], str], width: int
) -> list[str]:
    """Return the columns with which the table has at most this width; all if none can be omitted.

    Columns of `keys` that distinguish no rows are omitted first, the widest first, but never the last one; then
    measurements.
    """
    widths = {name: max([len(name), *(len(cell(row, name)) for row in body)]) for name in columns}
    left = list(columns)

    def fits() -> bool:
        return sum(widths[name] for name in left) + _SEPARATOR * (len(left) - 1) + _MARK <= width

    for name in sorted(keys[:-1], key=lambda name: -widths[name]):
        others = [key for key in keys if key in left and key != name]
        if not fits() and _groups(body, others) == _groups(body, [*others, name]):
            left.remove(name)
    time = next((name for name in _TIMES if name in left), None)
    for name in _SPARE:
        if name in left and name != time and not fits():
            left.remove(name)
    return left


def _groups(body: Sequence[Row], columns: Collection[str]) -> int:
    return len({tuple(repr(row.get(name)) for name in columns) for row in body})


def as_html(records: Sequence[BenchmarkRecord], operator: str) -> str:
    """Return a table in HTML: a row for each record, the fastest of each label marked, and remarks below."""
    title = f"benchmark of {operator}" if operator else "benchmark"
    if not records:
        return _html.document(title, _html.paragraph("no records"))
    rows = flat_rows(records)
    right = [i for i, name in enumerate(rows.columns) if name in METRICS]
    cells = [[rows.cell(row, column) for column in rows.columns] for row in rows.rows]
    text = "\n".join(line for line in remarks(records) if line)
    return _html.document(
        title,
        _html.table(rows.titles(rows.columns), cells, right=right, marked=_fastest(records)),
        _html.paragraph(text),
    )


def _fastest(records: Sequence[BenchmarkRecord]) -> list[int]:
    """Return the fastest record of each platform and label, if there are several."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, record in enumerate(records):
        if record.success and record.mismatch is None and not math.isnan(record.typical_ms):
            groups.setdefault((record.platform, record.label), []).append(i)
    return [min(some, key=lambda i: records[i].typical_ms) for some in groups.values() if len(some) > 1]
