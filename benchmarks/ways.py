# SPDX-License-Identifier: Apache-2.0
"""Run a probe of several ways to the same result, whichever of them are missing or fail."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Failed


@dataclass
class Measured:
    """Samples by name, and by way why there are none."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def notes(self, labels: Mapping[str, str], prefix: str = "") -> list[Absent | Failed]:
        """One sentence for each way without rows."""
        return [
            *(Absent(f"{prefix}{labels[way]}", why) for way, why in self.missing.items()),
            *(Failed(f"{prefix}{labels[way]}", why) for way, why in self.failed.items()),
        ]


def measure_ways(
    probe: str, ways: Mapping[str, Any], arguments: dict[str, Any], *, processes: int = 1, **where: Any
) -> Measured:
    """Join the samples of several processes, in microseconds; a way that fails in one of them has none.

    A way that takes its process down with it is left out, and the others run again.
    """
    joined, left = Measured(), dict(ways)
    done = 0
    while done < processes and left:
        try:
            answer = run_probe(probe, {"ways": left, **arguments}, platform="gpu", **where)
        except ProbeError as error:
            if error.doing not in left:
                raise
            failed, missing = {error.doing: last_line(error)}, {}
        else:
            done += 1
            failed, missing = answer["failed"], answer["missing"]
            for name, more in answer["samples"].items():
                joined.samples.setdefault(name, []).extend(1e6 * sample for sample in more)
        joined.failed |= failed
        joined.missing |= missing
        left = {way: value for way, value in left.items() if way not in failed and way not in missing}
    _drop(joined.samples, joined.failed)
    return joined


def _drop(samples: dict[str, list[float]], ways: Collection[str]) -> None:
    """Forget what was measured before a way failed: its samples are those of fewer rounds than the others'."""
    for name in list(samples):
        if any(name.rpartition("_")[0] == way for way in ways):
            del samples[name]


def last_line(error: Exception) -> str:
    """How a probe ended."""
    lines: Sequence[str] = str(error).splitlines()
    return f"{lines[0]}: {lines[-1].strip()}" if len(lines) > 1 else lines[0]
