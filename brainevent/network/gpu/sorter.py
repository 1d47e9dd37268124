# SPDX-License-Identifier: Apache-2.0
"""`place_synapses`: synapses are counted on a device, a layout of rows is chosen, and each is put into its row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..plan.drawing import Description
from ..plan.plan import Plan, SynapsePlan
from ..plan.projections import ProjectionPlan
from .device import Device, Memory, cleared, held
from .drawing import Drawing, DrawnRows, needs_tables
from .kernels import Kernels
from .partition import Partition
from .rows import LONG_ROW, DeviceRows, Entry, bytes_in_block, entry_of
from .several.meeting import Gather, alone
from .structs import COMPACT, GIVEN, GIVEN_HERE, LAID, NOBODY, PADDED, PUSHED, ROWS, SHORT, SLOTS, filled
from .text import other_text

__all__ = ["MOST_BLOCKS", "THREADS", "Measured", "Numbering", "Sorter", "may_be_padded", "place_synapses", "rows_text"]

Array = Any
THREADS, MOST_BLOCKS = 256, 65_536  # of a block of kernels that sort; blocks of a launch, at most
_BASES, _WIDTHS = 2**24, 2**8  # of padded rows, in eights of words
_MOST_PADDING = 1.6  # times the bytes of compact rows
_SLOT_BYTES = 14  # of a synapse, at most, where slots hold the rows
_SYNAPSES, _NUMBERS = "synapses", "numbers of neurons"


@dataclass(frozen=True, eq=False)
class Numbering:
    """Numbers of the neurons at both ends of synapses, by population, where only some of those are placed here.

    A source has the number of its row, NOBODY if that is elsewhere. A target is place n // owners of block n % owners;
    in the last of these blocks are all that are elsewhere.
    """

    owners: int
    sources: Mapping[str, Array]
    targets: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Measured:
    """What all rows take: words, quads of words, words that slots do not hold; and the widest row of each source.

    `here` are the widest rows on this GPU.
    """

    words: int
    quads: int
    outside: int
    widths: Array
    here: Array


@dataclass(frozen=True, eq=False)
class _Projection:
    """What kernels are to know of a projection: where its synapses lie, with the memory, or how they are drawn."""

    structure: Any
    memories: tuple[Memory, ...] = ()
    drawn: DrawnRows | None = None


def rows_text(words: str | None, *, several: bool = False) -> str:
    """Return the text of the kernels that sort synapses, on one GPU or several."""
    return other_text(["rows.cu"], THREADS, words, several=several)


@dataclass(frozen=True, eq=False)
class Sorter:
    """Sorts the synapses of a plan on a device; `used` counts them by source and block.

    Of several GPUs, each sorts those of its own blocks; `of_all` returns what each of them has found.
    """

    device: Device
    partition: Partition
    entry: Entry
    given: Sequence[_Projection]
    used: Memory
    of_all: Gather = alone
    several: bool = False  # some synapses are elsewhere
    parts: Memory | None = None  # of this GPU, if there are any

    @functools.cached_property
    def kernels(self) -> Kernels:
        """The kernels of "rows.cu"."""
        return Kernels(self.device, rows_text(self.device.words, several=self.several), THREADS)

    def launch(self, kernel: str, blocks: int, *structures: Any) -> None:
        """Run a kernel on structures."""
        self.kernels.launch(kernel, min(blocks, MOST_BLOCKS), *structures)

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

    def measured(self) -> Measured:
        """Return what the rows take that were counted, on all GPUs."""
        sources = self.partition.sources
        widths = self.device.memory(4 * sources, "widths of rows")
        totals = cleared(self.device, 24, "sizes of rows")
        laid = self.laid(COMPACT, widths=widths.address, totals=totals.address)
        self.launch("measure_rows", -(-sources // THREADS), laid)
        here = widths.download(np.uint32, sources)
        found = self.of_all((totals.download(np.uint64, 3), here))
        words, quads, outside = (sum(int(sizes[k]) for sizes, _ in found) for k in range(3))
        return Measured(words, quads, outside, np.maximum.reduce([own for _, own in found]), here)

    def ends(self, layout: int, starts: int = 0, start_bytes: int = 4) -> Array:
        """Return how much the rows of each block take, and write where they lie."""
        blocks = self.partition.row_blocks
        ends = self.device.memory(8 * blocks, "sizes of blocks")
        laid = self.laid(layout, ends=ends.address, starts=starts, start_bytes=start_bytes)
        self.launch("lay_rows", blocks, laid)
        return ends.download(np.uint64, blocks)

    @property
    def limits(self) -> tuple[float, float]:
        """How many times the bytes of compact rows padded ones may take; the least mean length of compact ones."""
        return _MOST_PADDING, 2 * LONG_ROW

    def laid_out(self, room: int) -> DeviceRows:
        """Choose the layout, take memory, and write where rows lie."""
        return self.chosen(self.measured(), room)

    def chosen(self, found: Measured, room: int) -> DeviceRows:
        """Return rows of the layout that suits them, where they lie."""
        partition, entry, (padding, least) = self.partition, self.entry, self.limits
        if partition.pushed:
            return replace(self._with_starts(COMPACT, self.places(found), self.ends(COMPACT)), layout=PUSHED)
        count = partition.sources * partition.blocks
        widths = -(-found.widths.astype(np.int64) * entry.words // 8)
        padded, compact = 32 * int(widths.sum()) * partition.blocks, 16 * found.quads + 4 * count
        mean = found.words / max(1, int((widths > 0).sum()) * partition.blocks)
        fits = may_be_padded(int(widths.sum()), int(widths.max(initial=0)))
        if fits and mean >= LONG_ROW and padded <= padding * compact:
            return self.padded(widths)
        rows = self.places(found)
        if mean >= least:
            return self._with_starts(COMPACT, rows, self.ends(COMPACT))
        ends = self.ends(SHORT)
        most = max(self.of_all(int(ends.max(initial=0))))
        start_bytes = 2 if most < 2**16 else 4
        inside = bytes_in_block(partition.sources, most, start_bytes) <= room
        if not inside and entry.in_slot and 8 * count + 4 * found.outside <= _SLOT_BYTES * found.words:
            return self._with_starts(SLOTS, rows, self.ends(SLOTS), 8)
        return self._with_starts(SHORT, rows, ends, start_bytes, most)

    def padded(self, widths: Array) -> DeviceRows:
        """Return rows of so many eights of words, each as long in all blocks of this GPU."""
        bases = np.cumsum(widths) - widths
        rows = np.where(widths > 0, widths << 24 | bases, NOBODY).astype(np.uint32)
        nbytes = 32 * int(widths.sum()) * self.partition.here
        return DeviceRows(PADDED, self.entry, rows, cleared(self.device, nbytes, _SYNAPSES))

    def places(self, found: Measured) -> Array:
        """Return the place of each source neuron in its block, or NOBODY."""
        places = np.arange(self.partition.sources) // self.partition.blocks
        return np.where(found.widths > 0, places, NOBODY).astype(np.uint32)

    def _with_starts(
        self, layout: int, rows: Array, ends: Array, start_bytes: int = 4, block_words: int = 0
    ) -> DeviceRows:
        """Return rows of a layout, where the rows of each block take so much."""
        device, partition = self.device, self.partition
        starts = device.memory(start_bytes * partition.row_blocks * (partition.sources + 1), "places of rows")
        self.ends(layout, starts.address, start_bytes)
        synapses = cleared(device, (16 if layout == COMPACT else 4) * int(ends.sum()), _SYNAPSES)
        bases = held(device, np.cumsum(ends) - ends, "places of blocks")
        return DeviceRows(layout, self.entry, rows, synapses, starts, bases, start_bytes, block_words)

    def finish(self, rows: DeviceRows) -> None:
        """Do what remains when each synapse is in its row."""


def may_be_padded(size: int, widest: int) -> bool:
    """Say whether the bits of padded rows are enough for all rows, in eights of words, and for the widest of them."""
    return widest < _WIDTHS and size < _BASES


def place_synapses(
    device: Device,
    plan: Plan,
    partition: Partition,
    room: int,
    of_all: Gather = alone,
    *,
    sorting: Callable[..., Sorter] = Sorter,
    numbering: Numbering | None = None,
) -> DeviceRows:
    """Sort the synapses of a plan into rows; a block holds up to the given number of bytes of them in shared memory.

    Of several GPUs, each does this at the same time: `of_all` returns the values that each of them passes, and
    `sorting` makes the sorter. With a `numbering`, some of the synapses are placed.
    """
    entry = entry_of(plan, partition)
    parts = any(map(needs_tables, plan.synapses.sources))
    several = partition.gpus > 1 or numbering is not None
    drawing = Drawing(device, several=several, parts=parts)
    given, numbers_of = [], _numbers_of(device, plan, partition, numbering)
    groups = held(device, partition.part_words, "parts of a network") if partition.parts else None
    for place, (about, source) in enumerate(zip(plan.projections, plan.synapses.sources, strict=True)):
        shared = _shared(plan, partition, entry, about, groups, several=several)
        if numbering is not None:
            shared["owners"] = numbering.owners
        if numbers_of:
            shared["source_numbers"] = numbers_of[about.source][0].address
            shared["target_numbers"] = numbers_of[about.target][1].address
        if about.entries and isinstance(source, Description):
            drawn = drawing.rows(source)
            shared["weight"], shared["delay"] = drawn.weight, drawn.delay
            shared["source_begin"] += drawn.begins[0]
            shared["target_begin"] += drawn.begins[1]
            if numbers_of:
                shared["source_numbers"] += 4 * drawn.begins[0]
                shared["target_numbers"] += 4 * drawn.begins[1]
            given.append(_Projection(shared, drawn=drawn))
        elif about.entries:
            given.append(_uploaded(device, shared, plan, plan.synapses[place]))
    used = device.memory(4 * partition.sources * partition.row_blocks, "numbers of synapses by neuron and block")
    sorter = sorting(device, partition, entry, given, used, of_all, several, groups)
    sorter.place()
    rows = sorter.laid_out(room)
    numbers = held(device, rows.rows, "numbers of rows")
    named = ("synapses", "starts", "bases")
    places = {name: memory.address for name, memory in rows.memories.items() if name in named}
    sorter.place(
        COMPACT if partition.pushed else rows.layout, rows=numbers.address, start_bytes=rows.start_bytes, **places
    )
    sorter.finish(rows)
    return replace(rows, row_of=numbers if rows.number_of else None, parts=groups)


def _shared(
    plan: Plan, partition: Partition, entry: Entry, about: ProjectionPlan, groups: Memory | None, *, several: bool
) -> Any:
    """Return what kernels are to know of a projection, but for its synapses."""
    target, among = plan.population(about.target), dict[str, int]()
    if several:
        among = {"first": partition.first, "here": partition.here, "extra": partition.extra}
    if groups is not None and partition.placement is not None:
        among |= {"parts": len(partition.parts), "part_of": groups.address, "apart": partition.placement.apart}
    return filled(
        GIVEN_HERE if several else GIVEN,
        **among,
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


def _numbers_of(
    device: Device, plan: Plan, partition: Partition, numbering: Numbering | None
) -> dict[str, tuple[Memory, Memory]]:
    """Return tables of the numbers of all sources and targets by population, if they are placed; else none."""
    if numbering is not None:
        ends = numbering.sources, numbering.targets
        return {
            p.name: (held(device, ends[0][p.name], _NUMBERS), held(device, ends[1][p.name], _NUMBERS))
            for p in plan.populations
        }
    if partition.placement is None:
        return {}
    numbers = {p.name: np.asarray(partition.numbers(p.name, p.size), np.uint32) for p in plan.populations}
    return {name: (held(device, own, _NUMBERS),) * 2 for name, own in numbers.items()}


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
