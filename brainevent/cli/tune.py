# SPDX-License-Identifier: Apache-2.0
"""`brainevent tune`: show, clear, export or import what `tune` remembers."""

from __future__ import annotations

import argparse

from ..bench import tuning_store
from ..bench.words import columns, time_text
from ..errors import did_you_mean
from .words import Commands, amount, command, complain, say

__all__ = ["add"]

_LIST = """\
What was made on another device or with other versions is told, and does not count here. Whether kernels have changed
since cannot be told without them: `brainevent list --import MODULE` does."""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    parser = command(commands, "tune", "show, clear, export or import what `tune` remembers")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, run, epilog in (
        ("list", "list the choices", _list, _LIST),
        ("clear", "forget the choices", _clear, None),
    ):
        parser = command(commands, name, about, run, epilog)
        parser.add_argument("operator", nargs="?", metavar="OPERATOR", help="only those of this operator")
    for name, about, run in (
        ("export", "write the choices to a file", _export),
        ("import", "add the choices of a file", _import),
    ):
        command(commands, name, about, run).add_argument("file", metavar="FILE")


def _list(arguments: argparse.Namespace) -> int:
    from ..operator.tuning_lookup import unlike_here  # it asks JAX for devices

    found = tuning_store.tuned_choices(arguments.operator)
    if not found:
        return _nothing(arguments.operator)
    rows = [("operator", "platform", "operands and results", "backend", "variant", "time", "made with")]
    rows += [
        (c.operator, c.platform, c.shapes, c.backend, c.variant, time_text(c.seconds), unlike_here(c)) for c in found
    ]
    elsewhere = any(row[-1] for row in rows[1:])
    say(columns(rows if elsewhere else [row[:-1] for row in rows]))
    say(f"{amount(len(found), 'choice')} in {tuning_store.file_path()}")
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    removed = tuning_store.clear_tuned(arguments.operator)
    if not removed:
        return _nothing(arguments.operator)
    say(f"cleared {amount(removed, 'choice')}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    say(f"wrote {amount(tuning_store.export_tuned(arguments.file), 'choice')} to {arguments.file}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    say(f"added {amount(tuning_store.import_tuned(arguments.file), 'choice')} from {arguments.file}")
    return 0


def _nothing(operator: str | None) -> int:
    if operator is None:
        say(f"nothing is tuned in {tuning_store.file_path()}")
        return 0
    hint = did_you_mean(operator, {choice.operator for choice in tuning_store.tuned_choices()})
    return complain(f"nothing in {tuning_store.file_path()} is of operator {operator!r}{hint}")
