# SPDX-License-Identifier: Apache-2.0
"""The command line: `python -m benchmarks --help`."""

import argparse
import datetime as dt
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine, machine_slug
from benchmarks.options import HERE, Options
from benchmarks.peer import PEER, PeerError, find_peer
from benchmarks.process import ProbeError
from benchmarks.report import format_table, format_verdict, write_result
from benchmarks.row import Absent, Row
from benchmarks.suite import BENCHMARKS, Benchmark


def main() -> int:
    """Run the chosen benchmarks; the exit status says whether all of them ran, not whether the bars are met."""
    arguments = _parse_arguments()
    platform = "gpu" if arguments.gpu else "cpu"
    chosen = [one for one in BENCHMARKS if one.platform == platform and one.name in (arguments.only or [one.name])]
    if not chosen:
        print(f"No {platform} benchmark is there yet{' by that name' if arguments.only else ''}.")
        return 0
    start, machine = time.monotonic(), describe_machine()
    print(", ".join(f"{key} {value}" for key, value in machine.items() if value and key != "packages"))
    print(", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version), "\n", flush=True)
    options, no_peers = _make_options(arguments)
    rows, no_rows, failures = _run_all(chosen, options)
    seconds = round(time.monotonic() - start)
    print(f"{format_verdict(rows, failures)}\n{seconds} s")
    header = _header(arguments, machine) | {"seconds": seconds, "absent": no_peers + no_rows, "failures": failures}
    path = arguments.output or _default_path(arguments, machine)
    write_result(path, header, rows)
    print(f"wrote {path}")
    return 1 if failures else 0


def _parse_arguments() -> argparse.Namespace:
    names = sorted({one.name for one in BENCHMARKS})
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare brainevent with C++ and peers.")
    parser.add_argument("--only", action="append", choices=names, help="run this benchmark; may be given again")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each process (default: each its own number)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and processes: about three minutes, noisier")
    parser.add_argument("--no-peers", action="store_true", help=f"leave out Warp and {PEER}")
    parser.add_argument("--gpu", action="store_true", help="the GPU benchmarks instead of the CPU ones")
    parser.add_argument("--output", type=Path, help="where to write the JSON (default: benchmarks/results/)")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: pass 1 or more")
    return arguments


def _make_options(arguments: argparse.Namespace) -> tuple[Options, list[str]]:
    """The options, and one sentence for each peer that is absent."""
    if arguments.no_peers or arguments.gpu:
        # A machine with a GPU may have no network to install peers from.
        why = "--no-peers was given" if arguments.no_peers else "GPU benchmarks compare with code written by hand alone"
        return Options(arguments.rounds, arguments.quick), [why]
    absent, peer = [], None
    has_warp = importlib.util.find_spec("warp") is not None
    if not has_warp:
        absent.append("Warp is not installed here: pip install warp-lang")
    try:
        peer = find_peer()
    except PeerError as error:
        print(error, "\n", file=sys.stderr, flush=True)
        absent.append(f"{PEER} could not be installed")
    for sentence in absent:
        print(sentence, "\n", flush=True)
    return Options(arguments.rounds, arguments.quick, has_warp, peer), absent


def _run_all(chosen: Sequence[Benchmark], options: Options) -> tuple[list[Row], list[str], list[str]]:
    """All rows, a sentence for those that are absent, and the name of each benchmark that failed: the others run."""
    rows: list[Row] = []
    absent: list[str] = []
    failures: list[str] = []
    for benchmark in chosen:
        try:
            found = benchmark.measure_rows(options)
        except ProbeError as error:
            failures.append(benchmark.name)
            print(f"{benchmark.name} failed: {error}\n", file=sys.stderr, flush=True)
            continue
        measured = [row for row in found if isinstance(row, Row)]
        missing = [str(row) for row in found if isinstance(row, Absent)]
        table = format_table(f"{benchmark.name}: {benchmark.title}", measured)
        print("\n".join([table, *missing]), "\n", flush=True)
        rows, absent = rows + measured, absent + missing
    return rows, absent, failures


def _header(arguments: argparse.Namespace, machine: dict[str, Any]) -> dict[str, Any]:
    return {
        "date": dt.date.today().isoformat(),
        "machine": machine,
        "options": {"only": arguments.only, "rounds": arguments.rounds, "quick": arguments.quick},
        "peer": None if arguments.no_peers or arguments.gpu else PEER,
    }


def _default_path(arguments: argparse.Namespace, machine: dict[str, Any]) -> Path:
    """`results/<date>-<machine>.json`; a partial run does not overwrite a whole one."""
    parts = [dt.date.today().isoformat(), machine_slug(machine, gpu=arguments.gpu), *(arguments.only or [])]
    parts += [word for word, given in (("quick", arguments.quick), ("gpu", arguments.gpu)) if given]
    return HERE / "results" / f"{'-'.join(parts)}.json"


if __name__ == "__main__":
    sys.exit(main())
