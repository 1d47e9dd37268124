# SPDX-License-Identifier: Apache-2.0
"""Rows of synapses on a device: those of a source neuron that end in one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..plan.plan import Plan, SynapsePlan
from .device import Device, Memory, cleared, held
from .partition import Partition
from .structs import GIVEN, ROWS, filled
from .text import other_text

__all__ = ["COMPACT", "LAYOUTS", "NOBODY", "PADDED", "SHORT", "Entry", "Rows", "place_synapses"]

PADDED, COMPACT, SHORT = range(3)
LAYOUTS = ("padded rows", "compact rows", "short rows")
NOBODY = 2**32 - 1  # the row of a neuron without synapses
_THREADS = 256
_MOST_BLOCKS = 65_536
_BASES, _WIDTHS = 2**24, 2**8  # of padded rows, in eights of words
_MOST_PADDING = 1.6  # times the bytes of compact rows
_LONG_ROW = 6  # words, on average: a warp delivers it
_SYNAPSES, _PLACES = "synapses", "places of rows"

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
    def words(self) -> int:
        """How many words it takes."""
        return 2 if self.wide else 1


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows on a device.

    `rows` are what packets carry, by source neuron: where padded rows lie, else the place of the neuron. `starts` and
    `bases` say where compact and short ones lie. `block_words` is how many words a block has at most, if rows are
    short.
    """

    layout: int
    entry: Entry
    rows: Array
    synapses: Memory
    starts: Memory | None = None
    bases: Memory | None = None
    block_words: int = 0

    @property
    def narrow_starts(self) -> bool:
        """Whether 16 bits say where a row begins."""
        return self.layout == SHORT and self.block_words < 2**16

    @property
    def memories(self) -> dict[str, Memory]:
        """What lies on the device, by its name in the texts of kernels."""
        found = {"synapses": self.synapses, "starts": self.starts, "bases": self.bases}
        return {name: memory for name, memory in found.items() if memory is not None}

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(memory.nbytes for memory in self.memories.values())


@dataclass(frozen=True)
class _Projection:
    """The synapses of a projection on a device, and what `place_rows` is to know of them."""

    given: Any
    memories: tuple[Memory, ...]


def entry_of(plan: Plan, partition: Partition) -> Entry:
    """Return the bits that the synapses of a plan need."""
    drawn = [projection for projection in plan.projections if projection.entries]
    low = min((projection.weights[0] for projection in drawn), default=0)
    high = max((projection.weights[1] for projection in drawn), default=0)
    weight = max(high.bit_length(), (~low).bit_length() if low < 0 else 0) + 1
    cell = max(1, (max(partition.cells, 1) - 1).bit_length())
    delay = max(1, max((projection.largest_delay for projection in drawn), default=1).bit_length())
    if cell + delay > 32:
        raise NetworkError(
            f"build: a block has {partition.cells} sums and delays of up to {2**delay - 1} steps, and one word has 32 "
            "bits for both; pass more blocks=, shorter delays, or backend='numba'"
        )
    return Entry(weight + cell + delay > 32, weight, cell, delay)


def place_synapses(device: Device, plan: Plan, partition: Partition) -> Rows:
    """Sort the synapses of a plan into rows on a device."""
    entry = entry_of(plan, partition)
    kernel = device.kernel(other_text("rows.cu", _THREADS, device.words), "place_rows", 0)
    drawn = [s for s in plan.synapses if s.targets.size]
    used = device.memory(4 * partition.sources * partition.blocks, "numbers of synapses by neuron and block")
    nothing = filled(ROWS, used=used.address)

    def sort(rows: Any, layout: int) -> None:
        used.clear()
        for synapses in drawn:
            projection = _uploaded(device, plan, partition, entry, synapses, layout)
            sources = int(projection.given["sources"])
            parameters = [projection.given.tobytes(), rows.tobytes()]
            device.launch(kernel, min(sources, _MOST_BLOCKS), _THREADS, 0, parameters, at_once=False)
            device.wait()

    sort(nothing, COMPACT)
    counts = used.download(np.uint32, (partition.sources, partition.blocks)) * np.uint32(entry.words)
    rows = _laid_out(device, partition, entry, counts)
    numbers = held(device, rows.rows, "numbers of rows")
    places = {name: memory.address for name, memory in rows.memories.items()}
    sort(filled(ROWS, used=used.address, rows=numbers.address, **places), rows.layout)
    if not rows.narrow_starts or rows.starts is None:
        return rows
    starts = rows.starts.download(np.uint32, rows.starts.nbytes // 4).astype(np.uint16)
    return replace(rows, starts=held(device, starts, _PLACES))


def _laid_out(device: Device, partition: Partition, entry: Entry, counts: Array) -> Rows:
    """Choose the layout for rows of so many words (sources, blocks), and take memory for them."""
    widths = -(-counts.max(1).astype(np.int64) // 8)
    quads = (counts + np.uint32(3)) // np.uint32(4)
    compact = 16 * int(quads.sum(dtype=np.int64)) + 4 * counts.size
    padded = 32 * int(widths.sum()) * partition.blocks
    mean = int(counts.sum(dtype=np.int64)) / max(1, int((widths > 0).sum()) * partition.blocks)
    fits = int(widths.max(initial=0)) < _WIDTHS and int(widths.sum()) < _BASES
    if fits and mean >= _LONG_ROW and padded <= _MOST_PADDING * compact:
        bases = np.cumsum(widths) - widths
        rows = np.where(widths > 0, widths << 24 | bases, NOBODY).astype(np.uint32)
        return Rows(PADDED, entry, rows, cleared(device, padded, _SYNAPSES))
    layout = COMPACT if mean >= 2 * _LONG_ROW else SHORT
    starts = np.zeros((partition.blocks, partition.sources + 1), np.uint32)
    np.cumsum((quads if layout == COMPACT else counts).T, axis=1, out=starts[:, 1:])
    ends = starts[:, -1].astype(np.uint64)
    total = int(ends.sum())
    return Rows(
        layout,
        entry,
        np.where(widths > 0, np.arange(partition.sources, dtype=np.int64) // partition.blocks, NOBODY).astype(
            np.uint32
        ),
        cleared(device, 16 * total if layout == COMPACT else 4 * total, _SYNAPSES),
        held(device, starts, _PLACES),
        held(device, np.cumsum(ends) - ends, "places of blocks"),
        int(ends.max(initial=0)) if layout == SHORT else 0,
    )


def _uploaded(
    device: Device, plan: Plan, partition: Partition, entry: Entry, synapses: SynapsePlan, layout: int
) -> _Projection:
    """Copy the synapses of a projection to a device."""
    target = plan.population(synapses.target)
    arrays: Sequence[Array] = (
        synapses.starts[:: plan.parts].astype(np.uint64),
        synapses.targets,
        synapses.weights,
        synapses.delays,
    )
    what = f"synapses of {synapses.name}, while they are sorted,"
    memories = tuple(held(device, array, what) for array in arrays)
    sizes = [array.itemsize if array.size > 1 or synapses.targets.size == 1 else 0 for array in arrays[1:]]
    sizes[0] = synapses.targets.itemsize
    given = filled(
        GIVEN,
        sources=plan.population(synapses.source).size,
        source_begin=partition.begins[synapses.source],
        target_begin=partition.begins[synapses.target],
        blocks=partition.blocks,
        all_sources=partition.sources,
        layout=layout,
        wide=entry.wide,
        cell_shift=entry.cell_shift,
        delay_shift=entry.delay_shift,
        reach=partition.reach[list(target.quanta).index(synapses.receptor)],
        target_bytes=sizes[0],
        weight_bytes=sizes[1],
        delay_bytes=sizes[2],
        weight=int(synapses.weights.reshape(-1)[0]),
        delay=int(synapses.delays.reshape(-1)[0]),
        weight_mask=(1 << entry.weight_bits) - 1 if not entry.wide else 0,
        **dict(zip(("starts", "targets", "weights", "delays"), (m.address for m in memories), strict=True)),
    )
    return _Projection(given, memories)
