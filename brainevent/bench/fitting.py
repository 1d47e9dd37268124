# SPDX-License-Identifier: Apache-2.0
"""Fit a table to a width: omit empty columns, wrap cells, then omit the least important columns."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

from .words import columns

__all__ = ["fitted"]

_GAP = 2
_LEAST = 24  # characters of a column whose cells are wrapped
_AT_LAST = 12  # if nothing else is enough


def fitted(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    right: Sequence[str] = (),
    wrap: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """Return the text of a table, and the names of the columns that are omitted because it is too wide.

    Cells of the columns in `wrap` may take several lines; columns in `drop` are omitted in this order. Without a
    `width`, nothing is wrapped or omitted; columns without a single entry are never shown.

    >>> text, left_out = fitted(("name", "key", "age"), [("a", "0123456789", "10 h")], 12, drop=["key"])
    >>> print(text)
    name  age
    a     10 h
    >>> left_out
    ['key']
    """
    shown = [i for i, name in enumerate(head) if not rows or any(row[i] for row in rows)]
    natural = [max(map(len, (head[i], *(row[i] for row in rows)))) for i in range(len(head))]
    left_out: list[str] = []
    if width is not None:
        least = [min(n, max(_LEAST, len(name))) if name in wrap else n for n, name in zip(natural, head, strict=True)]
        for name in drop:
            if _total(least, shown) <= width:
                break
            if (i := head.index(name)) in shown:
                shown.remove(i)
                left_out.append(name)
        if _total(least, shown) > width:
            least = [min(n, _AT_LAST) if name in wrap else n for n, name in zip(natural, head, strict=True)]
        _shrink(natural, least, shown, width)
    left = [row for row in rows if not left_out or any(row[i] for i in shown)]  # some may be empty now
    body = [line for row in [head, *left] for line in _lines([row[i] for i in shown], [natural[i] for i in shown])]
    return columns(body, right=[k for k, i in enumerate(shown) if head[i] in right]), left_out


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[i] for i in shown) + _GAP * (len(shown) - 1)


def _shrink(widths: list[int], least: Sequence[int], shown: Sequence[int], width: int) -> None:
    """Narrow the widest columns, until the table fits or none can be narrowed further."""
    while _total(widths, shown) > width:
        widest = max(shown, key=lambda i: (widths[i] > least[i], widths[i]))
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of a row, whose cells are wrapped to their widths."""
    cells = [
        [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(row, widths, strict=True)
    ]
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]
