# SPDX-License-Identifier: Apache-2.0
"""Findings, and their text."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass
from typing import Any, TextIO

from .._html import document, table

__all__ = ["Line", "Report", "Section", "printable"]

_COLUMNS = 100  # without a terminal or $COLUMNS
_ENDLESS = 1_000_000


@dataclass(frozen=True)
class Line:
    """One finding; a `fault` is one that a user should correct."""

    label: str
    text: str
    fault: bool = False


@dataclass(frozen=True)
class Section:
    """Findings under a heading, with a conclusion if none is a fault."""

    title: str
    lines: tuple[Line, ...]
    said: str = ""

    @property
    def verdict(self) -> str:
        """The number of faults, or the conclusion of the section, or "ok"."""
        count = sum(line.fault for line in self.lines)
        return f"{count} {'fault' if count == 1 else 'faults'}" if count else self.said or "ok"

    def text(self, columns: int) -> str:
        """Return the section with lines of at most this many characters."""
        width = max((len(line.label) for line in self.lines), default=0)
        heading = textwrap.wrap(f"{self.title}: {self.verdict}", columns, subsequent_indent="    ")
        return "\n".join([*heading, *(_row(line, width, columns) for line in self.lines)])

    def html(self) -> str:
        """Return the section as a table with a heading."""
        rows = [(printable(line.label), "\n".join(map(printable, line.text.splitlines()))) for line in self.lines]
        faults = [place for place, line in enumerate(self.lines) if line.fault]
        return table(("what", "found"), rows, marked=faults, caption=f"{self.title}: {self.verdict}")


@dataclass(frozen=True, repr=False)
class Report:
    """All findings: `str(report)` for people, `as_dict` for programs."""

    sections: tuple[Section, ...]

    @property
    def faults(self) -> tuple[Line, ...]:
        """The findings that a user should correct."""
        return tuple(line for section in self.sections for line in section.lines if line.fault)

    @property
    def verdict(self) -> str:
        """The last line: the number of faults."""
        count = len(self.faults)
        return f"{count} {'fault' if count == 1 else 'faults'}, marked with !" if count else "no faults"

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size((_COLUMNS, 24)).columns)

    def text(self, columns: int | None) -> str:
        """Return the report with lines of at most this many characters; None for no limit."""
        return "\n\n".join([*(section.text(columns or _ENDLESS) for section in self.sections), self.verdict])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return what notebooks show: a table for each section, faults marked."""
        return document(f"brainevent doctor: {self.verdict}", *(section.html() for section in self.sections))

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        sections = [
            {
                "title": section.title,
                "verdict": section.verdict,
                "lines": [{"label": one.label, "text": one.text, "fault": one.fault} for one in section.lines],
            }
            for section in self.sections
        ]
        return {"faults": len(self.faults), "sections": sections}

    def write(self, stream: TextIO) -> None:
        """Write the report; characters that the stream's encoding lacks are replaced."""
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(f"{self}\n".encode(encoding, "backslashreplace").decode(encoding))


def _row(line: Line, width: int, columns: int) -> str:
    indent = f"{'!' if line.fault else ' '} {line.label:<{width}}  "
    rows = []
    for text in line.text.splitlines() or [""]:
        words = text.lstrip()
        margin = " " * min(len(text) - len(words), 8)
        rows += textwrap.wrap(
            printable(words),
            max(columns - len(indent), 20),
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    return "\n".join([indent + "".join(rows[:1]), *(" " * len(indent) + row for row in rows[1:])]).rstrip()


def printable(text: str) -> str:
    """Return a text in which characters that cannot be printed are written by their numbers."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
