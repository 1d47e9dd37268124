# SPDX-License-Identifier: Apache-2.0
"""The command line: `python -m benchmarks --help`."""

import argparse
import datetime as dt
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine, machine_slug
from benchmarks.options import HERE, Options
from benchmarks.peer import PEER, PeerError, find_peer, find_peer_packages
from benchmarks.process import ProbeError
from benchmarks.report import format_table, format_verdict, write_result
from benchmarks.row import Absent, Data, Failed, Row
from benchmarks.suite import BENCHMARKS, Benchmark
from benchmarks.ways import last_line


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
    peer = options.peer_title or (PEER if options.peer else None)
    path = _path(arguments, machine)

    def save(found: _Found) -> None:
        told = {"absent": no_peers + found.absent, "failures": found.failures}
        told |= {"data": found.data} if found.data else {}
        header = _header(arguments, machine, peer) | {"seconds": round(time.monotonic() - start), **told}
        write_result(path, header, found.rows)

    found = _run_all(chosen, options, save)
    print(f"{format_verdict(found.rows, found.failures)}\n{round(time.monotonic() - start)} s\nwrote {path}")
    print(*_draw(path), sep="", end="")
    return 1 if found.failures else 0


def _draw(path: Path) -> list[str]:
    """Draw what a file has pictures of, into a folder beside it; return lines that say so."""
    if importlib.util.find_spec("matplotlib") is None:
        return ["no pictures: matplotlib is not installed\n"]
    from benchmarks.pictures import draw

    return [f"drew {drawn}\n" for drawn in draw([json.loads(path.read_text())], path.with_suffix(""))]


@dataclass
class _Found:
    """Rows, a sentence for each that is absent and for each that failed, and what pictures show besides."""

    rows: list[Row] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def add(self, benchmark: str, found: Row | Absent | Failed | Data) -> None:
        """Take what a benchmark found."""
        if isinstance(found, Row):
            self.rows.append(found)
        elif isinstance(found, Data):
            self.data[found.name] = found.content
        else:
            where = self.absent if isinstance(found, Absent) else self.failures
            where.append(f"{benchmark}: {found}")


def _parse_arguments() -> argparse.Namespace:
    names = sorted({one.name for one in BENCHMARKS})
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare brainevent with C++ and peers.")
    parser.add_argument("--only", action="append", choices=names, help="run this benchmark; may be given again")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each process (default: each its own number)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and processes: about six minutes, noisier")
    parser.add_argument(
        "--size",
        action="append",
        type=size,
        default=[],
        metavar="NxC",
        help="of the products of spikes: measure this size, such as 77000x80; may be given again",
    )
    parser.add_argument(
        "--scale", action="append", type=float, default=[], help="of the hpc benchmark; may be given again"
    )
    parser.add_argument("--no-peers", action="store_true", help=f"leave out Warp, Brian2 and {PEER}")
    parser.add_argument("--gpu", action="store_true", help="the GPU benchmarks instead of the CPU ones")
    parser.add_argument("--output", type=Path, help="file or folder for the JSON (default: benchmarks/results/)")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: pass 1 or more")
    return arguments


def size(text: str) -> tuple[int, int]:
    """Neurons and connections of each, from a text like 77000x80."""
    neurons, connections = text.split("x")
    return int(neurons), int(connections)


def _make_options(arguments: argparse.Namespace) -> tuple[Options, list[str]]:
    """The options, and one sentence for each peer that is absent."""
    if arguments.no_peers:
        sizes, scales = tuple(arguments.size), tuple(arguments.scale)
        options = Options(arguments.rounds, arguments.quick, sizes=sizes, peers=False, scales=scales)
        return options, ["--no-peers was given"]
    absent, peer, packages, title = [], None, None, ""
    has_warp = importlib.util.find_spec("warp") is not None
    if not has_warp:
        absent.append("Warp is not installed here: pip install warp-lang")
    try:
        if arguments.gpu:
            packages, title = find_peer_packages()
        else:
            peer = find_peer()
    except PeerError as error:
        print(error, "\n", file=sys.stderr, flush=True)
        absent.append(f"no PyPI package: {error}" if arguments.gpu else f"{PEER} could not be installed")
    for sentence in absent:
        print(sentence, "\n", flush=True)
    found = Options(arguments.rounds, arguments.quick, has_warp, peer, packages, title, tuple(arguments.size))
    return replace(found, scales=tuple(arguments.scale)), absent


def _run_all(chosen: Sequence[Benchmark], options: Options, save: Callable[[_Found], None]) -> _Found:
    """Run one benchmark after the other, also if some fail, and save what there is after each row."""
    all_found = _Found()
    save(all_found)
    for benchmark in chosen:
        found = _Found()
        try:
            for one in benchmark.measure_rows(options):
                found.add(benchmark.name, one)
                all_found.add(benchmark.name, one)
                save(all_found)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
            if not isinstance(error, ProbeError):
                traceback.print_exc()
            all_found.failures.append(f"{benchmark.name}: {last_line(error)}")
            save(all_found)
            print(f"{benchmark.name} failed: {error}\n", file=sys.stderr, flush=True)
        table = format_table(f"{benchmark.name}: {benchmark.title}", found.rows)
        print("\n".join([table, *found.absent, *found.failures]), "\n", flush=True)
    return all_found


def _header(arguments: argparse.Namespace, machine: dict[str, Any], peer: str | None) -> dict[str, Any]:
    return {
        "date": dt.date.today().isoformat(),
        "machine": machine,
        "options": {name: getattr(arguments, name) for name in ("only", "rounds", "quick", "size", "scale")},
        "peer": peer,
    }


def _path(arguments: argparse.Namespace, machine: dict[str, Any]) -> Path:
    """The file that `--output` names, or `<date>-<machine>.json` in the folder that it names, else in `results/`.

    A partial run does not overwrite a whole one.
    """
    if arguments.output is not None and not arguments.output.is_dir():
        named: Path = arguments.output
        return named
    parts = [dt.date.today().isoformat(), machine_slug(machine, gpu=arguments.gpu), *(arguments.only or [])]
    parts += [f"{neurons}x{connections}" for neurons, connections in arguments.size]
    parts += [f"scale{scale:g}" for scale in arguments.scale]
    parts += [word for word, given in (("quick", arguments.quick), ("gpu", arguments.gpu)) if given]
    return (arguments.output or HERE / "results") / f"{'-'.join(parts)}.json"


if __name__ == "__main__":
    sys.exit(main())
