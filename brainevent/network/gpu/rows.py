# SPDX-License-Identifier: Apache-2.0
"""`DeviceRows`: synapses on a device, in rows of those of a source neuron that end in one block, or all; their bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import NetworkError
from ..plan.plan import Plan
from .device import Memory
from .partition import Partition

__all__ = [
    "LAYOUTS",
    "LONG_ROW",
    "MANY_ROWS",
    "DeviceRows",
    "Entry",
    "bytes_in_block",
    "entry_of",
    "place_bits",
]

LAYOUTS = ("padded rows", "compact rows", "short rows", "rows in slots", "whole rows", "rows of parts")
LONG_ROW = 6  # words, on average: a warp delivers it
_HALF = 16  # bits of a weight that may be added to sums of 16 bits
MANY_ROWS = 2**19  # of each block: all warps deliver those of the neurons that spike in a step
Array = Any


@dataclass(frozen=True)
class Entry:
    """The bits of a synapse: a weight, a cell and a delay in one word, or the weight in a word of its own."""

    wide: bool
    weight_bits: int
    cell_bits: int
    delay_bits: int

    @property
    def cell_shift(self) -> int:
        """Where the cell begins."""
        return 0 if self.wide else self.weight_bits

    @property
    def delay_shift(self) -> int:
        """Where the delay begins."""
        return self.cell_shift + self.cell_bits

    @property
    def bits(self) -> int:
        """How many bits it takes, without a weight in a word of its own."""
        return self.delay_shift + self.delay_bits

    @property
    def words(self) -> int:
        """How many words it takes."""
        return 2 if self.wide else 1

    @property
    def is_half(self) -> bool:
        """Whether its weight may be added to sums of 16 bits."""
        return not self.wide and self.weight_bits <= _HALF

    @property
    def in_slot(self) -> int:
        """How many fit into a slot of 64 bits, of which one is a mark; 0 if slots cannot hold them."""
        return 0 if self.wide or self.bits > 31 else min(3, 63 // self.bits)


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Rows on a device.

    `rows` are what packets carry, by source neuron: where padded rows lie, else the place of the neuron. `starts` and
    `bases` say where other rows lie; of rows in slots, `starts` are the slots. `block_words` is how many words a block
    has at most, if rows are short. If padded rows lie elsewhere on each of several GPUs, these send each other numbers
    of neurons: `number_of` has them by the place of a row, and `row_of` has the rows of this GPU by number. Rows of
    parts are as long for all blocks of a part, in the order of delays: `starts` has the first one by source and part,
    and `parts` what kernels know of these.
    """

    layout: int
    entry: Entry
    rows: Array
    synapses: Memory
    starts: Memory | None = None
    bases: Memory | None = None
    start_bytes: int = 4
    block_words: int = 0
    number_of: Memory | None = None
    row_of: Memory | None = None
    parts: Memory | None = None

    @property
    def memories(self) -> dict[str, Memory]:
        """What lies on the device, by its name in the texts of kernels."""
        found = {"synapses": self.synapses, "starts": self.starts, "bases": self.bases}
        found |= {"number_of": self.number_of, "row_of": self.row_of, "parts": self.parts}
        return {name: memory for name, memory in found.items() if memory is not None}

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(memory.nbytes for memory in self.memories.values())


def bytes_in_block(sources: int, words: int, start_bytes: int) -> int:
    """Return how much shared memory short rows of the given numbers of words take, with where they begin."""
    return 4 * (words + words % 2) + start_bytes * (sources + 1)


def place_bits(plan: Plan, partition: Partition) -> tuple[int, int]:
    """Return how many bits the cell of a synapse needs, and its delay."""
    cell = max(1, (max(partition.cells_of_row, 1) - 1).bit_length())
    longest = max((projection.largest_delay for projection in plan.projections if projection.entries), default=1)
    return cell, max(1, longest.bit_length())


def entry_of(plan: Plan, partition: Partition) -> Entry:
    """Return the bits that the synapses of a plan need."""
    drawn = [projection for projection in plan.projections if projection.entries]
    low = min((projection.weights[0] for projection in drawn), default=0)
    high = max((projection.weights[1] for projection in drawn), default=0)
    weight = max(high.bit_length(), (~low).bit_length() if low < 0 else 0) + 1
    cell, delay = place_bits(plan, partition)
    if cell + delay > 32:
        raise NetworkError(
            f"build: {partition.cells} sums in a block and delays of up to {2**delay - 1} steps need "
            f"{cell + delay} bits, but a word has 32; pass more blocks=, shorter delays, or backend='numba'"
        )
    return Entry(weight + cell + delay > 32, weight, cell, delay)
