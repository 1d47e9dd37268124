# SPDX-License-Identifier: Apache-2.0
"""The grammar of commands: their help, exit statuses, and hints for unknown words."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from ..errors import did_you_mean

__all__ = [
    "FAILED", "INTERRUPTED", "REGRESSIONS", "STATUSES", "Commands", "Parser", "add_shape", "command", "help_of",
    "main_parser", "named",
]  # fmt: skip

FAILED, REGRESSIONS, INTERRUPTED = 1, 3, 130  # 130 is what shells report for a command that Ctrl-C ends
_USAGE = 2
STATUSES = {
    0: "success",
    FAILED: "an error; or `doctor` found a fault, `check` a broken promise, or the reader of a pipe closed it",
    _USAGE: "the command line is wrong",
    REGRESSIONS: "benchmark --compare found regressions",
    INTERRUPTED: "interrupted with Ctrl-C",
}
_EPILOG = "\n".join(["exit status:", *(f"  {status:<3}  {words}" for status, words in STATUSES.items())])


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps each line of an epilog; continued lines of lists are indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            inner = line[: len(line) - len(line.lstrip())]
            item = inner + " " * 5 if inner else ""
            lines += textwrap.wrap(line, width, subsequent_indent=item, break_on_hyphens=False) or [""]
        return "\n".join(indent + line for line in lines)


class Parser(argparse.ArgumentParser):
    """A parser that suggests a command or option for a misspelt one."""

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words; unknown ones are an error of this command, not of the one above it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = next((said for word in unknown if (said := did_you_mean(word, self._option_string_actions))), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known, what, say = list(map(str, action.choices)), "invalid choice:", "choose from"
        if isinstance(action, argparse._SubParsersAction):
            known, what, say = [choice.dest for choice in action._choices_actions], "unknown command", "commands"
        raise argparse.ArgumentError(action, f"{what} {value!r}{_meant(value, known)}; {say}: {', '.join(known)}")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with the status for it."""
        super().error(message.removeprefix("argument COMMAND: "))


def _meant(value: Any, known: Collection[str]) -> str:
    """Return a hint with the name that begins with a word or resembles it."""
    begun = [name for name in known if name.startswith(str(value))] if value else []
    return f"; did you mean {begun[0]!r}?" if len(begun) == 1 else did_you_mean(value, known)


Commands = argparse._SubParsersAction  # the type that `add_subparsers` returns has no public name


def command(
    commands: Commands[Parser],
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], int] | None = None,
    epilog: str | None = None,
    also: str | None = None,
) -> Parser:
    """Add a command, by another name, too; a command without a function has subcommands, and prints its help."""
    about_it = f"{about[0].upper()}{about[1:]}."
    names = () if also is None else (also,)
    parser = commands.add_parser(name, aliases=names, help=about, description=about_it, epilog=epilog)
    parser.set_defaults(run=run or help_of(parser))
    return parser


def help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Return the default command, which prints a parser's help."""

    def show_help(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return show_help


def main_parser(version: str, families: Sequence[Any]) -> Parser:
    """Return the parser of the command `brainevent`."""
    parser = Parser(
        prog="brainevent", description="List, check, measure and tune kernels on this machine.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"brainevent {version}")
    parser.set_defaults(run=help_of(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for family in families:
        family.add(commands)
    return parser


def add_shape(parser: argparse._ActionsContainer) -> None:
    """Add the options for output: JSON, or all columns."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--wide", action="store_true", help="print all columns, however wide the terminal is")


def named(text: str) -> list[str]:
    """Return the names in "a,b", as a type for `add_argument`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("name at least one")
    return list(dict.fromkeys(names))
