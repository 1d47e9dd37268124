# SPDX-License-Identifier: Apache-2.0
"""Objects as tables in HTML for notebooks: all text is escaped, and colours suit light and dark themes."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = ["LIMIT", "document", "facts", "paragraph", "table"]

LIMIT = 200  # rows of a table
# Lines and shades are half-transparent grey, and text has the colour of the page: right on white and on black.
_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_CAPTION = "caption-side: top; text-align: left; color: inherit; opacity: 0.75; padding: 0.2em 0"
_MARKED = "background: rgba(128, 128, 128, 0.18); font-weight: 600"


def document(title: str, *parts: str) -> str:
    """Return a title above parts in HTML; empty parts are omitted."""
    head = f'<div style="font-weight: 600; margin-bottom: 0.4em">{_text(title)}</div>'
    return f'<div style="color: inherit; overflow-x: auto">{head}{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """Return a text, its lines kept; nothing for an empty one."""
    return f'<div style="margin: 0.3em 0; white-space: pre-wrap">{_text(text)}</div>' if text else ""


def facts(pairs: Mapping[str, object]) -> str:
    """Return the facts about one object, one per row; values that are None are omitted."""
    rows = [
        f'<tr><th scope="row" style="{_cell("left")}; font-weight: normal; opacity: 0.75">{_text(name)}</th>'
        f'<td style="{_cell("left")}">{_text(value)}</td></tr>'
        for name, value in pairs.items()
        if value is not None
    ]
    return f'<table style="border-collapse: collapse"><tbody>{"".join(rows)}</tbody></table>'


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[int] = (),
    marked: Collection[int] = (),
    caption: str = "",
) -> str:
    """Return a table; columns in `right` are right-aligned, and rows in `marked`, counted from 0, are highlighted."""
    body = list(rows)
    shown, more = body[:LIMIT], len(body) - LIMIT
    lines = [
        "".join(f'<td style="{_cell(_side(i, right))}">{_text(value)}</td>' for i, value in enumerate(row))
        for row in shown
    ]
    marks = (f' style="{_MARKED}"' if i in marked else "" for i in range(len(lines)))
    text = "".join(f"<tr{mark}>{line}</tr>" for mark, line in zip(marks, lines, strict=True))
    if more > 0:
        text += f'<tr><td colspan="{len(head)}" style="{_cell("left")}">{more} more rows</td></tr>'
    top = "".join(f'<th scope="col" style="{_cell(_side(i, right))}">{_text(name)}</th>' for i, name in enumerate(head))
    title = f'<caption style="{_CAPTION}">{_text(caption)}</caption>' if caption else ""
    first = f'<thead><tr style="border-bottom: {_LINE}">{top}</tr></thead>'
    return f'<table style="border-collapse: collapse; margin: 0.3em 0">{title}{first}<tbody>{text}</tbody></table>'


def _side(column: int, right: Collection[int]) -> str:
    return "right" if column in right else "left"


def _cell(side: str) -> str:
    return f"text-align: {side}; vertical-align: top; padding: 0.15em 0.7em"


def _text(value: object) -> str:
    return html.escape(str(value))
