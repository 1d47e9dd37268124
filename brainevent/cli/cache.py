# SPDX-License-Identifier: Apache-2.0
"""`brainevent cache`: show or clear the cache of compiled libraries."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence

from ..doctor import size_in_words
from ..errors import did_you_mean
from ..toolchain import cache
from .parsing import Commands, Parser, add_shape, command
from .words import amount, complain, say, say_json, say_table

__all__ = ["add"]

_KEY = 16  # characters of a key that distinguish entries


def add(commands: Commands[Parser]) -> None:
    """Add the commands."""
    parser = command(commands, "cache", "show or clear the cache of compiled libraries")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_json(command(commands, "dir", "print its path", _dir))
    add_shape(command(commands, "list", "list its entries", _list))
    parser = command(commands, "clear", "remove its entries", _clear)
    parser.add_argument("name", nargs="?", metavar="NAME", help="only those of this name")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_json(parser)


def _add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def _dir(arguments: argparse.Namespace) -> int:
    if arguments.json:
        say_json({"directory": cache.get_cache_dir()})
    else:
        say(cache.get_cache_dir())
    return 0


def _list(arguments: argparse.Namespace) -> int:
    found = cache.entries()
    if arguments.json:
        entries = [{"name": e.name, "key": e.key, "bytes": e.bytes, "modified": e.modified} for e in found]
        say_json({"directory": cache.get_cache_dir(), "entries": entries})
        return 0
    if not found:
        say(_empty())
        return 0
    now = time.time()
    key = slice(None if arguments.wide else _KEY)
    rows = [(e.name, e.key[key], size_in_words(e.bytes), _age(now - e.modified)) for e in found]
    say_table(arguments, ("name", "key", "size", "age"), rows, right=("size", "age"), drop=("key",), wrap=("name",))
    say(f"{_amount(found)} in {cache.get_cache_dir()}")
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    every = cache.entries()
    found = [entry for entry in every if arguments.name in (None, entry.name)]
    if arguments.name is None and found and not arguments.yes and sys.stdin.isatty() and not _confirmed(found):
        say("nothing is cleared")
        return 1
    removed = cache.clear_cache(arguments.name)
    if arguments.json and (removed or arguments.name is None):
        say_json({"directory": cache.get_cache_dir(), "removed": removed, "bytes": sum(entry.bytes for entry in found)})
    elif removed:
        say(f"cleared {_count(removed)}, {_size(found)}")
    elif arguments.name is None:
        say(_empty())
    else:
        hint = did_you_mean(arguments.name, [entry.name for entry in every])
        return complain(f"nothing in {cache.get_cache_dir()} is named {arguments.name!r}{hint}")
    return 0


def _confirmed(found: Sequence[cache.Entry]) -> bool:
    try:
        answer = input(f"Clear {_amount(found)}, in {cache.get_cache_dir()}? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        say("")
        return False
    return answer.strip().lower() in ("y", "yes")


def _empty() -> str:
    return f"the cache at {cache.get_cache_dir()} is empty"


def _amount(found: Sequence[cache.Entry]) -> str:
    return f"{_count(len(found))}, {_size(found)}"


def _count(number: int) -> str:
    return amount(number, "entry", "entries")


def _size(found: Iterable[cache.Entry]) -> str:
    return size_in_words(sum(entry.bytes for entry in found))


def _age(seconds: float) -> str:
    """Return "3 h": in the largest unit of which there is one."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0) // 1:.0f} s"
