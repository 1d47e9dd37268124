# SPDX-License-Identifier: Apache-2.0
"""What each test costs, in CPU seconds: recorded once in `costs.tsv`, and used to choose and to order tests.

`--record-costs` measures (`make costs`), `--cheaper-than` leaves out what costs more (`make quick`), and `--part k/n`
runs one of n parts of the thorough tests that cost about the same (`make test-thorough PART=k/n`).
"""

import argparse
import os
import resource
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest
from programs import ROOT

__all__ = ["balanced", "part", "read", "written"]

FILE = ROOT / "tests" / "costs.tsv"
CHEAP = 0.005  # of a test without a record; and no record is kept of what costs less
PROPERTY = "cpu seconds"


def cost_name(nodeid: str) -> str:
    """Return the name under which an item's cost is recorded: that of its function, from the tests' folder."""
    return nodeid.partition("[")[0].rpartition("tests/")[2]


def read(text: str) -> dict[str, float]:
    """Return the seconds of an item of each function that has a record."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(seconds) for seconds, name in lines}


def written(costs: Mapping[str, float]) -> str:
    """Return the text of the file."""
    head = "# CPU seconds of one item of each test that costs more than others, written by `make costs`\n"
    return head + "".join(f"{costs[name]:.3g}\t{name}\n" for name in sorted(costs) if costs[name] > CHEAP)


def balanced(costs: Mapping[str, float], parts: int) -> dict[str, int]:
    """Assign each name to one of some parts, the dearest first, always to the part that costs least so far."""
    loads, found = [0.0] * parts, {}
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        found[name] = loads.index(min(loads))
        loads[found[name]] += costs[name]
    return found


def part(text: str) -> tuple[int, int]:
    """Read k/n as two numbers, of which k is at least 0 and less than n."""
    k, slash, n = text.partition("/")
    if not (slash and k.isdecimal() and n.isdecimal() and int(k) < int(n)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part; pass k/n with k from 0 to n - 1, such as 0/7")
    return int(k), int(n)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("brainevent")
    group.addoption("--record-costs", action="store_true", help=f"write what each test costs to {FILE.name}")
    group.addoption("--cheaper-than", type=float, metavar="SECONDS", help="leave out tests that are known to cost more")
    group.addoption("--part", type=part, metavar="K/N", help="of the thorough tests, run part K of N, counted from 0")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the options leave out; in parallel runs, put the longest files first."""
    costs = read(FILE.read_text()) if FILE.exists() else {}
    of = {item: costs.get(cost_name(item.nodeid), CHEAP) for item in items}
    chosen = items
    if (limit := config.getoption("cheaper_than")) is not None:
        chosen = [item for item in chosen if of[item] < limit]
    if config.getoption("part"):
        chosen = _of_part(chosen, of, *config.getoption("part"))
    if "PYTEST_XDIST_WORKER" in os.environ:
        chosen = _longest_first(chosen, of)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _of_part(items: Iterable[pytest.Item], of: Mapping[pytest.Item, float], k: int, n: int) -> list[pytest.Item]:
    """Return the items of one part; those of a function, which share what is compiled, stay together unless long."""
    items = list(items)
    functions = defaultdict(list)
    for item in items:
        functions[cost_name(item.nodeid)].append(item)
    long = sum(of[item] for item in items) / (4 * n)
    total = {name: sum(of[item] for item in group) for name, group in functions.items()}
    name_of = {item: name if total[name] < long else item.nodeid for name, group in functions.items() for item in group}
    costs = defaultdict(float)
    for item in items:
        costs[name_of[item]] += of[item]
    parts = balanced(costs, n)
    return [item for item in items if parts[name_of[item]] == k]


def _longest_first(items: Iterable[pytest.Item], of: Mapping[pytest.Item, float]) -> list[pytest.Item]:
    costs = defaultdict(float)
    for item in items:
        costs[item.path] += of[item]
    return sorted(items, key=lambda item: (-costs[item.path], item.path))


class _Clock:
    """CPU seconds of this process and of its ended children since the last look."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)

    def look(self) -> float:
        before, self.before = self.before, self.now()
        return self.before - before


class Recorder:
    """Measures each item where it runs, and writes the file where the reports arrive."""

    def __init__(self, config: pytest.Config) -> None:
        self.clock = _Clock()
        self.writes = "PYTEST_XDIST_WORKER" not in os.environ
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> None:
        item.user_properties[:] = [pair for pair in item.user_properties if pair[0] != PROPERTY]
        item.user_properties.append((PROPERTY, self.clock.look()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += dict(report.user_properties).get(PROPERTY, 0.0)

    def pytest_sessionfinish(self) -> None:
        if self.writes:
            known = read(FILE.read_text()) if FILE.exists() else {}
            FILE.write_text(written(renewed(known, self.seconds)))


def renewed(known: Mapping[str, float], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the costs of functions, where seconds of items replace what is known of the same files."""
    found = defaultdict(list)
    for nodeid, spent in seconds.items():
        found[cost_name(nodeid)].append(spent)
    files = {name.partition("::")[0] for name in found}
    others = {name: cost for name, cost in known.items() if name.partition("::")[0] not in files}
    return others | {name: sum(each) / len(each) for name, each in found.items()}


def pytest_configure(config: pytest.Config) -> None:
    """Measure, if asked to."""
    if config.getoption("record_costs"):
        config.pluginmanager.register(Recorder(config))
