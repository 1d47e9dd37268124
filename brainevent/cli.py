# SPDX-License-Identifier: Apache-2.0
"""The command `brainevent`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from . import doctor
from ._version import __version__
from .bench import choices
from .bench.tune import in_words
from .errors import BrainEventError, did_you_mean
from .toolchain import cache

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 if all is well, 1 if not."""
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):  # else Python flushes once more at its end, and complains
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BrainEventError as error:
        print(f"brainevent: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="brainevent", description="Look after kernels on this machine.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"brainevent {__version__}")
    parser.set_defaults(run=_help_of(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    about = "say what this machine offers to kernels, and what is wrong with it"
    command = commands.add_parser("doctor", help=about, description=about.capitalize(), allow_abbrev=False)
    command.add_argument(
        "--try", action="store_true", dest="attempt", help="also compile and run a kernel, in a temporary directory"
    )
    command.set_defaults(run=_doctor)

    about = "show or clear the cache of compiled libraries"
    command = commands.add_parser("cache", help=about, description=about.capitalize(), allow_abbrev=False)
    command.set_defaults(run=_help_of(command))
    _add_cache_commands(command)

    about = "show, clear, export or import what `tune` remembers"
    command = commands.add_parser("tune", help=about, description=about.capitalize(), allow_abbrev=False)
    command.set_defaults(run=_help_of(command))
    _add_tune_commands(command)
    return parser


def _add_tune_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    command = commands.add_parser("list", help="list the choices")
    command.add_argument("operator", nargs="?", metavar="OPERATOR", help="only those of this operator")
    command.set_defaults(run=_tune_list)
    command = commands.add_parser("clear", help="forget the choices", allow_abbrev=False)
    command.add_argument("operator", nargs="?", metavar="OPERATOR", help="only those of this operator")
    command.set_defaults(run=_tune_clear)
    for name, about, run in (
        ("export", "write the choices to a file", _tune_export),
        ("import", "add the choices of a file", _tune_import),
    ):
        command = commands.add_parser(name, help=about, allow_abbrev=False)
        command.add_argument("file", metavar="FILE")
        command.set_defaults(run=run)


def _add_cache_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    commands.add_parser("dir", help="print its path").set_defaults(run=_cache_dir)
    commands.add_parser("list", help="list its entries").set_defaults(run=_cache_list)
    command = commands.add_parser("clear", help="remove its entries", allow_abbrev=False)
    command.add_argument("name", nargs="?", metavar="NAME", help="only those of this name")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.set_defaults(run=_cache_clear)


def _help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Return the command that prints a parser's help, for where no other is given."""

    def show_help(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return show_help


def _doctor(arguments: argparse.Namespace) -> int:
    found = doctor.report(attempt=arguments.attempt)
    found.write(sys.stdout)
    return 1 if found.faults else 0


def _cache_dir(arguments: argparse.Namespace) -> int:
    print(cache.get_cache_dir())
    return 0


def _cache_list(arguments: argparse.Namespace) -> int:
    found = cache.entries()
    if not found:
        print(_empty())
        return 0
    now = time.time()
    rows = [("name", "key", "size", "age")]
    rows += [(e.name, e.key, doctor.size_in_words(e.bytes), _age(now - e.modified)) for e in found]
    name, key, size, age = (max(map(len, column)) for column in zip(*rows, strict=True))
    for row in rows:
        print(f"{row[0]:<{name}}  {row[1]:<{key}}  {row[2]:>{size}}  {row[3]:>{age}}")
    print(f"{_amount(found)} in {cache.get_cache_dir()}")
    return 0


def _cache_clear(arguments: argparse.Namespace) -> int:
    every = cache.entries()
    found = [entry for entry in every if arguments.name in (None, entry.name)]
    if arguments.name is None and found and not arguments.yes and sys.stdin.isatty() and not _confirmed(found):
        print("nothing is cleared")
        return 1
    removed = cache.clear_cache(arguments.name)
    if removed:
        print(f"cleared {_count(removed)}, {_size(found)}")
    elif arguments.name is None:
        print(_empty())
    else:
        hint = did_you_mean(arguments.name, [entry.name for entry in every])
        print(f"brainevent: nothing in {cache.get_cache_dir()} is named {arguments.name!r}{hint}", file=sys.stderr)
        return 1
    return 0


def _tune_list(arguments: argparse.Namespace) -> int:
    found = choices.tuned_choices(arguments.operator)
    if not found:
        return _nothing_tuned(arguments.operator)
    rows = [("operator", "platform", "operands and results", "backend", "variant", "time")]
    rows += [(c.operator, c.platform, c.shapes, c.backend, c.variant, in_words(c.seconds)) for c in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{_choices_in_words(len(found))} in {choices.file_path()}")
    return 0


def _tune_clear(arguments: argparse.Namespace) -> int:
    removed = choices.clear_tuned(arguments.operator)
    if not removed:
        return _nothing_tuned(arguments.operator)
    print(f"cleared {_choices_in_words(removed)}")
    return 0


def _tune_export(arguments: argparse.Namespace) -> int:
    print(f"wrote {_choices_in_words(choices.export_tuned(arguments.file))} to {arguments.file}")
    return 0


def _tune_import(arguments: argparse.Namespace) -> int:
    print(f"added {_choices_in_words(choices.import_tuned(arguments.file))} from {arguments.file}")
    return 0


def _nothing_tuned(operator: str | None) -> int:
    if operator is None:
        print(f"nothing is tuned in {choices.file_path()}")
        return 0
    hint = did_you_mean(operator, {choice.operator for choice in choices.tuned_choices()})
    print(f"brainevent: nothing in {choices.file_path()} is of operator {operator!r}{hint}", file=sys.stderr)
    return 1


def _choices_in_words(number: int) -> str:
    return f"{number} {'choice' if number == 1 else 'choices'}"


def _confirmed(found: Sequence[cache.Entry]) -> bool:
    try:
        answer = input(f"Clear {_amount(found)}, in {cache.get_cache_dir()}? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def _empty() -> str:
    return f"the cache at {cache.get_cache_dir()} is empty"


def _amount(found: Sequence[cache.Entry]) -> str:
    return f"{_count(len(found))}, {_size(found)}"


def _count(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"


def _size(found: Iterable[cache.Entry]) -> str:
    return doctor.size_in_words(sum(entry.bytes for entry in found))


def _age(seconds: float) -> str:
    """Return "3 h": in the largest unit of which there is one."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0) // 1:.0f} s"
