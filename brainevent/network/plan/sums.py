# SPDX-License-Identifier: Apache-2.0
"""Where the sums of a network lie: those of one part of all populations side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .plan import IN_LINE, PopulationPlan, part_bounds

__all__ = ["SumPlaces", "sum_places"]

Array = Any


@dataclass(frozen=True, eq=False)
class SumPlaces:
    """Places of the sums of each part, one for each of its neurons and receptors.

    Attributes:
        first: By population and receptor, the place of the first neuron in each part: int64 (parts,).
        bounds: By population, where its parts begin and end: int64 (parts + 1,).
        sizes: How many places each part has: int64 (parts,).
    """

    first: dict[tuple[str, str], Array]
    bounds: dict[str, Array]
    sizes: Array

    def shifts(self, population: str, receptor: str) -> Array:
        """Return what to add to a neuron's number for its place, in each part."""
        return self.first[population, receptor] - self.bounds[population][:-1]


def sum_places(populations: Sequence[PopulationPlan], parts: int) -> SumPlaces:
    """Return the places of sums: each receptor begins with a line of cache."""
    first, sizes = {}, np.zeros(parts, np.int64)
    bounds = {population.name: part_bounds(population.size, parts) for population in populations}
    for population in populations:
        own = np.diff(bounds[population.name])
        for receptor in population.quanta:
            first[population.name, receptor] = sizes.copy()
            sizes += own + -own % IN_LINE
    return SumPlaces(first, bounds, sizes)
