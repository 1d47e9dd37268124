# SPDX-License-Identifier: Apache-2.0
"""Output of commands: lines, tables that fit the terminal, JSON and errors."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from ..bench.fitting import fitted
from ..errors import BrainEventError

__all__ = [
    "CommandError",
    "amount",
    "begun",
    "complain",
    "hint_of_width",
    "note",
    "say",
    "say_json",
    "say_table",
    "width_of",
]

_WIDTH = 100  # without a terminal or $COLUMNS


class CommandError(BrainEventError):
    """A command cannot do what was requested."""


def say(text: str) -> None:
    """Print a line; characters that the encoding of stdout lacks are replaced."""
    _print(text, sys.stdout)


def say_json(content: Any) -> None:
    """Print JSON, for programs."""
    say(json.dumps(content, indent=1))


def say_table(
    arguments: argparse.Namespace, head: Sequence[str], rows: Sequence[Sequence[str]], **layout: Sequence[str]
) -> None:
    """Print a table that fits the terminal, and name omitted columns on stderr."""
    text, left_out = fitted(head, rows, width_of(arguments), **layout)
    say(text)
    hint_of_width(left_out)


def hint_of_width(left_out: Sequence[str]) -> None:
    """Return a hint with the columns that a table omits."""
    if left_out:
        note(f"left out: {', '.join(left_out)} (--wide shows all)")


def width_of(arguments: argparse.Namespace) -> int | None:
    """Return the width of a line: that of the terminal or $COLUMNS, otherwise 100; None with `--wide`."""
    return None if arguments.wide else shutil.get_terminal_size((_WIDTH, 24)).columns


def note(text: str) -> None:
    """Print a note to stderr."""
    _print(text, sys.stderr)


def complain(text: str) -> int:
    """Print an error, and return the exit status for it."""
    note(f"brainevent: {text}")
    return 1


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def begun(text: str) -> str:
    """Return the first two lines of an error as one: the second says what a kernel raised."""
    return " ".join(line.strip() for line in text.splitlines()[:2])


def amount(number: int, one: str, several: str = "") -> str:
    """Return "1 choice" or "2 choices"."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"
