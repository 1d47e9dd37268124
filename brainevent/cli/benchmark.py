# SPDX-License-Identifier: Apache-2.0
"""`brainevent benchmark-performance`: measure operators, keep what is found, compare it with what was found before."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import did_you_mean
from .operators import add_modules, import_modules, registered, with_names, with_tags
from .words import CommandError, Commands, amount, command, complain, named, note, say

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult
    from ..bench.runs import Run
    from ..operator.custom_kernel import XLACustomKernel

__all__ = ["add"]

REGRESSIONS = 3  # the exit status that tells of them
_EPILOG = f"""\
exit status:
  0  all was measured
  1  an error: nothing matches, or an operator cannot be measured
  2  the command line is wrong
  {REGRESSIONS}  --compare found regressions

examples:
  brainevent benchmark-performance --import my_package.ops --platform cpu --output before.json
  brainevent benchmark-performance --import my_package.ops --platform cpu --compare before.json"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command."""
    about = "measure the kernels of operators, and compare them with a saved run"
    parser = command(commands, "benchmark-performance", about, epilog=_EPILOG)
    what = parser.add_argument_group("what to measure")
    what.add_argument("--platform", choices=("cpu", "gpu", "tpu"), required=True, help="where to run")
    add_modules(what)
    what.add_argument(
        "--data",
        type=named,
        default=["all"],
        metavar="all|TAG[,TAG...]",
        help="operators with any of these tags (default: all)",
    )
    what.add_argument("--operators", type=named, metavar="NAME[,NAME...]", help="only operators of these names")
    what.add_argument(
        "--backends",
        type=named,
        metavar="NAME[,NAME...]",
        help="only these backends (default: all that are registered; name reference to add it)",
    )
    how = parser.add_argument_group("how to measure")
    count = "(default: %(default)s)"
    how.add_argument("--n-warmup", type=_at_least(0), default=5, metavar="N", help=f"runs that do not count {count}")
    how.add_argument("--n-runs", type=_at_least(1), default=20, metavar="N", help=f"runs that count {count}")
    how.add_argument(
        "--n-batch-per-run", type=_at_least(1), default=1, metavar="N", help=f"calls in a run, in one loop {count}"
    )
    how.add_argument("--cold", action="store_true", help="empty the processor's caches before each run")
    after = parser.add_argument_group("what becomes of it")
    after.add_argument(
        "--output", type=Path, metavar="FILE", help="write all results as JSON, anew after each operator"
    )
    after.add_argument(
        "--plot", type=Path, metavar="PATH", help="draw times: a folder, or a .svg or .png file for one operator"
    )
    after.add_argument("--compare", type=Path, metavar="FILE", help="look for regressions since the run in this file")
    after.add_argument(
        "--tolerance",
        type=_percent,
        default=_percent("10"),
        metavar="PERCENT",
        help="with --compare: what is slower by less is no regression (default: 10)",
    )
    after.add_argument("--verbose", action="store_true", help="print each measurement when it is made")
    parser.set_defaults(run=lambda arguments: _benchmark(arguments, parser))


def _at_least(least: int) -> Any:
    def integer(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"pass an integer of at least {least}, not {text!r}")
        return int(text)

    return integer


def _percent(text: str) -> float:
    """Return the share that a percentage is."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"pass a percentage, such as 10, not {text!r}")
    return value / 100


def _benchmark(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if arguments.cold and arguments.n_batch_per_run > 1:
        parser.error("--cold times single calls: leave out --n-batch-per-run, or --cold")
    import_modules(arguments.modules)
    operators = _with_backends(_measurable(_chosen(arguments), arguments), arguments)

    from .reporting import Report  # what follows needs much that the help does not

    run = _begun(operators, arguments)
    report = Report.prepared(arguments, run, list(operators))
    say(f"{run.platform}: {run.machine}" if operators else "nothing is left to measure")
    failed = []
    for name, operator in operators.items():
        say(f"\n{name}\n{'=' * len(name)}")
        try:
            result = _measured(operator, arguments)
            run = dataclasses.replace(run, results=[*run.results, result])
            report.keep(run)
            report.show(result)
        except CommandError:
            raise
        except Exception as error:  # noqa: BLE001 - what one operator raises keeps no other from being measured
            say(f"ERROR — {type(error).__name__}: {error}".removesuffix(": "))
            failed.append(name)
    regressions = report.finish(run)
    if failed:
        return complain(f"{amount(len(failed), 'operator')} with an error: {', '.join(failed)}")
    return REGRESSIONS if regressions else 0


def _chosen(arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    operators = registered(arguments.modules)
    if not operators:
        raise CommandError(
            "no operator is defined, so there is nothing to measure; name the module that defines yours: "
            "--import my_package.ops"
        )
    if "all" not in arguments.data:
        operators = with_tags(operators, arguments.data)
    return with_names(operators, arguments.operators) if arguments.operators else operators


def _measurable(operators: Mapping[str, XLACustomKernel], arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    """Return the operators that have what it takes, and say which are skipped."""
    lacking = {name: why for name, operator in operators.items() if (why := _lacks(operator, arguments.platform))}
    if lacking:
        hint = "" if arguments.verbose else "; --verbose says why"
        note(f"{amount(len(lacking), 'operator')} skipped{hint}")
    if arguments.verbose:
        for name, why in lacking.items():
            note(f"  {name} has {why}")
    return {name: operator for name, operator in operators.items() if name not in lacking}


def _lacks(operator: XLACustomKernel, platform: str) -> str:
    if operator.definition.call is None:
        return "no call function: store one with def_call"
    if operator.definition.benchmark_data is None:
        return "no benchmark data: store a function with def_benchmark_data"
    return "" if operator.definition.backends(platform) else f"no backend for {platform}"


def _with_backends(operators: dict[str, XLACustomKernel], arguments: argparse.Namespace) -> dict[str, XLACustomKernel]:
    """Return the operators that have some of the wanted backends; raise if a backend is one that none has."""
    if not arguments.backends or not operators:
        return operators
    known = {backend for operator in operators.values() for backend in operator.definition.backends(arguments.platform)}
    for backend in arguments.backends:
        if backend not in known:
            raise CommandError(
                f"--backends: no operator has a backend {backend!r} for {arguments.platform}"
                f"{did_you_mean(backend, known)}; backends: {', '.join(sorted(known))}"
            )
    found = {name: operator for name, operator in operators.items() if _asked(operator, arguments)}
    if without := [name for name in operators if name not in found]:
        note(f"{amount(len(without), 'operator')} skipped, without these backends: {', '.join(without)}")
    return found


def _asked(operator: XLACustomKernel, arguments: argparse.Namespace) -> list[str] | None:
    """Return those of the wanted backends that an operator has; None if all are wanted."""
    if not arguments.backends:
        return None
    known = operator.definition.backends(arguments.platform)
    return [backend for backend in arguments.backends if backend in known]


def _machine(platform: str) -> str:
    """Name the device that is measured, or raise if there is none."""
    import jax

    from ..operator.tuning_lookup import device_of

    try:
        device = jax.local_devices(backend=platform)[0]
    except RuntimeError as error:
        raise CommandError(f"--platform {platform}: JAX finds no such device here ({error})") from None
    return device_of(platform) or str(device.device_kind)


def _measured(operator: XLACustomKernel, arguments: argparse.Namespace) -> BenchmarkResult:
    return operator.benchmark(
        platform=arguments.platform,
        n_warmup=arguments.n_warmup,
        n_runs=arguments.n_runs,
        n_batch_per_run=arguments.n_batch_per_run,
        cold=arguments.cold,
        backends=_asked(operator, arguments),
        verbose=arguments.verbose,
    )


def _begun(operators: Mapping[str, XLACustomKernel], arguments: argparse.Namespace) -> Run:
    """Return the run before it has results: where and how it is measured."""
    from ..bench.runs import Run
    from ..operator.tuning_lookup import versions_of

    tables = [operator.definition.candidates(arguments.platform) for operator in operators.values()]
    versions = versions_of(entry for table in tables for entry in table.values())
    return Run(
        platform=arguments.platform,
        results=(),
        machine=_machine(arguments.platform) if operators else "",
        versions=dict(one.rsplit(" ", 1) for one in versions.split(", ")),
        settings={name: getattr(arguments, name) for name in ("n_warmup", "n_runs", "n_batch_per_run", "cold")},
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
