# SPDX-License-Identifier: Apache-2.0
"""The operators of a command: those of the imported modules, selected by tag and by name."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import did_you_mean
from ..operator.registry import get_registry
from .words import CommandError, note

if TYPE_CHECKING:
    from ..operator.custom_kernel import XLACustomKernel

__all__ = ["add_modules", "import_modules", "registered", "with_names", "with_tags"]


def add_modules(parser: argparse._ActionsContainer) -> None:
    """Add the option `--import`."""
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="the operators that a module defines, such as my_package.ops, instead of brainevent's own; may be given "
        "several times (brainevent.event.library adds brainevent's)",
    )


def import_modules(names: Iterable[str]) -> None:
    """Import modules like `python -m`: from the current directory first."""
    for name in names:
        if os.sep in name or name.endswith(".py"):
            raise CommandError(f"--import {name}: this is a file; name a module, such as my_package.ops")
        here = os.getcwd()
        if sys.path[:1] != [here]:
            sys.path.insert(0, here)
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise CommandError(f"--import {name}: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """Return the error of an import in one sentence, with the line of the user's code, if there is one."""
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    ours = (importlib.__file__, __file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in ours]
    at = next((f" ({f.filename}, line {f.lineno})" for f in reversed(frames) if not f.filename.startswith("<")), "")
    return f"{said.splitlines()[0]}{'' if isinstance(error, SyntaxError) else at}"


def registered(modules: Collection[str]) -> dict[str, XLACustomKernel]:
    """Return all operators by name, sorted; those of brainevent only without `--import`, or if it names them."""
    from ..event import library  # imported when used: --help needs no operators

    found = dict(sorted(get_registry().items()))
    if not modules or library.__name__ in modules:
        return found
    return {name: operator for name, operator in found.items() if library.OPERATORS.get(name) is not operator}


def with_tags(operators: Mapping[str, XLACustomKernel], tags: Collection[str]) -> dict[str, XLACustomKernel]:
    """Return the operators that have any of the tags, and report tags that no operator has."""
    known = {tag for operator in operators.values() for tag in operator.definition.tags}
    unknown = [f"{tag!r}{did_you_mean(tag, known)}" for tag in tags if tag not in known]
    if len(unknown) == len(tags):
        tags_in_words = ", ".join(sorted(known)) or "none"
        raise CommandError(f"no operator has the tag {' or '.join(unknown)}; tags: {tags_in_words}{_advice(operators)}")
    for said in unknown:
        note(f"brainevent: no operator has the tag {said}")
    return {name: operator for name, operator in operators.items() if operator.definition.tags & set(tags)}


def with_names(operators: Mapping[str, XLACustomKernel], names: Sequence[str]) -> dict[str, XLACustomKernel]:
    """Return the operators of these names."""
    for name in names:
        if name not in operators:
            raise CommandError(
                f"there is no operator {name!r}{did_you_mean(name, operators)}; "
                f"operators: {', '.join(operators) or 'none'}{_advice(operators)}"
            )
    return {name: operators[name] for name in names}


def _advice(known: Collection[str]) -> str:
    return "" if known else "; name the module that defines yours with --import MODULE"
