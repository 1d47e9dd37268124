# SPDX-License-Identifier: Apache-2.0
"""`brainevent tune`: show, clear, export or import the choices that `tune` stored."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

from ..bench import tuning_store
from ..bench.words import time_text
from ..errors import did_you_mean
from .parsing import Commands, Parser, add_shape, command
from .words import amount, complain, say, say_json, say_table

__all__ = ["add"]

_LIST = """\
Choices that were made on another device or with other versions are marked, and are not used here. \
`brainevent list --import MODULE` shows whether kernels have changed since."""
_HEAD = ("operator", "platform", "operands and results", "backend", "variant", "time", "made with")
_STREAM = "-"  # stdout or stdin


def add(commands: Commands[Parser]) -> None:
    """Add the commands."""
    parser = command(commands, "tune", "show, clear, export or import the choices that `tune` stored")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, run, epilog in (
        ("list", "list the choices", _list, _LIST),
        ("clear", "remove the choices", _clear, None),
    ):
        parser = command(commands, name, about, run, epilog)
        parser.add_argument("operator", nargs="?", metavar="OPERATOR", help="only those of this operator")
        if name == "list":
            add_shape(parser)
        else:
            parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    for name, about, run, where in (
        ("export", "write the choices to a file", _export, "stdout"),
        ("import", "add the choices of a file", _import, "stdin"),
    ):
        command(commands, name, about, run).add_argument("file", metavar="FILE", help=f"- is {where}")


def _list(arguments: argparse.Namespace) -> int:
    from ..operator.tuning_lookup import unlike_here  # imported when used: it starts JAX

    found = tuning_store.tuned_choices(arguments.operator)
    if arguments.json and (found or arguments.operator is None):
        choices = [{**dataclasses.asdict(choice), "unlike_here": unlike_here(choice)} for choice in found]
        say_json({"file": str(tuning_store.file_path()), "choices": choices})
        return 0
    if not found:
        return _nothing(arguments.operator)
    rows = [
        (c.operator, c.platform, c.shapes, c.backend, c.variant, time_text(c.seconds), unlike_here(c)) for c in found
    ]
    wrapped = ("operator", "operands and results", "variant", "made with")
    say_table(arguments, _HEAD, rows, wrap=wrapped, drop=("platform", "made with", "variant"))
    say(f"{amount(len(found), 'choice')} in {tuning_store.file_path()}")
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    removed = tuning_store.clear_tuned(arguments.operator)
    if arguments.json and (removed or arguments.operator is None):
        say_json({"file": str(tuning_store.file_path()), "removed": removed})
        return 0
    if not removed:
        return _nothing(arguments.operator)
    say(f"cleared {amount(removed, 'choice')}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    if arguments.file != _STREAM:
        say(f"wrote {amount(tuning_store.export_tuned(arguments.file), 'choice')} to {arguments.file}")
        return 0
    with tempfile.TemporaryDirectory(prefix="brainevent-") as folder:
        place = Path(folder) / "choices.json"
        tuning_store.export_tuned(place)
        say(place.read_text(encoding="utf-8").rstrip("\n"))
    return 0


def _import(arguments: argparse.Namespace) -> int:
    if arguments.file != _STREAM:
        say(f"added {amount(tuning_store.import_tuned(arguments.file), 'choice')} from {arguments.file}")
        return 0
    with tempfile.TemporaryDirectory(prefix="brainevent-") as folder:
        place = Path(folder) / "stdin"
        place.write_bytes(sys.stdin.buffer.read())
        say(f"added {amount(tuning_store.import_tuned(place), 'choice')} from stdin")
    return 0


def _nothing(operator: str | None) -> int:
    if operator is None:
        say(f"nothing is tuned in {tuning_store.file_path()}")
        return 0
    hint = did_you_mean(operator, {choice.operator for choice in tuning_store.tuned_choices()})
    return complain(f"{tuning_store.file_path()} has no choice for operator {operator!r}{hint}")
