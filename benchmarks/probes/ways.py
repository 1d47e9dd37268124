# SPDX-License-Identifier: Apache-2.0
"""Ways to the same result, of which some may be missing on a machine, and some may fail: the others are measured."""

import importlib.util
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.probes.progress import tell
from benchmarks.probes.rounds import interleave

# What a probe answers: samples by name, and by way why it is missing or what it failed with.
Answer = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Way:
    """How to make a contender, and the packages that this needs."""

    make: Callable[[], Callable[..., Any]]
    packages: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Why it cannot be here, or None."""
        absent = [name for name in self.packages if not _is_here(name)]
        return f"not here: {', '.join(absent)}" if absent else None


def _is_here(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it should be in is missing
        return False


@dataclass
class Field:
    """The timers of those that take part, and why the others do not."""

    timers: dict[str, Callable[[], float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ways: Mapping[str, Way],
        names: Iterable[str],
        timers: Callable[[str, Callable[..., Any]], dict[str, Callable[[], float]]],
    ) -> "Field":
        """Make each way by name, and what `timers(name, contender)` times of it."""
        found = cls()
        for name in names:
            if why := ways[name].missing():
                found.missing[name] = why
                continue
            tell(name)
            try:
                found.timers |= timers(name, ways[name].make())
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
                found.failed[name] = tell_of(error)
        return found

    def measure(self, rounds: int) -> Answer:
        """Time all of them in turns."""
        tell(f"{rounds} rounds of {len(self.timers)} timers")
        # What was made last may have had the others traced again, and a graph is recorded in one of the first runs.
        for timer in self.timers.values():
            timer()
        samples = interleave(self.timers, rounds)
        return {"samples": samples, "missing": self.missing, "failed": self.failed}


def tell_of(error: BaseException) -> str:
    """Show where an error comes from, and return its last line."""
    for line in "".join(traceback.format_exception(error)).splitlines()[-15:]:
        tell(f"| {line}")
    return _last_line(error)


def _last_line(error: BaseException) -> str:
    """The end of an error's message, with its type."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"[:300]
