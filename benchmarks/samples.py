# SPDX-License-Identifier: Apache-2.0
"""Reduce the samples of interleaved rounds to a median, a spread and pairwise ratios."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The median of some samples, with their quartiles."""

    median: float
    low: float
    high: float


def summarize(samples: Sequence[float]) -> Summary:
    """Median and quartiles: (n,) -> Summary."""
    if len(samples) == 1:
        return Summary(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(median, low, high)


def pairwise_ratio(samples: Sequence[float], baseline: Sequence[float]) -> Summary:
    """Divide within each round, then summarize: a slow moment of the machine hits both sides of a ratio."""
    return summarize([sample / base for sample, base in zip(samples, baseline, strict=True)])
