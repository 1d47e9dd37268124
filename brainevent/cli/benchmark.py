# SPDX-License-Identifier: Apache-2.0
"""`brainevent benchmark`: measure operators, store results, compare them with earlier ones."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .operators import add_choice, backends_of, chosen, with_backends, with_data
from .parsing import FAILED, REGRESSIONS, Commands, Parser, add_shape, command
from .words import CommandError, amount, complain

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult
    from ..bench.runs import Run
    from ..operator.custom_kernel import XLACustomKernel

__all__ = ["add"]

_EPILOG = f"""\
exit status:
  0  all was measured
  {FAILED}  nothing was measured, or an operator cannot be measured
  2  the command line is wrong
  {REGRESSIONS}  --compare found regressions

examples:
  brainevent benchmark --import my_ops \\
      --output before.json
  brainevent benchmark --import my_ops \\
      --compare before.json"""
_QUICK = {"n_warmup": 1, "n_runs": 3}
_FULL = {"n_warmup": 5, "n_runs": 20}


def add(commands: Commands[Parser]) -> None:
    """Add the command."""
    about = "measure the kernels of operators, and compare them with a saved run"
    parser = command(commands, "benchmark", about, epilog=_EPILOG, also="benchmark-performance")
    parser.usage = f"{parser.prog} [options]"
    _add_what(parser.add_argument_group("what to measure"))
    _add_how(parser.add_argument_group("how to measure"))
    _add_results(parser.add_argument_group("what to do with the results"))
    parser.set_defaults(run=lambda arguments: _benchmark(arguments, parser), verb="measure")


def _add_what(group: argparse._ActionsContainer) -> None:
    group.add_argument("--platform", choices=("cpu", "gpu", "tpu"), help="where to run (default: JAX's default)")
    add_choice(group)


def _add_how(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--quick", action="store_true", help="a quick look: the first configuration of each operator, in few runs"
    )
    counts = {"warmup": (0, "runs before the measured ones, to warm up"), "runs": (1, "measured runs")}
    for name, (least, words) in counts.items():
        full, quick = _FULL[f"n_{name}"], _QUICK[f"n_{name}"]
        group.add_argument(
            f"--n-{name}",
            type=_at_least(least),
            metavar="N",
            help=f"{words} (default: {full}, with --quick {quick})",
        )
    group.add_argument(
        "--n-batch-per-run",
        type=_at_least(1),
        default=1,
        metavar="N",
        help="calls in a run, in one loop (default: %(default)s)",
    )
    group.add_argument("--cold", action="store_true", help="empty the processor's caches before each run")


def _add_results(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write all results as JSON, after each operator; - is stdout, as --json",
    )
    group.add_argument(
        "--plot", type=Path, metavar="PATH", help="draw times: a folder, or a .svg or .png file for one operator"
    )
    group.add_argument("--compare", type=Path, metavar="FILE", help="report regressions since the run in this file")
    group.add_argument(
        "--tolerance",
        type=_percent,
        default=_percent("10"),
        metavar="PERCENT",
        help="with --compare: a kernel that is slower by less is no regression (default: 10)",
    )
    group.add_argument("--verbose", action="store_true", help="print each measurement when it is made")
    add_shape(group)


def _at_least(least: int) -> Any:
    def integer(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"pass an integer of at least {least}, not {text!r}")
        return int(text)

    return integer


def _percent(text: str) -> float:
    """Return a percentage as a fraction."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"pass a percentage, such as 10, not {text!r}")
    return value / 100


def _benchmark(arguments: argparse.Namespace, parser: Parser) -> int:
    if arguments.cold and arguments.n_batch_per_run > 1:
        parser.error("--cold times single calls: leave out --n-batch-per-run, or --cold")
    if arguments.verbose and _to_stdout(arguments):
        parser.error("--verbose prints to stdout, where the JSON goes: leave out one of them")
    _complete(arguments)
    operators = with_backends(with_data(chosen(arguments), arguments), arguments)

    from ..bench.progress import overall
    from .reporting import Report  # the rest imports much that the help does not need

    report = Report.prepared(arguments, _begun(operators, arguments), list(operators))
    with overall(list(operators)) as progress, report.kept():
        for name, operator in operators.items():
            words = progress.begin(name)
            progress.pause()
            report.begin(words)
            try:
                result = _measured(operator, arguments)
                progress.pause()
                report.add(result)
            except CommandError:
                raise
            except Exception as error:  # noqa: BLE001 - an error of one operator keeps no other from being measured
                progress.pause()
                report.fail(name, error)
    if report.errors:
        return complain(f"{amount(len(report.errors), 'operator')} with an error: {', '.join(report.errors)}")
    if report.regressions:
        return REGRESSIONS
    if report.unmeasured:
        return complain("; ".join(f"nothing was measured of {name}: {why}" for name, why in report.unmeasured.items()))
    return 0


def _to_stdout(arguments: argparse.Namespace) -> bool:
    return arguments.json or arguments.output == Path("-")


def _complete(arguments: argparse.Namespace) -> None:
    """Complete the options from other options, and from JAX."""
    counts = _QUICK if arguments.quick else _FULL
    for name, count in counts.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, count)
    if arguments.output == Path("-"):
        arguments.json, arguments.output = True, None
    if arguments.platform is None:
        import jax

        arguments.platform = jax.default_backend()


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
    """Measure one operator; its prints go to stderr if stdout is for JSON."""
    with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        return _result(operator, arguments)


def _result(operator: XLACustomKernel, arguments: argparse.Namespace) -> BenchmarkResult:
    return operator.benchmark(
        platform=arguments.platform,
        n_warmup=arguments.n_warmup,
        n_runs=arguments.n_runs,
        n_batch_per_run=arguments.n_batch_per_run,
        cold=arguments.cold,
        backends=backends_of(operator, arguments),
        verbose=arguments.verbose,
        n_configs=1 if arguments.quick else None,
    )


def _begun(operators: Mapping[str, XLACustomKernel], arguments: argparse.Namespace) -> Run:
    """Return the run without results: the machine and the settings."""
    from ..bench.runs import Run
    from ..operator.tuning_lookup import versions_of

    tables = [operator.definition.candidates(arguments.platform) for operator in operators.values()]
    versions = versions_of(entry for table in tables for entry in table.values())
    return Run(
        platform=arguments.platform,
        results=(),
        machine=_machine(arguments.platform),
        versions=dict(one.rsplit(" ", 1) for one in versions.split(", ")),
        settings={name: getattr(arguments, name) for name in ("n_warmup", "n_runs", "n_batch_per_run", "cold")}
        | ({"quick": True} if arguments.quick else {}),
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
