# SPDX-License-Identifier: Apache-2.0
"""How commands speak: lines, tables, errors and help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TextIO

from ..errors import BrainEventError

__all__ = ["CommandError", "Commands", "amount", "command", "complain", "help_of", "named", "note", "say"]

Commands = argparse._SubParsersAction  # what `add_subparsers` returns: it has no public name


class CommandError(BrainEventError):
    """A command cannot do what it was asked for."""


def say(text: str) -> None:
    """Print a line, as far as the encoding of stdout has its characters."""
    _print(text, sys.stdout)


def note(text: str) -> None:
    """Print what is no result, and should not get into one: to stderr."""
    _print(text, sys.stderr)


def complain(text: str) -> int:
    """Print an error, and return the exit status for it."""
    note(f"brainevent: {text}")
    return 1


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def amount(number: int, one: str, several: str = "") -> str:
    """Return "1 choice" or "2 choices"."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def named(text: str) -> list[str]:
    """Return the names in "a,b", as a type for `add_argument`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("name at least one")
    return list(dict.fromkeys(names))


def command(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], int] | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command; one that runs nothing has commands of its own, and prints its help."""
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run or help_of(parser))
    return parser


def help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Return the command that prints a parser's help, for where no other is given."""

    def show_help(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return show_help
