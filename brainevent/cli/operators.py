# SPDX-License-Identifier: Apache-2.0
"""The operators of a command: those of the imported modules, selected by tag, by name and by what they have."""

from __future__ import annotations

import argparse
import importlib
import operator as of_python
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..errors import did_you_mean
from ..operator.custom_kernel import XLACustomKernel
from ..operator.registry import get_registry
from .parsing import named
from .words import CommandError, amount, note

__all__ = [
    "add_choice", "add_modules", "backends_of", "chosen", "import_modules", "registered", "with_backends", "with_data",
    "with_tags",
]  # fmt: skip


def add_modules(parser: argparse._ActionsContainer) -> None:
    """Add the option `--import`."""
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE[:OPERATOR]",
        help="the operators that a module defines, such as my_package.ops, or one of them, my_package.ops:spike_input, "
        "instead of brainevent's own; may be given several times (brainevent.event.library adds brainevent's)",
    )


def add_choice(group: argparse._ActionsContainer) -> None:
    """Add the options that choose operators, and backends of these."""
    add_modules(group)
    group.add_argument(
        "--data",
        type=named,
        default=["all"],
        metavar="all|TAG[,TAG...]",
        help="operators with any of these tags (default: all)",
    )
    group.add_argument("--operators", type=named, metavar="NAME[,NAME...]", help="only operators of these names")
    group.add_argument(
        "--backends",
        type=named,
        metavar="NAME[,NAME...]",
        help="only these backends (default: all that are registered; name reference to add it)",
    )


def chosen(arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    """Import the modules, and return the operators that `--import`, `--data` and `--operators` name."""
    import_modules(arguments.modules)
    operators = registered(arguments.modules)
    if not operators:
        raise CommandError(
            f"no operator is defined, so there is nothing to {arguments.verb}; name the module that defines yours: "
            "--import my_package.ops"
        )
    if "all" not in arguments.data:
        operators = with_tags(operators, arguments.data)
    return _with_names(operators, arguments.operators) if arguments.operators else operators


def with_data(operators: Mapping[str, XLACustomKernel], arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    """Return the operators with benchmark data and a backend; report those that are skipped, raise if all are."""
    lacking = {name: why for name, operator in operators.items() if (why := _lacks(operator, arguments.platform))}
    if len(lacking) == len(operators):
        of = {why: [name for name, reason in lacking.items() if reason == why] for why in lacking.values()}
        reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in of.items())
        raise CommandError(f"nothing is left to {arguments.verb}: {reasons}")
    if lacking:
        hint = "" if arguments.verbose else "; --verbose says why"
        note(f"{amount(len(lacking), 'operator')} skipped{hint}")
    if arguments.verbose:
        for name, why in lacking.items():
            note(f"  {name} has {why}")
    return {name: operator for name, operator in operators.items() if name not in lacking}


def _lacks(operator: XLACustomKernel, platform: str) -> str:
    if operator.definition.benchmark_data is None:
        return "no benchmark data: store a function with def_benchmark_data"
    return "" if operator.definition.backends(platform) else f"no backend for {platform}"


def with_backends(operators: dict[str, XLACustomKernel], arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    """Return the operators with some of the requested backends; raise if no operator has one of these."""
    if not arguments.backends:
        return operators
    known = {backend for operator in operators.values() for backend in operator.definition.backends(arguments.platform)}
    for backend in arguments.backends:
        if backend not in known:
            raise CommandError(
                f"--backends: no operator has a backend {backend!r} for {arguments.platform}"
                f"{did_you_mean(backend, known)}; backends: {', '.join(sorted(known))}"
            )
    found = {name: operator for name, operator in operators.items() if backends_of(operator, arguments)}
    if without := [name for name in operators if name not in found]:
        note(f"{amount(len(without), 'operator')} skipped, without these backends: {', '.join(without)}")
    return found


def backends_of(operator: XLACustomKernel, arguments: argparse.Namespace) -> list[str] | None:
    """Return those of the requested backends that an operator has; None if all are requested."""
    if not arguments.backends:
        return None
    known = operator.definition.backends(arguments.platform)
    return [backend for backend in arguments.backends if backend in known]


def import_modules(names: Iterable[str]) -> None:
    """Import modules like `python -m`: from the current directory first."""
    for module in names:
        name = module.partition(":")[0]
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
    if any(":" in module for module in modules):
        return dict(_attribute(module) for module in modules)
    if not modules or library.__name__ in modules:
        return found
    return {name: operator for name, operator in found.items() if library.OPERATORS.get(name) is not operator}


def _attribute(module: str) -> tuple[str, XLACustomKernel]:
    """Return the operator that "module:attribute" names, with its name."""
    name, colon, path = module.partition(":")
    if not colon:
        raise CommandError(f"--import {name}: name an operator of each module (MODULE:OPERATOR), or of none")
    try:
        found = of_python.attrgetter(path)(sys.modules[name])
    except AttributeError:
        known = [key for key, value in vars(sys.modules[name]).items() if isinstance(value, XLACustomKernel)]
        hint = f"{did_you_mean(path, known)}; operators: {', '.join(known) or 'none'}"
        raise CommandError(f"--import {module}: the module has no {path!r}{hint}") from None
    if not isinstance(found, XLACustomKernel):
        raise CommandError(f"--import {module}: expected an XLACustomKernel, found {type(found).__name__}")
    return found.name, found


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


def _with_names(operators: Mapping[str, XLACustomKernel], names: Sequence[str]) -> dict[str, XLACustomKernel]:
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
