# SPDX-License-Identifier: Apache-2.0
"""Configurations without a single size: the columns that distinguish them, and those that make panels."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import did_you_mean
from ..rows import Row, Rows
from .quantity import is_number
from .style import WHERE
from .words import number_text

__all__ = ["CASE", "Cases", "Facet", "Panels", "cases", "independent", "panel_columns", "panels"]

CASE = "_case"  # the column of a row that holds its category
_FIXED = ("platform", "label")
_MOST_ROWS = 6  # categories that need no panels
_MOST_PANELS = 4  # values of a column that makes panels
Facet = str | Sequence[str] | None


@dataclass(frozen=True)
class Cases:
    """Configurations in order: the text of each in each of the columns."""

    columns: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]


def independent(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the columns without those that another one determines; the shortest name stays."""
    kept: list[str] = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        if not any(_count(rows, (name, other)) == _count(rows, (name,)) == _count(rows, (other,)) for other in kept):
            kept.append(name)
    return [name for name in names if name in kept]


def cases(rows: Rows, taken: Collection[str | None]) -> Cases | None:
    """Return the configurations, each with its columns that vary; None if these do not distinguish all labels.

    Each row gets its position among them, in the column `CASE`.
    """
    own = [name for name in rows.names if name not in (*_FIXED, "backend", *taken)]
    varying = [name for name in own if _count(rows.rows, (name,)) > 1]
    columns = sorted(independent(rows.rows, varying), key=lambda name: _rank(rows.rows, name))
    if len(columns) < 2 or _count(rows.rows, columns) < _count(rows.rows, (*columns, "label")):
        return None
    keys = {_key(row, columns): row for row in rows.rows}
    ordered = sorted(keys, key=lambda key: [_order(keys[key].get(name)) for name in columns])
    for row in rows.rows:
        row[CASE] = ordered.index(_key(row, columns))
    return Cases(tuple(columns), tuple(tuple(_words(keys[key], name) for name in columns) for key in ordered))


def panel_columns(found: Cases, wanted: Facet, known: Collection[str]) -> list[str]:
    """Return the columns that make panels: the requested ones, or up to two, until few categories are left."""
    if wanted is not None:
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            if name not in found.columns:
                raise ValueError(
                    f"{WHERE}: facet: {name!r} does not distinguish configurations{did_you_mean(name, known)}; "
                    f"columns that do: {', '.join(found.columns)}"
                )
        if len(names) > 2:
            raise ValueError(f"{WHERE}: facet has {len(names)} columns; pass at most two")
        return names
    chosen: list[str] = []
    for i, name in enumerate(found.columns):
        left = len({_without(found, parts, chosen) for parts in found.parts})
        if left > _MOST_ROWS and len(chosen) < 2 and len({parts[i] for parts in found.parts}) <= _MOST_PANELS:
            chosen.append(name)
    return chosen


def _without(found: Cases, parts: Sequence[str], columns: Collection[str]) -> tuple[str, ...]:
    return tuple(part for name, part in zip(found.columns, parts, strict=True) if name not in columns)


@dataclass(frozen=True)
class Panels:
    """A grid of panels: titles of its columns and rows, the categories in them, and the place of each case.

    A place is the column and the row of a panel, and the number of the category in it.
    """

    across: tuple[str, ...]
    down: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, int, int], ...]


def panels(found: Cases, columns: Sequence[str]) -> Panels:
    """Return the grid with the first of the columns horizontally, and the second vertically."""
    at = [found.columns.index(name) for name in columns]
    across, down = (
        list(dict.fromkeys(parts[i] for parts in found.parts)) if i is not None else []
        for i in (at[0] if at else None, at[1] if len(at) > 1 else None)
    )
    names = list(dict.fromkeys(_without(found, parts, columns) for parts in found.parts))
    places = tuple(
        (
            across.index(parts[at[0]]) if across else 0,
            down.index(parts[at[1]]) if down else 0,
            names.index(_without(found, parts, columns)),
        )
        for parts in found.parts
    )
    return Panels(tuple(across), tuple(down), tuple(names), places)


def _key(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(row.get(name)) for name in columns)


def _count(rows: Sequence[Row], columns: Sequence[str]) -> int:
    return len({_key(row, columns) for row in rows})


def _rank(rows: Sequence[Row], name: str) -> tuple[int, float]:
    """Rank the size first, which has the largest numbers; then booleans, text, and other numbers."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if values and all(map(is_number, values)):
        largest = max(map(abs, values))
        return (0, -largest) if largest >= _MOST_ROWS else (3, 0.0)
    return (1 if all(isinstance(value, bool) for value in values) else 2, 0.0)


def _order(value: Any) -> tuple[int, float, str]:
    if is_number(value) and not math.isnan(value):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def _words(row: Row, name: str) -> str:
    value: Any = row.get(name)
    return f"{name}={number_text(value) if is_number(value) else value}"
