#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plant known mistakes in copies of the package, one at a time, and say which of them the tests notice."""

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from mutations import MUTANTS, Mutant
from mutations.judge import NOT_APPLICABLE, NOTICED, Judge, Verdict

ROOT = Path(__file__).resolve().parent.parent
_EPILOG = """
A mutant is killed if one of its tests fails that passes without the mutant. It survives if all pass, and is not judged
if all are skipped or deselected. A mutant whose text is not found once in the tree is an error: correct the table.
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.compare:
        return _compare(*map(_read, arguments.compare))
    chosen = _part(_chosen(arguments.only, arguments.room), arguments.part)
    if arguments.list:
        width = max(len(mutant.name) for mutant in chosen)
        for mutant in chosen:
            print(f"{mutant.name:<{width}}  brainevent/{mutant.file}  ({', '.join(mutant.tests)})")
        print(f"{len(chosen)} mutants in {len({mutant.room for mutant in chosen})} rooms")
        return 0
    return _judge(chosen, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="list the mutants, and judge none")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only mutants of these names")
    parser.add_argument(
        "--room", nargs="+", metavar="ROOM", help="only mutants of these rooms, such as event/csr or bench"
    )
    parser.add_argument("--part", metavar="K/N", help="only every Nth mutant, from the Kth on (K from 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time (default: 1)")
    parser.add_argument("--limit", type=float, default=400, metavar="SECONDS", help="for each mutant (default: 400)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts, anew after each mutant")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="take over the verdicts of this file, and judge the rest"
    )
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="PATH", help="judge the tests of another checkout")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="run the tests with this interpreter")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="compare two files of verdicts, and judge none",
    )
    return parser


def _chosen(names: Sequence[str] | None, rooms: Sequence[str] | None) -> list[Mutant]:
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in names or () if name not in known]:
        sys.exit(f"there is no mutant {', '.join(unknown)}; --list shows those that there are")
    found = [known[name] for name in names] if names else list(MUTANTS)
    if rooms:
        found = [m for m in found if any(m.room == room or m.room.startswith(f"{room}/") for room in rooms)]
    return found or sys.exit("no mutant is in these rooms; --list shows those that there are")


def _part(chosen: Sequence[Mutant], part: str | None) -> Sequence[Mutant]:
    if part is None:
        return chosen
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        sys.exit(f"--part is {part!r}; pass K/N with K from 0 to N - 1, such as 0/2")
    return chosen[int(number) :: int(count)]


def _judge(chosen: Sequence[Mutant], arguments: argparse.Namespace) -> int:
    verdicts = {}
    if arguments.resume and arguments.resume.exists():
        before, prints = _read(arguments.resume), {mutant.name: mutant.fingerprint for mutant in MUTANTS}
        verdicts = {name: verdict for name, verdict in before.items() if verdict.fingerprint == prints.get(name)}
    left = [mutant for mutant in chosen if mutant.name not in verdicts]
    scratch = ROOT / "build" / "mutants" / str(os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # no test is left running
    with (
        ThreadPoolExecutor(arguments.jobs) as pool,
        Judge(arguments.tree.resolve(), scratch, arguments.python, arguments.limit) as judge,
    ):
        print(f"{len(left)} mutants to judge, {len(chosen) - len(left)} were judged before", flush=True)
        waiting = {pool.submit(judge, mutant): mutant for mutant in left}
        for number, done in enumerate(as_completed(waiting), 1):
            name = waiting[done].name
            verdicts[name] = done.result()
            _write(arguments.json, verdicts)
            print(f"[{number}/{len(left)}] {name}: {verdicts[name]}", flush=True)
    return _summary({mutant.name: verdicts[mutant.name] for mutant in chosen})


def _write(path: Path | None, verdicts: dict[str, Verdict]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    draft.write_text(json.dumps({name: vars(verdicts[name]) for name in sorted(verdicts)}, indent=1) + "\n")
    draft.replace(path)


def _read(path: Path) -> dict[str, Verdict]:
    return {name: Verdict(**fields) for name, fields in json.loads(path.read_text()).items()}


def _summary(verdicts: dict[str, Verdict]) -> int:
    counts = Counter(verdict.outcome for verdict in verdicts.values())
    mean = sum(verdict.cpu_seconds for verdict in verdicts.values()) / len(verdicts)
    print(f"\n{len(verdicts)} mutants: {', '.join(f'{n} {outcome}' for outcome, n in counts.most_common())}; "
          f"{mean:.0f} CPU seconds each in the mean")  # fmt: skip
    for name, verdict in sorted(verdicts.items()):
        if verdict.outcome not in NOTICED:
            print(f"  {verdict.outcome}: {name}")
    return 1 if counts[NOT_APPLICABLE] else 0


def _compare(before: dict[str, Verdict], after: dict[str, Verdict]) -> int:
    """Print whose verdict changed; the exit status is 1 if a mutant is noticed no longer."""
    lost = 0
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name].outcome, after[name].outcome
        if (was in NOTICED) != (now in NOTICED):
            print(f"  {name}: {was} before, {now} after")
            lost += was in NOTICED
    for title, verdicts in (("before", before), ("after", after)):
        noticed = sum(verdict.outcome in NOTICED for verdict in verdicts.values())
        print(f"{title}: {noticed} of {len(verdicts)} noticed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
