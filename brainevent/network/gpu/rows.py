# SPDX-License-Identifier: Apache-2.0
"""`DeviceRows`: synapses on a device, sorted into rows: those of a source neuron that end in one block, or all.

They are counted, a layout is chosen, and each is put into its row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..plan.drawing import Description
from ..plan.plan import Plan, SynapsePlan
from ..plan.projections import ProjectionPlan
from .device import Device, Kernels, Memory, cleared, held
from .drawing import Drawing, DrawnRows, needs_tables
from .partition import Partition
from .structs import (
    COMPACT,
    GIVEN,
    GIVEN_HERE,
    IN_PARTS,
    LAID,
    NOBODY,
    PADDED,
    PARTED,
    PUSHED,
    ROWS,
    SHORT,
    SLOTS,
    filled,
)
from .text import other_text

__all__ = [
    "LAYOUTS",
    "LONG_ROW",
    "MANY_ROWS",
    "DeviceRows",
    "Entry",
    "Gather",
    "Numbering",
    "bytes_in_block",
    "entry_of",
    "place_bits",
    "place_synapses",
    "rows_text",
]

LAYOUTS = ("padded rows", "compact rows", "short rows", "rows in slots", "whole rows", "rows of parts")
LONG_ROW = 6  # words, on average: a warp delivers it
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


_THREADS = 256
_MOST_BLOCKS = 65_536
_BASES, _WIDTHS = 2**24, 2**8  # of padded rows, in eights of words
_MOST_PADDING, _MOST_AMONG = 1.6, 2.5  # times the bytes of compact rows, on one GPU and on several
_QUADS, _DELAY_BITS = 255, 10  # of rows of parts, at most
_SLOT_BYTES = 14  # of a synapse, at most, where slots hold the rows
_SYNAPSES, _PLACES, _NUMBERS = "synapses", "places of rows", "numbers of neurons"
Gather = Callable[[Any], list[Any]]  # from the value of this GPU to those of all


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
class _Measured:
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
    return other_text(["rows.cu"], _THREADS, words, several=several)


def alone(value: Array) -> list[Array]:
    """Return the values of all GPUs, which are one."""
    return [value]


@dataclass(frozen=True, eq=False)
class _Sorter:
    """Sorts the synapses of a plan on a device; `used` counts them by source and block.

    Of several GPUs, each sorts those of its own blocks; `of_all` returns what each of them has found.
    """

    device: Device
    partition: Partition
    entry: Entry
    given: Sequence[_Projection]
    used: Memory
    of_all: Gather = alone
    apart: bool = False  # padded rows lie elsewhere on each GPU
    several: bool = False  # some synapses are elsewhere
    parts: Memory | None = None  # of this GPU, if there are any

    @functools.cached_property
    def kernels_in_parts(self) -> Kernels:
        """The kernels of "rows_in_parts.cu"."""
        return Kernels(self.device, other_text(["several/rows_in_parts.cu"], _THREADS, self.device.words), _THREADS)

    @functools.cached_property
    def kernels(self) -> Kernels:
        """The kernels of "rows.cu"."""
        return Kernels(self.device, rows_text(self.device.words, several=self.several), _THREADS)

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
        """Return what the rows take that were counted, on all GPUs."""
        sources = self.partition.sources
        widths = self.device.memory(4 * sources, "widths of rows")
        totals = cleared(self.device, 24, "sizes of rows")
        laid = self.laid(COMPACT, widths=widths.address, totals=totals.address)
        self.launch("measure_rows", -(-sources // _THREADS), laid)
        here = widths.download(np.uint32, sources)
        found = self.of_all((totals.download(np.uint64, 3), here))
        words, quads, outside = (sum(int(sizes[k]) for sizes, _ in found) for k in range(3))
        return _Measured(words, quads, outside, np.maximum.reduce([own for _, own in found]), here)

    def in_parts(self, **where: int) -> Any:
        """Return what kernels that lay rows of parts out are to know."""
        assert self.parts is not None
        sizes = {"sources": self.partition.sources, "blocks": self.partition.here, "parts": len(self.partition.parts)}
        shared = {"used": self.used.address, "part_of": self.parts.address, "delay_shift": self.entry.delay_shift}
        return filled(IN_PARTS, longest=4 * _QUADS, **sizes, **shared, **where)

    def sort_in_parts(self, places: Mapping[str, int]) -> None:
        """Sort rows of parts by their delays, and note the least delay of each."""
        about = self.in_parts(starts=places["starts"], synapses=places["synapses"])
        self.kernels_in_parts.launch("sort_in_parts", _MOST_BLOCKS, about)
        self.device.wait()

    def ends(self, layout: int, starts: int = 0, start_bytes: int = 4) -> Array:
        """Return how much the rows of each block take, and write where they lie."""
        blocks = self.partition.row_blocks
        ends = self.device.memory(8 * blocks, "sizes of blocks")
        laid = self.laid(layout, ends=ends.address, starts=starts, start_bytes=start_bytes)
        self.launch("lay_rows", blocks, laid)
        return ends.download(np.uint64, blocks)


def place_synapses(
    device: Device,
    plan: Plan,
    partition: Partition,
    room: int,
    of_all: Gather = alone,
    *,
    apart: bool = False,
    numbering: Numbering | None = None,
) -> DeviceRows:
    """Sort the synapses of a plan into rows; a block holds up to the given number of bytes of them in shared memory.

    Of several GPUs, each does this at the same time: `of_all` returns the values that each of them passes. With
    `apart`, they send each other numbers of neurons, so padded rows may lie elsewhere on each. With a `numbering`, some
    of the synapses are placed.
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
    sorter = _Sorter(device, partition, entry, given, used, of_all, apart, several, groups)
    sorter.place()
    rows = _laid_out(sorter, room)
    numbers = held(device, rows.rows, "numbers of rows")
    named = ("synapses", "starts", "bases")
    places = {name: memory.address for name, memory in rows.memories.items() if name in named}
    sorter.place(
        COMPACT if partition.pushed else rows.layout, rows=numbers.address, start_bytes=rows.start_bytes, **places
    )
    if rows.layout == PARTED:
        sorter.sort_in_parts(places)
    return replace(rows, row_of=numbers if rows.number_of else None, parts=groups)


def _laid_out(sorter: _Sorter, room: int) -> DeviceRows:
    """Choose the layout, take memory, and write where rows lie.

    On several GPUs, rows are shorter and there is more memory. So warps deliver shorter ones there, and more are
    padded: a step waits for each read of memory that depends on another one.
    """
    partition, device, entry, found = sorter.partition, sorter.device, sorter.entry, sorter.measured()
    padding, least = (_MOST_PADDING, 2 * LONG_ROW) if partition.gpus == 1 else (_MOST_AMONG, LONG_ROW)
    if partition.pushed:
        return replace(_with_starts(sorter, COMPACT, _places(partition, found), sorter.ends(COMPACT)), layout=PUSHED)
    if partition.parts and (parted := _in_parts(sorter, found)):
        return parted
    if sorter.apart and (padded_here := _padded_apart(sorter, found, padding)):
        return padded_here
    count = partition.sources * partition.blocks
    widths = -(-found.widths.astype(np.int64) * entry.words // 8)
    padded, compact = 32 * int(widths.sum()) * partition.blocks, 16 * found.quads + 4 * count
    mean = found.words / max(1, int((widths > 0).sum()) * partition.blocks)
    fits = int(widths.max(initial=0)) < _WIDTHS and int(widths.sum()) < _BASES
    if fits and mean >= LONG_ROW and padded <= padding * compact:
        bases = np.cumsum(widths) - widths
        rows = np.where(widths > 0, widths << 24 | bases, NOBODY).astype(np.uint32)
        return DeviceRows(PADDED, entry, rows, cleared(device, padded // partition.gpus, _SYNAPSES))
    rows = _places(partition, found)
    if mean >= least:
        return _with_starts(sorter, COMPACT, rows, sorter.ends(COMPACT))
    ends = sorter.ends(SHORT)
    most = max(sorter.of_all(int(ends.max(initial=0))))
    start_bytes = 2 if most < 2**16 else 4
    inside = bytes_in_block(partition.sources, most, start_bytes) <= room
    if not inside and entry.in_slot and 8 * count + 4 * found.outside <= _SLOT_BYTES * found.words:
        return _with_starts(sorter, SLOTS, rows, sorter.ends(SLOTS), 8)
    return _with_starts(sorter, SHORT, rows, ends, start_bytes, most)


def _padded_apart(sorter: _Sorter, found: _Measured, padding: float) -> DeviceRows | None:
    """Return padded rows that are as wide as those of this GPU; None if they do not suit all GPUs.

    A neuron of this GPU whose synapses are on others has a row here, too: it is sent by the place of that.
    """
    partition, device, entry = sorter.partition, sorter.device, sorter.entry
    is_here = np.arange(partition.sources) % partition.blocks // partition.here == partition.first // partition.here
    widths = np.maximum(is_here & (found.widths > 0), -(-found.here.astype(np.int64) * entry.words // 8))
    size = int(widths.sum())
    all_of = sorter.of_all((size, int(widths.max(initial=0)), int((found.here > 0).sum())))
    fits = all(most < _WIDTHS and own < _BASES for own, most, _ in all_of)
    padded = 32 * sum(own for own, *_ in all_of) * partition.here
    mean = found.words / max(1, sum(number for *_, number in all_of) * partition.here)
    compact = 16 * found.quads + 4 * partition.sources * partition.blocks
    if not fits or mean < LONG_ROW or padded > padding * compact:
        return None
    bases = np.cumsum(widths) - widths
    rows = np.where(widths > 0, widths << 24 | bases, NOBODY).astype(np.uint32)
    numbers = np.zeros(max(1, size), np.uint32)
    numbers[bases[widths > 0]] = np.flatnonzero(widths)
    synapses = cleared(device, 32 * size * partition.here, _SYNAPSES)
    return DeviceRows(PADDED, entry, rows, synapses, number_of=held(device, numbers, "numbers of neurons by row"))


def _in_parts(sorter: _Sorter, found: _Measured) -> DeviceRows | None:
    """Return rows that are as long for all blocks of a part; None if they do not suit all GPUs."""
    partition, device = sorter.partition, sorter.device
    starts = device.memory(8 * partition.sources * len(partition.parts), _PLACES)
    ends, widest = device.memory(8 * partition.sources, "sizes of rows"), cleared(device, 4, "the widest row")
    about = sorter.in_parts(starts=starts.address, ends=ends.address, widest=widest.address)
    blocks = min(-(-partition.sources // _THREADS), _MOST_BLOCKS)
    sorter.kernels_in_parts.launch("measure_in_parts", blocks, about)
    quads = ends.download(np.uint64, partition.sources)
    bases = np.cumsum(quads) - quads
    size, most = int(quads.sum()), int(widest.download(np.uint32, 1)[0])
    entry = sorter.entry
    fits = not entry.wide and entry.delay_bits <= _DELAY_BITS and most <= _QUADS and size < 2**32
    if not all(sorter.of_all(fits)):
        return None
    ends.upload(bases)
    sorter.kernels_in_parts.launch("begin_in_parts", blocks, about)
    device.wait()
    rows = _places(partition, found)
    return DeviceRows(PARTED, entry, rows, cleared(device, 16 * size, _SYNAPSES), starts, start_bytes=8)


def _places(partition: Partition, found: _Measured) -> Array:
    """Return the place of each source neuron in its block, or NOBODY."""
    places = np.arange(partition.sources) // partition.blocks
    return np.where(found.widths > 0, places, NOBODY).astype(np.uint32)


def _with_starts(
    sorter: _Sorter, layout: int, rows: Array, ends: Array, start_bytes: int = 4, block_words: int = 0
) -> DeviceRows:
    """Return rows of a layout, where the rows of each block take so much."""
    device, partition = sorter.device, sorter.partition
    starts = device.memory(start_bytes * partition.row_blocks * (partition.sources + 1), _PLACES)
    sorter.ends(layout, starts.address, start_bytes)
    synapses = cleared(device, (16 if layout == COMPACT else 4) * int(ends.sum()), _SYNAPSES)
    bases = held(device, np.cumsum(ends) - ends, "places of blocks")
    return DeviceRows(layout, sorter.entry, rows, synapses, starts, bases, start_bytes, block_words)


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
