# SPDX-License-Identifier: Apache-2.0
"""`Partition`: which block of a kernel owns which neurons, and where their sums lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.plan import Plan
from .text import Kind

__all__ = ["Partition", "partition_of"]

_WARP = 32

Array = Any


@dataclass(frozen=True)
class Partition:
    """Neurons are numbered through all populations; number n is place n // blocks of block n % blocks.

    `begins` says where the numbers of a population begin: those of one kind follow each other, so that all blocks
    have the same share of it, and each kind begins with a warp. `per` is how many places a block has. Receptor r has
    a cell for each of the first `reach[r + 1] - reach[r]` places: it begins at `reach[r]`; `cells` is how many there
    are.
    """

    blocks: int
    per: int
    begins: Mapping[str, int]
    sources: int
    reach: tuple[int, ...]
    cells: int

    def slots(self, population: str, size: int) -> Array:
        """Return where each neuron of a population is in arrays (blocks x places)."""
        numbers = np.arange(size, dtype=np.int64) + self.begins[population]
        return numbers % self.blocks * self.per + numbers // self.blocks

    def by_block(self, values: Array) -> Array:
        """Return values by number as an array (blocks x places)."""
        padded = np.zeros(self.per * self.blocks, values.dtype)
        padded[: values.size] = values
        return np.ascontiguousarray(padded.reshape(self.per, self.blocks).T).reshape(-1)


def partition_of(plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], blocks: int) -> Partition:
    """Share the neurons of a plan out over blocks."""
    begins: dict[str, int] = {}
    ends = []  # of kinds
    end = 0
    for number in range(len(kinds)):
        end += -end % (_WARP * blocks)
        for population in plan.populations:
            if numbers[population.name] == number:
                begins[population.name] = end
                end += population.size
        ends.append(end)
    reach = [0]
    for receptor in range(max(kind.receptors for kind in kinds)):
        last = max(stop for stop, kind in zip(ends, kinds, strict=True) if kind.receptors > receptor)
        reach.append(reach[-1] + -(-last // blocks))
    return Partition(blocks, -(-end // blocks), begins, end, tuple(reach[:-1]), reach[-1])
