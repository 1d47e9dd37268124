# SPDX-License-Identifier: Apache-2.0
"""Sort the synapses of a plan into rows on a device: count them, choose a layout, and put each into its row."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..plan.drawn_synapses import Description
from ..plan.plan import Plan, SynapsePlan
from ..plan.projections import ProjectionPlan
from .device import Device, Memory, cleared, held
from .drawing import Drawing, DrawnRows
from .kernels import Kernels
from .partition import Partition
from .rows import COMPACT, LONG_ROW, NOBODY, PADDED, PUSHED, SHORT, SLOTS, Entry, Rows, bytes_in_block, entry_of
from .structs import GIVEN, LAID, ROWS, filled
from .text import other_text

__all__ = ["place_synapses", "rows_text"]

_THREADS = 256
_MOST_BLOCKS = 65_536
_BASES, _WIDTHS = 2**24, 2**8  # of padded rows, in eights of words
_MOST_PADDING = 1.6  # times the bytes of compact rows
_SLOT_BYTES = 14  # of a synapse, at most, where slots hold the rows
_SYNAPSES, _PLACES = "synapses", "places of rows"

Array = Any


@dataclass(frozen=True, eq=False)
class _Measured:
    """What all rows take: words, quads of words, words that slots do not hold; and the widest row of each source."""

    words: int
    quads: int
    outside: int
    widths: Array


@dataclass(frozen=True, eq=False)
class _Projection:
    """What kernels are to know of a projection: where its synapses lie, with the memory, or how they are drawn."""

    structure: Any
    memories: tuple[Memory, ...] = ()
    drawn: DrawnRows | None = None


def rows_text(words: str | None) -> str:
    """Return the text of the kernels that sort synapses."""
    return other_text(["rows.cu"], _THREADS, words)


@dataclass(frozen=True, eq=False)
class _Sorter:
    """Sorts the synapses of a plan on a device; `used` counts them by source and block."""

    device: Device
    partition: Partition
    entry: Entry
    given: Sequence[_Projection]
    used: Memory

    @functools.cached_property
    def kernels(self) -> Kernels:
        """The kernels of "rows.cu"."""
        return Kernels(self.device, rows_text(self.device.words), _THREADS)

    def launch(self, kernel: str, blocks: int, *structures: Any) -> None:
        """Run a kernel on structures."""
        self.kernels.launch(kernel, min(blocks, _MOST_BLOCKS), *structures)

    def place(self, layout: int = COMPACT, **where: Any) -> None:
        """Count synapses, or place them where that is said."""
        self.used.clear()
        rows = filled(ROWS, used=self.used.address, slot_bits=self.entry.bits, **where)
        for one in self.given:
            one.structure["layout"] = layout
            if one.drawn is None:
                self.launch("place_rows", int(one.structure["sources"]), one.structure, rows)
            else:
                one.drawn.draw(one.structure, rows)
        self.device.wait()

    def laid(self, layout: int, **more: Any) -> Any:
        """Return what kernels that lay rows out are to know."""
        shared = {"sources": self.partition.sources, "blocks": self.partition.row_blocks, "used": self.used.address}
        return filled(LAID, layout=layout, words=self.entry.words, inside=self.entry.in_slot, **shared, **more)

    def measured(self) -> _Measured:
        """Return what the rows take that were counted."""
        sources = self.partition.sources
        widths = self.device.memory(4 * sources, "widths of rows")
        totals = cleared(self.device, 24, "sizes of rows")
        laid = self.laid(COMPACT, widths=widths.address, totals=totals.address)
        self.launch("measure_rows", -(-sources // _THREADS), laid)
        words, quads, outside = (int(total) for total in totals.download(np.uint64, 3))
        return _Measured(words, quads, outside, widths.download(np.uint32, sources))

    def ends(self, layout: int, starts: int = 0, start_bytes: int = 4) -> Array:
        """Return how much the rows of each block take, and write where they lie."""
        blocks = self.partition.row_blocks
        ends = self.device.memory(8 * blocks, "sizes of blocks")
        laid = self.laid(layout, ends=ends.address, starts=starts, start_bytes=start_bytes)
        self.launch("lay_rows", blocks, laid)
        return ends.download(np.uint64, blocks)


def place_synapses(device: Device, plan: Plan, partition: Partition, room: int) -> Rows:
    """Sort the synapses of a plan into rows; a block holds up to the given number of bytes of them in shared memory."""
    entry = entry_of(plan, partition)
    drawing = Drawing(device)
    described: Mapping[int, Description] = getattr(plan.synapses, "descriptions", {})
    given = []
    for place, about in enumerate(plan.projections):
        shared = _shared(plan, partition, entry, about)
        if about.entries and place in described:
            drawn = drawing.rows(described[place])
            shared["weight"], shared["delay"] = drawn.weight, drawn.delay
            given.append(_Projection(shared, drawn=drawn))
        elif about.entries:
            given.append(_uploaded(device, shared, plan, plan.synapses[place]))
    used = device.memory(4 * partition.sources * partition.row_blocks, "numbers of synapses by neuron and block")
    sorter = _Sorter(device, partition, entry, given, used)
    sorter.place()
    rows = _laid_out(sorter, room)
    numbers = held(device, rows.rows, "numbers of rows")
    places = {name: memory.address for name, memory in rows.memories.items()}
    sorter.place(
        COMPACT if partition.pushed else rows.layout, rows=numbers.address, start_bytes=rows.start_bytes, **places
    )
    return rows


def _laid_out(sorter: _Sorter, room: int) -> Rows:
    """Choose the layout, take memory, and write where rows lie."""
    partition, device, entry, found = sorter.partition, sorter.device, sorter.entry, sorter.measured()
    if partition.pushed:
        return replace(_with_starts(sorter, COMPACT, _places(partition, found), sorter.ends(COMPACT)), layout=PUSHED)
    count = partition.sources * partition.blocks
    widths = -(-found.widths.astype(np.int64) * entry.words // 8)
    padded, compact = 32 * int(widths.sum()) * partition.blocks, 16 * found.quads + 4 * count
    mean = found.words / max(1, int((widths > 0).sum()) * partition.blocks)
    fits = int(widths.max(initial=0)) < _WIDTHS and int(widths.sum()) < _BASES
    if fits and mean >= LONG_ROW and padded <= _MOST_PADDING * compact:
        bases = np.cumsum(widths) - widths
        rows = np.where(widths > 0, widths << 24 | bases, NOBODY).astype(np.uint32)
        return Rows(PADDED, entry, rows, cleared(device, padded, _SYNAPSES))
    rows = _places(partition, found)
    if mean >= 2 * LONG_ROW:
        return _with_starts(sorter, COMPACT, rows, sorter.ends(COMPACT))
    ends = sorter.ends(SHORT)
    most = int(ends.max(initial=0))
    start_bytes = 2 if most < 2**16 else 4
    inside = bytes_in_block(partition.sources, most, start_bytes) <= room
    if not inside and entry.in_slot and 8 * count + 4 * found.outside <= _SLOT_BYTES * found.words:
        return _with_starts(sorter, SLOTS, rows, sorter.ends(SLOTS), 8)
    return _with_starts(sorter, SHORT, rows, ends, start_bytes, most)


def _places(partition: Partition, found: _Measured) -> Array:
    """Return the place of each source neuron in its block, or NOBODY."""
    places = np.arange(partition.sources) // partition.blocks
    return np.where(found.widths > 0, places, NOBODY).astype(np.uint32)


def _with_starts(
    sorter: _Sorter, layout: int, rows: Array, ends: Array, start_bytes: int = 4, block_words: int = 0
) -> Rows:
    """Return rows of a layout, where the rows of each block take so much."""
    device, partition = sorter.device, sorter.partition
    starts = device.memory(start_bytes * partition.row_blocks * (partition.sources + 1), _PLACES)
    sorter.ends(layout, starts.address, start_bytes)
    synapses = cleared(device, (16 if layout == COMPACT else 4) * int(ends.sum()), _SYNAPSES)
    bases = held(device, np.cumsum(ends) - ends, "places of blocks")
    return Rows(layout, sorter.entry, rows, synapses, starts, bases, start_bytes, block_words)


def _shared(plan: Plan, partition: Partition, entry: Entry, about: ProjectionPlan) -> Any:
    """Return what kernels are to know of a projection, but for its synapses."""
    target = plan.population(about.target)
    return filled(
        GIVEN,
        sources=plan.population(about.source).size,
        source_begin=partition.begins[about.source],
        target_begin=partition.begins[about.target],
        blocks=partition.row_blocks,
        owners=partition.blocks,
        share=partition.cells if partition.pushed else 0,
        all_sources=partition.sources,
        wide=entry.wide,
        cell_shift=entry.cell_shift,
        delay_shift=entry.delay_shift,
        reach=partition.reach[list(target.quanta).index(about.receptor)],
        weight_mask=(1 << entry.weight_bits) - 1 if not entry.wide else 0,
    )


def _uploaded(device: Device, shared: Any, plan: Plan, synapses: SynapsePlan) -> _Projection:
    """Copy the synapses of a projection to a device."""
    arrays: Sequence[Array] = (
        synapses.starts[:: plan.parts].astype(np.uint64),
        synapses.targets,
        synapses.weights,
        synapses.delays,
    )
    what = f"synapses of {synapses.name}, while they are sorted,"
    memories = tuple(held(device, array, what) for array in arrays)
    sizes = [array.itemsize if array.size > 1 or synapses.targets.size == 1 else 0 for array in arrays[1:]]
    shared["target_bytes"], (shared["weight_bytes"], shared["delay_bytes"]) = synapses.targets.itemsize, sizes[1:]
    shared["weight"], shared["delay"] = int(synapses.weights.reshape(-1)[0]), int(synapses.delays.reshape(-1)[0])
    for name, memory in zip(("starts", "targets", "weights", "delays"), memories, strict=True):
        shared[name] = memory.address
    return _Projection(shared, memories)
