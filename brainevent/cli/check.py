# SPDX-License-Identifier: Apache-2.0
"""`brainevent check`: check the promises of operators, with the operands that their benchmark data give them."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .operators import add_choice, backends_of, chosen, with_backends, with_data
from .parsing import FAILED, Commands, Parser, add_shape, command, named
from .words import CommandError, amount, begun, complain, note, say, say_json, say_table

if TYPE_CHECKING:
    from ..operator.check import CheckReport
    from ..operator.custom_kernel import XLACustomKernel

__all__ = ["add"]

_EPILOG = f"""\
The operands are those that the call function passes to the operator when it gets the benchmark data.

exit status:
  0  every promise that was checked holds
  {FAILED}  a promise is broken, or of an operator nothing can be checked
  2  the command line is wrong

examples:
  brainevent check --import my_ops
  brainevent check --import my_ops:spike_input --promises jit,vjp"""
_HEAD = ("backend", "promise", "status", "detail")
_OK, _FAILED, _SKIPPED = "ok", "failed", "skipped"


class _Checked(NamedTuple):
    """One call of an operator, and its report."""

    label: str
    types: str
    report: CheckReport


def add(commands: Commands[Parser]) -> None:
    """Add the command."""
    parser = command(commands, "check", "check the promises of operators with their benchmark data", epilog=_EPILOG)
    parser.usage = f"{parser.prog} [options]"
    group = parser.add_argument_group("what to check")
    add_choice(group)
    group.add_argument(
        "--promises",
        type=named,
        metavar="NAME[,NAME...]",
        help='only these promises, such as "jit,nested vmap", besides shapes, dtypes and values (default: all)',
    )
    group.add_argument("--quick", action="store_true", help="only the first configuration of each operator")
    group = parser.add_argument_group("what to print")
    group.add_argument("--verbose", action="store_true", help="also say why operators are skipped")
    add_shape(group)
    parser.set_defaults(run=_check, verb="check")


def _check(arguments: argparse.Namespace) -> int:
    import jax  # the rest imports much that the help does not need

    arguments.platform = jax.default_backend()
    operators = with_backends(with_data(chosen(arguments), arguments), arguments)
    _check_promises(arguments.promises)
    found: dict[str, list[_Checked]] = {}
    errors: dict[str, str] = {}
    try:
        for number, (name, operator) in enumerate(operators.items(), 1):
            title = f"{name} ({number} of {len(operators)})" if len(operators) > 1 else name
            _say_title(title, arguments)
            try:
                found[name] = list(_checked(operator, arguments))
            except Exception as error:  # noqa: BLE001 - an error of one operator keeps no other from being checked
                errors[name] = f"{type(error).__name__}: {error}".removesuffix(": ")
            _say_operator(name, found, errors, arguments)
    finally:
        if arguments.json:
            say_json({"platform": arguments.platform, "operators": _as_dict(found), "errors": errors})
    return _status(found, errors)


def _check_promises(names: Sequence[str] | None) -> None:
    from ..errors import did_you_mean
    from ..operator.check import PROMISES

    for name in names or ():
        if name not in PROMISES:
            known = ", ".join(PROMISES)
            raise CommandError(f"--promises: unknown promise {name!r}{did_you_mean(name, PROMISES)}; known: {known}")


def _checked(operator: XLACustomKernel, arguments: argparse.Namespace) -> Iterator[_Checked]:
    """Check each call that the benchmark data lead to; what this prints goes to stderr if stdout is for JSON."""
    from ..operator.benchmarking import benchmark_data
    from ..operator.check import check, recorded_calls

    backends = backends_of(operator, arguments)
    with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        for config in benchmark_data(operator.definition, arguments.platform)[: 1 if arguments.quick else None]:
            for call in recorded_calls(operator, config):
                asked: Any = {"outs": call.outs, "backends": backends, "promises": arguments.promises}
                yield _Checked(call.label, call.types, check(call.of(operator), *call.operands, **asked))


def _say_title(title: str, arguments: argparse.Namespace) -> None:
    if arguments.json:
        note(title)
    else:
        say(f"\n{title}\n{'=' * len(title)}")


def _say_operator(
    name: str, found: Mapping[str, Sequence[_Checked]], errors: Mapping[str, str], arguments: argparse.Namespace
) -> None:
    """Print what was checked of an operator, and with which data."""
    if arguments.json:
        return
    if name in errors:
        say(f"ERROR — {errors[name]}")
        return
    for one in found[name]:
        say(f"{one.label}: {one.types}")
    if rows := _rows(found[name]):
        say("")
        say_table(arguments, _HEAD, rows, wrap=("detail",))
        say(f"\n{_counts(rows)}, with {amount(len(found[name]), 'call')}")


def _rows(calls: Sequence[_Checked]) -> list[tuple[str, ...]]:
    """Return a row for each promise of each backend: broken if it is with any call, skipped if it is with each."""
    together: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for one in calls:
        for row in one.report.rows:
            together.setdefault((row.backend, row.promise), []).append((one.label, row.status, row.detail))
    return [(*key, _status_of(rows), _detail(rows, len(calls))) for key, rows in together.items()]


def _status_of(rows: Sequence[tuple[str, str, str]]) -> str:
    found = {status for _, status, _ in rows}
    return next(status for status in (_FAILED, _OK, _SKIPPED) if status in found)


def _detail(rows: Sequence[tuple[str, str, str]], calls: int) -> str:
    """Return what was found: of broken promises that alone; with labels where it is not said of each call."""
    worst = _status_of(rows)
    told = [row for row in rows if row[1] == _FAILED] if worst == _FAILED else rows
    labels: dict[str, list[str]] = {}
    for label, status, detail in told:
        said = f"{status}: {detail}" if status != worst else detail
        labels.setdefault(said, []).append(label)
    if len(labels) == 1 and len(told) == calls:
        return next(iter(labels))
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in labels.items() if said)


def _counts(rows: Sequence[Sequence[str]]) -> str:
    counts = [(sum(row[2] == status for row in rows), status) for status in (_OK, _FAILED, _SKIPPED)]
    return ", ".join(f"{count} {status}" for count, status in counts if count)


def _as_dict(found: Mapping[str, Sequence[_Checked]]) -> dict[str, Any]:
    return {
        name: [
            {
                "label": one.label,
                "call": one.types,
                "ok": one.report.ok,
                "rows": [row._asdict() for row in one.report.rows],
            }
            for one in calls
        ]
        for name, calls in found.items()
    }


def _status(found: Mapping[str, Sequence[_Checked]], errors: Mapping[str, str]) -> int:
    """Return the exit status, and complain of each operator that breaks a promise or could not be checked."""
    said = [f"{name} cannot be checked: {begun(error)}" for name, error in errors.items()]
    for name, calls in found.items():
        if broken := sum(row[2] == _FAILED for row in _rows(calls)):
            said.append(f"{name} breaks {amount(broken, 'promise')}")
        elif idle := [one for one in calls if not one.report.ok]:
            reasons = "; ".join(f"{row.backend}: {begun(row.detail)}" for row in idle[0].report.rows)
            said.append(f"nothing could be checked of {name} with {idle[0].label}{reasons and f' ({reasons})'}")
        elif not calls:
            said.append(f"nothing could be checked of {name}: its benchmark data are empty")
    return complain("; ".join(said)) if said else 0
