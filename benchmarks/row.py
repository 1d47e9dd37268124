# SPDX-License-Identifier: Apache-2.0
"""One line of the report: a measured value, what it is compared with, and its bar; or why there is none; or data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.samples import Summary, pairwise_ratio, summarize


@dataclass(frozen=True)
class Bar:
    """A limit on a row's value or on its ratio; `around_one`, on how far it is from 1."""

    limit: float
    on: Literal["value", "ratio"] = "ratio"
    at_least: bool = False
    around_one: bool = False

    def __str__(self) -> str:
        unit = " x" if self.on == "ratio" else ""
        if self.around_one:
            return f"1 ± {self.limit:g}{unit}"
        return f"{'>=' if self.at_least else '<='} {self.limit:g}{unit}"

    def met_by(self, value: float) -> bool:
        """Whether a value keeps to the limit."""
        if self.around_one:
            return abs(value - 1) <= self.limit
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class Band:
    """Limits on a row's value from both sides."""

    low: float
    high: float
    on: Literal["value"] = "value"

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"

    def met_by(self, value: float) -> bool:
        """Whether a value is within the limits."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Absent:
    """Why rows are missing."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: no rows, for {self.why}"


@dataclass(frozen=True)
class Failed:
    """Why rows are missing that should be there."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} FAILED: {self.why}"


@dataclass(frozen=True)
class Data:
    """What a picture shows that is no row: plain values, which stand in the file under this name."""

    name: str
    content: Any


@dataclass(frozen=True)
class Row:
    """One measured contender; `ratio` is relative to the contender `ratio_to` of the same process and round."""

    benchmark: str
    name: str
    unit: str
    value: Summary
    samples: tuple[float, ...]
    ratio: Summary | None = None
    ratio_to: str = ""
    bar: Bar | Band | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None without a bar."""
        if self.bar is None:
            return None
        judged = self.value if self.bar.on == "value" else self.ratio
        assert judged is not None
        return self.bar.met_by(judged.median)

    def to_json(self) -> dict[str, Any]:
        """The row as plain values, samples included."""
        return asdict(self) | {"met": self.met}


def make_row(
    benchmark: str,
    name: str,
    unit: str,
    samples: Sequence[float],
    *,
    baseline: Sequence[float] | None = None,
    ratio_to: str = "",
    inverse: bool = False,
    bar: Bar | Band | None = None,
    note: str = "",
) -> Row:
    """Summarize samples and their ratio to `baseline`; `inverse` says how many times faster than it we are."""
    ratio = None
    if baseline is not None:
        ratio = pairwise_ratio(baseline, samples) if inverse else pairwise_ratio(samples, baseline)
    return Row(benchmark, name, unit, summarize(samples), tuple(samples), ratio, ratio_to, bar, note)
