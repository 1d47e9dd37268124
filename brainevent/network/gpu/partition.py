# SPDX-License-Identifier: Apache-2.0
"""`Partition`: which block of a kernel owns which neurons, and where their sums lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..plan.plan import Plan
from .text import Kind

__all__ = ["MOST_THREADS", "Partition", "partition_of", "threads_for"]

MOST_THREADS = 1024  # of a block
_WARP = 32
_LEAST_THREADS, _STEP = 512, 64  # of a block whose threads have several neurons in registers
_LEAST_PLASTIC = 768  # the same, if they change synapses
_BESIDE = 5  # warps that send and deliver, at least, beside those that listen to all blocks
_REGISTERS, _OWN_REGISTERS = 65_536, 44  # of a multiprocessor; of a thread, for anything but states
_MOST_CELLS = 16  # neurons of a thread: each is text of its own
_MOST_CONSTANTS = 800  # words that are passed with a launch

Array = Any


@dataclass(frozen=True)
class Partition:
    """Neurons are numbered through all populations; number n is place n // blocks of block n % blocks.

    `begins` says where the numbers of a population begin: those of one kind follow each other, so that all blocks
    have the same share of it, and each kind begins with a warp. `per` is how many places a block has. Receptor r has
    a cell for each of the first `reach[r + 1] - reach[r]` places: it begins at `reach[r]`; `cells` is how many there
    are. Where threads have several neurons in registers, each population begins with the first thread, and `cells_of`
    are the populations of a thread's first neuron, its second one and so on. Of `common` populations, all or none, what
    their neurons share is passed with a launch.

    A block adds to the sums of its own neurons alone; if `pushed`, to those of all blocks of its GPU, which then lie
    side by side in the memory of the device, one step after another.

    Blocks are numbered through all GPUs of a network: a GPU has `own` of them, from `first` on; 0 means all.
    """

    blocks: int
    per: int
    begins: Mapping[str, int]
    sources: int
    reach: tuple[int, ...]
    cells: int
    threads: int = 0  # 0: at most one neuron of a thread is in registers
    cells_of: tuple[int, ...] = ()
    common: int = 0
    pushed: bool = False
    first: int = 0
    own: int = 0

    @property
    def here(self) -> int:
        """How many blocks this GPU has."""
        return self.own or self.blocks

    @property
    def whole(self) -> Partition:
        """The blocks of all GPUs."""
        return replace(self, first=0, own=0)

    @property
    def gpus(self) -> int:
        """How many GPUs the blocks are on."""
        return self.blocks // self.here

    @property
    def row_blocks(self) -> int:
        """For how many blocks of this GPU each source neuron has a row of synapses."""
        return 1 if self.pushed else self.here

    @property
    def cells_of_row(self) -> int:
        """How many cells a row may add to, in each step."""
        return self.cells * (self.here if self.pushed else 1)

    def ring_shape(self, slots: int) -> tuple[int, int, int]:
        """Return the shape of all sums of a number of steps on this GPU."""
        return (slots, self.here, self.cells) if self.pushed else (self.here, slots, self.cells)

    def ring_here(self, sums: Array) -> Array:
        """Return the sums of this GPU, of those of all of them."""
        own = slice(self.first, self.first + self.here)
        return sums[:, own] if self.pushed else sums[own]

    def ring_by_block(self, sums: Array) -> Array:
        """Return sums as an array (blocks, slots, cells), or such an array as those sums."""
        return sums.swapaxes(0, 1) if self.pushed else sums

    def slots(self, population: str, size: int) -> Array:
        """Return where each neuron of a population is in arrays (blocks x places)."""
        numbers = np.arange(size, dtype=np.int64) + self.begins[population]
        return numbers % self.blocks * self.per + numbers // self.blocks

    def columns(self, population: str, size: int, neurons: Array) -> tuple[Array, Array, int]:
        """Return the column of a sample by place, -1 for none, the column of each neuron, and how many there are."""
        chosen, columns = np.unique(neurons, return_inverse=True)
        table = np.full(self.blocks * self.per, -1, np.int32)
        table[self.slots(population, size)[chosen]] = np.arange(chosen.size)
        return table, columns.reshape(-1), chosen.size

    def by_block(self, values: Array) -> Array:
        """Return values by number as an array (blocks x places)."""
        padded = np.zeros(self.per * self.blocks, values.dtype)
        padded[: values.size] = values
        return np.ascontiguousarray(padded.reshape(self.per, self.blocks).T).reshape(-1)

    def numbers(self, population: str, size: int) -> slice:
        """Return the numbers of the neurons of a population."""
        begin = self.begins[population]
        return slice(begin, begin + size)


def partition_of(
    plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], blocks: int, threads: int = 0
) -> Partition:
    """Share the neurons of a plan out over blocks; with `threads`, those have several neurons in registers."""
    begins: dict[str, int] = {}
    ends = []  # of kinds
    end = 0
    cells: list[int] = []
    for number in range(len(kinds)):
        end += -end % (_WARP * blocks)
        for place, population in enumerate(plan.populations):
            if numbers[population.name] == number:
                end += -end % (max(1, threads) * blocks)
                begins[population.name] = end
                end += population.size
                cells += [place] * cells_for(population.size, blocks, threads)
        ends.append(end)
    apart = _WARP if -(-end // blocks) > MOST_THREADS else 1  # lines of memory are not shared by warps
    reach = [0]
    for receptor in range(max(kind.receptors for kind in kinds)):
        last = max(stop for stop, kind in zip(ends, kinds, strict=True) if kind.receptors > receptor)
        reach.append(reach[-1] + -(-last // (blocks * apart)) * apart)
    per = -(-end // (blocks * apart)) * apart
    common = len(plan.populations) if per > MOST_THREADS and _is_constant(plan, kinds) else 0
    return Partition(blocks, per, begins, end, tuple(reach[:-1]), reach[-1], threads, tuple(cells), common)


def cells_for(size: int, blocks: int, threads: int) -> int:
    """Return how many neurons of a population each thread has, if all are in registers."""
    return -(-size // (blocks * threads)) if threads else 0


def _is_constant(plan: Plan, kinds: Sequence[Kind]) -> bool:
    """Say whether what the neurons of each population share can be passed with a launch."""
    words = 8 + max(len(kind.scalars) + kind.receptors for kind in kinds)
    return len(plan.populations) * words <= _MOST_CONSTANTS


def threads_for(plan: Plan, kinds: Sequence[Kind], blocks: int) -> int:
    """Return how many threads have room for all neurons in their registers, several each; 0 if none."""
    sizes = [population.size for population in plan.populations]
    if -(-sum(sizes) // blocks) <= MOST_THREADS:
        return 0
    words = max(len(kind.population.rule.states) + len(kind.drawn) for kind in kinds)
    if not _is_constant(plan, kinds):
        return 0
    fitting = []
    least = _WARP * (-(-blocks // _WARP) + _BESIDE)
    fewest = _LEAST_PLASTIC if plan.plastic else _LEAST_THREADS
    for threads in range(max(fewest, least + -least % _STEP), MOST_THREADS + 1, _STEP):
        cells = sum(cells_for(size, blocks, threads) for size in sizes)
        if cells <= _MOST_CELLS and cells * words <= _REGISTERS // threads - _OWN_REGISTERS:
            fitting.append((cells * threads, threads))
    return min(fitting)[1] if fitting else 0
