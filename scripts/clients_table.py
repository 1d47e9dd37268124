# SPDX-License-Identifier: Apache-2.0
"""Print the table of clients.sh, from pytest's report of each test file: RESULTS/{pypi,ours,fused}/CLIENT/FILE.xml."""

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

HEAD = ("PyPI's", "ours", "ours fails", "both fail")
FUSED = ("XLA's", "native", "native fails", "both fail")


@dataclass(frozen=True)
class Outcome:
    """What became of one test: passed, failed, skipped or missing, and the first words on why."""

    state: str
    why: str = ""


def outcomes(result: Path) -> dict[str, Outcome]:
    """Read what became of the tests of one file; of a file that ended without a report, of none."""
    if not result.exists():
        return {}
    found = {}
    for case in ET.parse(result).iter("testcase"):
        name = "::".join(filter(None, (case.get("classname", "").rpartition(".")[2], case.get("name", ""))))
        said = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if said is None:
            found.setdefault(name, Outcome("passed"))
        else:
            why = " ".join((said.get("message") or said.text or "").split()).partition(" ------")[0]  # JAX adds a note
            found[name] = Outcome("skipped" if said.tag == "skipped" else "failed", why)
    return found


@dataclass
class Compared:
    """The tests of one file, on both packages."""

    theirs: dict[str, Outcome]
    ours: dict[str, Outcome]
    behind: dict[str, str] = field(init=False)

    def __post_init__(self):
        """Find the tests that pass on PyPI's alone, and why ours does not pass."""
        self.behind = {
            name: outcome.why if outcome.state == "failed" else f"{outcome.state}: {outcome.why}"
            for name, outcome in ((name, self.ours.get(name) or self.absent()) for name in self.passed(self.theirs))
            if outcome.state != "passed"
        }

    def absent(self) -> Outcome:
        """Say why a test is not there: what stopped its file from being read, if anything did."""
        return Outcome("missing", "; ".join(outcome.why for outcome in self.ours.values() if outcome.state == "failed"))

    @staticmethod
    def passed(of: dict[str, Outcome]) -> list[str]:
        return [name for name, outcome in of.items() if outcome.state == "passed"]

    def counts(self) -> tuple[int, ...]:
        failed = [name for name, outcome in self.theirs.items() if outcome.state == "failed"]
        both = [name for name in failed if self.ours.get(name, Outcome("missing")).state in ("failed", "missing")]
        return len(self.passed(self.theirs)), len(self.passed(self.ours)), len(self.behind), len(both)


def compare(results: Path, names: tuple[str, str] = ("pypi", "ours")) -> dict[str, Compared]:
    """Compare file by file: a log is there for every file that was run, a report where pytest came to its end."""
    folders = [results / name for name in names]
    logs = sorted({log.relative_to(folder) for folder in folders for log in folder.rglob("*.log")})
    if not logs:
        raise FileNotFoundError(f"no reports in {results}")
    reports = [log.with_suffix(".xml") for log in logs]
    return {
        str(report.with_suffix("")): Compared(*(outcomes(folder / report) for folder in folders)) for report in reports
    }


def table(files: dict[str, Compared], head: tuple[str, ...] = HEAD) -> str:
    rows = [(name, *compared.counts()) for name, compared in files.items()]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 5))))
    width = max(len(row[0]) for row in rows)
    lines = [f"{'':{width}}" + "".join(f"{word:>13}" for word in head)]
    lines += [f"{row[0]:{width}}" + "".join(f"{number:13}" for number in row[1:]) for row in rows]
    return "\n".join(lines)


def listed(files: dict[str, Compared]) -> str:
    """List the tests that pass on PyPI's alone, by file and by reason."""
    lines = []
    for name, compared in files.items():
        by_reason = defaultdict(list)
        for test, why in compared.behind.items():
            by_reason[why[:200]].append(test)
        for why, tests in by_reason.items():
            lines += [f"  {name}: {why}", *(f"    {test}" for test in tests)]
    return "\n".join(lines) or "  none"


def of_loops(folder: Path, most: int = 12) -> str:
    """Say how many loops of each client became native calls, and why most of the others did not."""
    clients: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.loops")):
        counted = [line.split(" ", 1) for line in file.read_text().splitlines()]
        for number, what in counted:
            if what in ("seen", "native"):
                clients[file.relative_to(folder).parts[0]][what] += int(number)
            else:
                reasons[re.sub(r"\d+", "N", what)] += int(number)
    lines = [f"  {name}: {count['native']} of {count['seen']}" for name, count in clients.items()]
    return "\n".join([*lines, *(f"  {number:6} {why}" for why, number in reasons.most_common(most))])


def main(results: Path) -> bool:
    """Print the tables, and what passes on PyPI's alone, or with XLA's loops alone; tell whether anything does."""
    files = compare(results)
    print("Tests that pass on PyPI's, and on ours; of the former, those that ours fails; those that both fail\n")
    print(table(files))
    print("\nPasses on PyPI's alone")
    print(listed(files))
    fused = compare(results, ("ours", "fused")) if (results / "fused").exists() else {}
    if fused:
        print("\nTests that pass on ours with XLA's loops, and with native ones; those that only native ones fail\n")
        print(table(fused, FUSED))
        print("\nPasses with XLA's loops alone")
        print(listed(fused))
        print("\nLoops that became native calls, and why others did not")
        print(of_loops(results / "fused"))
    return any(compared.behind for compared in (*files.values(), *fused.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
