# SPDX-License-Identifier: Apache-2.0
"""One run of benchmarks of several operators, with machine, date and settings, as a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files
from .files import ForeignFileError
from .result import BenchmarkResult
from .whole_files import write_whole

__all__ = ["ForeignFileError", "Run", "best_backend", "wins"]


@dataclass(frozen=True)
class Run:
    """Results of operators on one platform; of a file that holds results alone, the rest is empty."""

    platform: str
    results: Sequence[BenchmarkResult]
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # how it was measured
    date: str = ""

    def optimal_defaults(self) -> dict[str, dict[str, str]]:
        """Return the best backend of each operator, as `{operator: {platform: backend}}`."""
        best = {result.primitive_name: best_backend(result) for result in self.results}
        return {name: {self.platform: backend} for name, backend in best.items() if backend is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the run for JSON, as `read` expects it."""
        return {
            "format": files.RUN_FORMAT,
            "version": files.RUN_VERSION,
            "platform": self.platform,
            "machine": self.machine,
            "versions": dict(self.versions),
            "settings": dict(self.settings),
            "date": self.date,
            "results": [result.to_dict() for result in self.results],
            "optimal_defaults": self.optimal_defaults(),
        }

    def write(self, path: Path) -> None:
        """Write a JSON file in one piece, in folders that are made as needed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(self.to_dict(), indent=1).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Run:
        """Read what `write` wrote, or `BenchmarkResult.save` as JSON; raise `ForeignFileError` if it is neither."""
        fields, results = files.read_run(path)
        return cls(**{"platform": "", **fields}, results=[BenchmarkResult(*result) for result in results])


def best_backend(result: BenchmarkResult) -> str | None:
    """Return the backend that is fastest for most labels, the first of several; None if none is correct."""
    won = wins(result)
    order = list(dict.fromkeys(record.backend for record in result.records))
    return max(order, key=lambda backend: won[backend]) if won else None


def wins(result: BenchmarkResult) -> Counter[str]:
    """Count the labels for which each backend is the fastest."""
    labels = dict.fromkeys(record.label for record in result.records)
    return Counter(best.backend for label in labels if (best := result.fastest(label)) is not None)
