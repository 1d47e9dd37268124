# SPDX-License-Identifier: Apache-2.0
"""`ProjectionPlan`: the synapses of a projection in numbers, without the synapses."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ProjectionPlan", "finer", "finer_about", "projection_of"]

Array = Any


@dataclass(frozen=True)
class ProjectionPlan:
    """What is known of a projection.

    `weights` are the smallest and the largest, in quanta, and `least` the size of the smallest that is not zero;
    `delays` are the smallest and the largest, in steps: all 0 without synapses. `same` says whether weights and delays
    are the same for all, and `dtypes` are those of targets, weights and delays. `rounding` is by how much a weight
    differs at most from the one that was asked for.
    """

    name: str
    source: str
    target: str
    receptor: str
    entries: int
    weights: tuple[int, int]
    least: int
    delays: tuple[int, int]
    same: tuple[bool, bool]
    dtypes: tuple[str, str, str]
    rounding: float = 0.0

    @property
    def largest_delay(self) -> int:
        """The largest delay in steps, at least 1."""
        return max(1, self.delays[1])

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take, without the table of their rows."""
        held = (True, not self.same[0], not self.same[1])
        return self.entries * sum(np.dtype(d).itemsize for d, own in zip(self.dtypes, held, strict=True) if own)


def projection_of(synapses: Any) -> ProjectionPlan:
    """Return what is known of the projection of a `SynapsePlan`."""
    arrays = synapses.targets, synapses.weights, synapses.delays
    entries = int(synapses.targets.size)
    return ProjectionPlan(
        synapses.name,
        synapses.source,
        synapses.target,
        synapses.receptor,
        entries,
        _ends(synapses.weights) if entries else (0, 0),
        _least(synapses.weights) if entries else 0,
        _ends(synapses.delays) if entries else (0, 0),
        (synapses.weights.size == 1, synapses.delays.size == 1),
        (str(arrays[0].dtype), str(arrays[1].dtype), str(arrays[2].dtype)),
        synapses.rounding,
    )


def _ends(values: Array) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _least(weights: Array) -> int:
    """Return the size of the smallest weight that is not zero, in quanta; 0 if there is none."""
    limits = np.iinfo(weights.dtype)
    above = int(weights.min(where=weights > 0, initial=limits.max))
    below = -int(weights.max(where=weights < 0, initial=limits.min))
    return min(above, below) if weights.any() else 0


_LARGEST_16 = 2**15 - 1


def finer(synapses: Any, times: int) -> Any:
    """Return a `SynapsePlan` with weights of so many times as many quanta."""
    if times == 1 or not synapses.weights.size:
        return synapses
    numbers = synapses.weights.astype(np.int64) * times
    narrow = synapses.weights.dtype == np.int16 and np.abs(numbers).max() <= _LARGEST_16
    return dataclasses.replace(synapses, weights=numbers.astype(np.int16 if narrow else np.int32))


def finer_about(about: ProjectionPlan, times: int) -> ProjectionPlan:
    """Return what is known of a projection with weights of so many times as many quanta."""
    low, high = (weight * times for weight in about.weights)
    targets, weights, delays = about.dtypes
    held = "int16" if weights == "int16" and max(-low, high) <= _LARGEST_16 else "int32"
    return dataclasses.replace(about, weights=(low, high), least=about.least * times, dtypes=(targets, held, delays))
