# SPDX-License-Identifier: Apache-2.0
"""What was found, and how it is printed."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TextIO

__all__ = ["COLUMNS", "Line", "Report", "Section", "printable"]

COLUMNS = 120


@dataclass(frozen=True)
class Line:
    """One finding; a `fault` is one that a user should mend."""

    label: str
    text: str
    fault: bool = False


@dataclass(frozen=True)
class Section:
    """Findings under a heading."""

    title: str
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        width = max((len(line.label) for line in self.lines), default=0)
        return "\n".join([self.title, *(_row(line, width) for line in self.lines)])


@dataclass(frozen=True)
class Report:
    """All that was found; `str(report)` is for people to read."""

    sections: tuple[Section, ...]

    @property
    def faults(self) -> tuple[Line, ...]:
        """The findings that a user should mend."""
        return tuple(line for section in self.sections for line in section.lines if line.fault)

    def __str__(self) -> str:
        count = len(self.faults)
        end = f"{count} {'fault' if count == 1 else 'faults'}, marked with !" if count else "no faults"
        return "\n\n".join([*map(str, self.sections), end])

    def write(self, stream: TextIO) -> None:
        """Write the report, as far as the stream's encoding has the characters."""
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(f"{self}\n".encode(encoding, "backslashreplace").decode(encoding))


def _row(line: Line, width: int) -> str:
    indent = f"{'!' if line.fault else ' '} {line.label:<{width}}  "
    rows = []
    for text in line.text.splitlines() or [""]:
        words = text.lstrip()
        margin = " " * min(len(text) - len(words), 8)
        rows += textwrap.wrap(
            printable(words),
            COLUMNS - len(indent),
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    return "\n".join([indent + "".join(rows[:1]), *(" " * len(indent) + row for row in rows[1:])]).rstrip()


def printable(text: str) -> str:
    """Return a text in which characters that cannot be printed are written by their numbers."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
