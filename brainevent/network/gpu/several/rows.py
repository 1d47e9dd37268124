# SPDX-License-Identifier: Apache-2.0
"""`SorterAmongGpus`: rows of several GPUs: padded elsewhere on each, or as long for all blocks of a part."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..device import Memory, cleared, held
from ..kernels import Kernels
from ..rows import LONG_ROW, DeviceRows
from ..sorter import MOST_BLOCKS, THREADS, Measured, Sorter, may_be_padded
from ..structs import IN_PARTS, PARTED, filled
from ..text import other_text

__all__ = ["SorterAmongGpus"]

_MOST_PADDING = 2.5  # times the bytes of compact rows
_QUADS, _DELAY_BITS = 1023, 10  # of rows of parts, at most


@dataclass(frozen=True, eq=False)
class SorterAmongGpus(Sorter):
    """Sorts the synapses that end on one of several GPUs.

    If they send each other numbers of neurons, padded rows may lie `apart`, elsewhere on each GPU.
    """

    apart: bool = False

    @functools.cached_property
    def kernels_in_parts(self) -> Kernels:
        """The kernels of "rows_in_parts.cu"."""
        of_lanes = [] if self.device.words else ["several/on_gpu_due.cu"]
        text = other_text([*of_lanes, "several/rows_in_parts.cu"], THREADS, self.device.words)
        return Kernels(self.device, text, THREADS)

    @functools.cached_property
    def widest(self) -> Memory:
        """Where the quads of the widest row of parts are counted."""
        return cleared(self.device, 4, "the widest row")

    @property
    def limits(self) -> tuple[float, float]:
        """How many times the bytes of compact rows padded ones may take; the least mean length of compact ones.

        On several GPUs, rows are shorter and there is more memory. So warps deliver shorter ones there, and more are
        padded: a step waits for each read of memory that depends on another one.
        """
        return _MOST_PADDING, LONG_ROW

    def chosen(self, found: Measured, room: int) -> DeviceRows:
        """Return rows of the layout that suits them, where they lie."""
        own = None
        if not self.partition.pushed:
            own = self._in_parts(found) if self.partition.parts else None
            own = self._padded_apart(found) if own is None and self.apart else own
        return super().chosen(found, room) if own is None else own

    def finish(self, rows: DeviceRows) -> None:
        """Sort rows of parts by their delays, and note the least delay of each."""
        if rows.layout == PARTED:
            assert rows.starts is not None
            about = self._about(starts=rows.starts.address, synapses=rows.synapses.address)
            self.kernels_in_parts.launch("sort_in_parts", MOST_BLOCKS, about)
            self.device.wait()

    def _padded_apart(self, found: Measured) -> DeviceRows | None:
        """Return padded rows that are as wide as those of this GPU; None if they do not suit all GPUs.

        A neuron of this GPU whose synapses are on others has a row here, too: it is sent by the place of that.
        """
        partition, (padding, _) = self.partition, self.limits
        is_here = np.arange(partition.sources) % partition.blocks // partition.here == partition.first // partition.here
        own_widths = -(-found.here.astype(np.int64) * self.entry.words // 8)
        widths = np.maximum(is_here & (found.widths > 0), own_widths)
        size = int(widths.sum())
        all_of = self.of_all((size, int(widths.max(initial=0)), int((found.here > 0).sum())))
        fits = all(may_be_padded(own, most) for own, most, _ in all_of)
        padded = 32 * sum(own for own, *_ in all_of) * partition.here
        mean = found.words / max(1, sum(number for *_, number in all_of) * partition.here)
        compact = 16 * found.quads + 4 * partition.sources * partition.blocks
        if not fits or mean < LONG_ROW or padded > padding * compact:
            return None
        numbers = np.zeros(max(1, size), np.uint32)
        numbers[(np.cumsum(widths) - widths)[widths > 0]] = np.flatnonzero(widths)
        return replace(self.padded(widths), number_of=held(self.device, numbers, "numbers of neurons by row"))

    def _in_parts(self, found: Measured) -> DeviceRows | None:
        """Return rows that are as long for all blocks of a part; None if they do not suit all GPUs."""
        partition, device, entry = self.partition, self.device, self.entry
        starts = device.memory(8 * partition.sources * len(partition.parts), "places of rows")
        ends = device.memory(8 * partition.sources, "sizes of rows")
        about = self._about(starts=starts.address, ends=ends.address)
        blocks = min(-(-partition.sources // THREADS), MOST_BLOCKS)
        self.kernels_in_parts.launch("measure_in_parts", blocks, about)
        quads = ends.download(np.uint64, partition.sources)
        bases = np.cumsum(quads) - quads
        size, most = int(quads.sum()), int(self.widest.download(np.uint32, 1)[0])
        fits = entry.is_half and entry.delay_bits <= _DELAY_BITS and most <= _QUADS and size < 2**32
        sizes = self.of_all(size if fits else None)
        compact = 16 * found.quads + 4 * partition.sources * partition.blocks
        if None in sizes or 16 * sum(sizes) > _MOST_PADDING * compact:
            return None
        ends.upload(bases)
        self.kernels_in_parts.launch("begin_in_parts", blocks, about)
        device.wait()
        synapses = cleared(device, 16 * size, "synapses")
        return DeviceRows(PARTED, entry, self.places(found), synapses, starts, start_bytes=8)

    def _about(self, **where: int) -> Any:
        """Return what kernels that lay rows of parts out are to know."""
        assert self.parts is not None
        sizes = {"sources": self.partition.sources, "blocks": self.partition.here, "parts": len(self.partition.parts)}
        shared = {"used": self.used.address, "part_of": self.parts.address, "widest": self.widest.address}
        delays = {"delay_shift": self.entry.delay_shift, "delays": 1 << self.entry.delay_bits}
        return filled(IN_PARTS, **sizes, **delays, **shared, **where)
