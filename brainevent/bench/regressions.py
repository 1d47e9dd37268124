# SPDX-License-Identifier: Apache-2.0
"""Compare results with earlier ones: what is slower, fails, or is wrong?"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .files import as_dict
from .record import BenchmarkRecord
from .result import BenchmarkResult
from .runs import Run

__all__ = ["Change", "changes", "differences", "other_settings"]

_TELLING = ("n_batch_per_run", "cold")  # settings that change the times


@dataclass(frozen=True)
class Change:
    """The result of one backend and configuration, compared with an earlier one.

    The verdict is "slower", "faster" or "same" if both have correct times; "failed" or "wrong" describes the new
    result; "new" has no correct earlier result, and "gone" no new one.
    """

    label: str
    backend: str
    before: BenchmarkRecord | None
    now: BenchmarkRecord | None
    verdict: str

    @property
    def ratio(self) -> float:
        """The time now by the time before; NaN if one of them is missing."""
        return _ratio(self.now, self.before)

    @property
    def is_regression(self) -> bool:
        """Return whether something got worse."""
        if self.verdict == "failed":
            return self.before is not None and self.before.success
        if self.verdict == "wrong":
            return self.before is None or self.before.mismatch is None
        return self.verdict == "slower"


def changes(
    before: BenchmarkResult, now: BenchmarkResult, tolerance: float = 0.1, backends: Collection[str] | None = None
) -> list[Change]:
    """Compare two results of one operator, in the order of the new one, followed by missing ones.

    A kernel is slower if its median is more than `1 + tolerance` times the earlier one, and the quartiles do not
    overlap. If `backends` lists the measured ones, others are not gone.
    """
    old = dict(_keyed(before))
    found = []
    for key, record in _keyed(now):
        past = old.pop(key, None)
        found.append(Change(record.label, record.backend, past, record, _verdict(past, record, tolerance)))
    found += [
        Change(past.label, past.backend, past, None, "gone")
        for past in old.values()
        if backends is None or past.backend in backends
    ]
    return found


def _keyed(result: BenchmarkResult) -> Iterator[tuple[Any, BenchmarkRecord]]:
    """Pair each record with what it is found by: backend, label and keywords; those that share these, by their order.

    Keywords are compared as stored in a file.
    """
    seen: dict[Any, int] = defaultdict(int)
    for record, kept in zip(result.records, as_dict(result.records, "")["records"], strict=True):
        kwargs = json.dumps([kept["kernel_kwargs"], kept["data_kwargs"]], sort_keys=True)
        key = (record.backend, record.label, kwargs)
        seen[key] += 1
        yield (*key, seen[key]), record


def _verdict(before: BenchmarkRecord | None, now: BenchmarkRecord, tolerance: float) -> str:
    if not now.success:
        return "failed"
    if now.mismatch is not None:
        return "wrong"
    if before is None or not before.success or before.mismatch is not None:
        return "new"
    ratio = _ratio(now, before)
    (old_low, old_high), (low, high) = _quartiles(before), _quartiles(now)
    if ratio > 1 + tolerance and low > old_high:
        return "slower"
    if ratio < 1 / (1 + tolerance) and high < old_low:
        return "faster"
    return "same"


def _ratio(now: BenchmarkRecord | None, before: BenchmarkRecord | None) -> float:
    if now is None or before is None or not before.typical_ms:
        return math.nan
    return now.typical_ms / before.typical_ms


def _quartiles(record: BenchmarkRecord) -> tuple[float, float]:
    if math.isnan(record.low_ms) or math.isnan(record.high_ms):
        return record.typical_ms, record.typical_ms
    return record.low_ms, record.high_ms


def differences(before: Run, now: Run) -> list[str]:
    """Return the differences in machine and versions of two runs; missing values are not compared."""
    found = _unlike(
        [
            ("platform", before.platform, now.platform),
            ("machine", before.machine, now.machine),
            *((name, before.versions.get(name), now.versions.get(name)) for name in sorted(before.versions)),
        ]
    )
    if not before.platform and (strange := {r.platform for b in before.results for r in b.records} - {now.platform}):
        found.append(f"platform: {', '.join(sorted(strange))} before, {now.platform} now")
    return found


def other_settings(before: Run, now: Run) -> list[str]:
    """Return the differences of two runs in settings that affect times."""
    return _unlike([(name, before.settings.get(name), now.settings.get(name)) for name in _TELLING])


def _unlike(pairs: Sequence[tuple[str, Any, Any]]) -> list[str]:
    return [
        f"{what}: {old} before, {new} now"
        for what, old, new in pairs
        if old not in (None, "") and new is not None and old != new
    ]
