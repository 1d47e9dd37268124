# SPDX-License-Identifier: Apache-2.0
"""`PlasticLayout`: the synapses of a plastic projection on a device, by the block of their target, and a second index.

They are drawn there, or given by the host, as keys that say all of them; these are sorted within the rows of a block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import NetworkError
from ...scalar.lower import called_form
from ...scalar.samplers import sampler_forms
from ..plan.loop_arguments import GAPS, PAIRS
from ..plan.plastic import PlasticPlan
from ..plan.plastic_drawing import HostDrawn
from .device import Device, Memory, cleared, held
from .drawing import Drawing
from .kernels import Kernels
from .partition import Partition
from .several.meeting import Gather, alone
from .structs import GIVEN, GIVEN_HERE, KEYED, LAID, LINES, ROWS, SHORT, filled
from .text import other_text

__all__ = ["OnDevice", "PlasticLayout", "draw_weights", "kernels_of", "laid_out", "plastic_rows_text", "reads_sources"]

_THREADS = 256
_MOST_BLOCKS = 8192
_WORD = 32
Array = Any


@functools.cache
def plastic_rows_text(words: str | None = None, *, several: bool = False) -> str:
    """Return the text of the kernels, for one GPU or several; `words` are those of a machine, None for a GPU."""
    forms = (called_form("be_bits"), called_form("be_more_bits"), *sampler_forms())
    return other_text(["rows.cu", "drawn_values.cu", "plastic_rows.cu"], _THREADS, words, forms, several=several)


def kernels_of(device: Device, *, several: bool) -> Kernels:
    """Return the kernels of "plastic_rows.cu" and "rows.cu", for one GPU or several."""
    return Kernels(device, plastic_rows_text(device.words, several=several), _THREADS)


class OnDevice(NamedTuple):
    """An array on a device: its memory, and the bytes of an element."""

    memory: Memory
    itemsize: int

    @property
    def address(self) -> int:
        """Where it lies."""
        return self.memory.address


@dataclass(frozen=True, eq=False)
class PlasticLayout:
    """Synapses by the block of their target, and of a block by source, delay and target.

    On one of several GPUs, they are those of its own blocks, of which the first is block 0 here.

    `arrays` lie on the device, by name, and `weights`. Block b has the synapses from `bases[b]` on; those of a source
    begin at `starts[b, source]`, counted from there. `targets` are numbers among the targets of the block, and `which`
    the places of delays among the different ones, if there are several.

    The second index has, for each target of a block, or each target and delay where events of the target are delayed,
    the `incoming` synapses from `into[b, place]` on: words of `entry_bits` bits for the place of a synapse in its
    block, and then its source, if rules read something of that. Bits beyond 32 are in `more`. There is none if no rule
    is called by events of targets. `places` is how many targets a block has at most.

    `rows` says where the synapses of each source begin in a `NetworkState`, and `line` how many of a source a block
    has at most, on any GPU. Where rules for events of targets are `deferred`, there is no second index either.
    """

    arrays: Mapping[str, OnDevice]
    weights: Memory
    bases: Array
    rows: Array
    entry_bits: int
    places: int
    line: int
    deferred: bool = False

    @property
    def entries(self) -> int:
        """How many synapses there are here."""
        return int(self.bases[-1])

    @property
    def which(self) -> OnDevice | None:
        """Places of delays, if there are several."""
        return self.arrays.get("which")

    @property
    def more(self) -> OnDevice | None:
        """The bits of the second index beyond 32."""
        return self.arrays.get("more")


def reads_sources(plastic: PlasticPlan) -> bool:
    """Say whether rules that events of targets call read something of sources."""
    return any(name.text.startswith("pre_") for _, rule in plastic.rules.on_post for name in rule.form.inputs)


class _Layouter:
    """Lays out the synapses of a projection on a device; `blocks` are those of this GPU."""

    def __init__(self, device: Device, plastic: PlasticPlan, partition: Partition, of_all: Gather = alone):
        self.device, self.plastic, self.partition, self.of_all = device, plastic, partition, of_all
        self.blocks, (self.sources, self.size) = partition.here, plastic.sizes
        self.several, self.entries = partition.gpus > 1, 0
        self.kernels = kernels_of(device, several=self.several)
        self.what = f"plastic synapses of {plastic.name}"
        self.places, self.rows = -(-self.size // partition.blocks), plastic.distinct.size
        self.draw, self.longest_row = self._from_host() if plastic.drawn is None else self._drawing(plastic.drawn)

    def _given(self, **more: Any) -> Any:
        first, owners = self.partition.begins[self.plastic.target], self.partition.blocks
        ends = {"sources": self.sources, "all_sources": self.sources, "target_begin": first}
        here = {"first": self.partition.first, "here": self.blocks} if self.several else {}
        kind = GIVEN_HERE if self.several else GIVEN
        return filled(kind, blocks=self.blocks, owners=owners, layout=SHORT, **here, **ends, **more)

    def _drawing(self, drawn: Any) -> tuple[Callable[[Any], None], int]:
        """Return what draws the synapses, counted or as keys, and how many turns a row takes at most."""
        assert isinstance(drawn, HostDrawn)
        rows = Drawing(self.device, several=self.several).rows(drawn.description)
        self.recipe = rows.structure
        given = self._given(delay=rows.delay)
        kind, own = int(rows.structure["kind"]), bool(rows.structure["by_target"])
        most = int(rows.structure["number"]) if own else 0  # else as many as the source has
        if kind in (GAPS, PAIRS):
            most = self.size + 1
        return functools.partial(rows.draw, given), most

    def _from_host(self) -> tuple[Callable[[Any], None], int]:
        """Return what reads synapses that the host has, in the order of a state."""
        self.recipe = None
        synapses = self.plastic.synapses
        starts = np.ascontiguousarray(synapses.starts[:: synapses.parts], np.uint64)
        delays = synapses.delays if synapses.delays.size == 1 else synapses.delays[synapses.order]
        arrays = {"starts": starts, "targets": np.ascontiguousarray(synapses.targets[synapses.order]), "delays": delays}
        memories = {key: held(self.device, x, f"{self.what}, while they are sorted,") for key, x in arrays.items()}
        sizes = {"target_bytes": synapses.targets.itemsize, "delay_bytes": delays.itemsize if delays.size > 1 else 0}
        addresses = {key: memory.address for key, memory in memories.items()}
        given = self._given(delay=int(delays[0]) if delays.size == 1 else 0, **sizes, **addresses)

        def draw(rows: Any) -> None:
            assert memories
            if self.plastic.entries:
                self._launch("place_rows", self.sources, given, rows)
            self.device.wait()

        return draw, 0

    def _launch(self, kernel: str, blocks: int, *structures: Any) -> None:
        self.kernels.launch(kernel, max(1, min(blocks, _MOST_BLOCKS)), *structures)

    def memory(self, itemsize: int, count: int | None = None) -> OnDevice:
        """Take memory for an array, with an element for each synapse unless it says how many."""
        return OnDevice(self.device.memory(itemsize * (self.entries if count is None else count), self.what), itemsize)

    def count(self) -> tuple[OnDevice, OnDevice, Array, Array, int]:
        """Count; return where the lines of each block lie and the blocks, likewise, where rows do, and the longest.

        Rows and the longest line are those of all GPUs.
        """
        self.used = cleared(self.device, 4 * self.sources * self.blocks, f"numbers of {self.what}")
        self.draw(filled(ROWS, used=self.used.address))
        self.device.wait()
        counts = self.used.download(np.uint32, (self.sources, self.blocks))
        found = self.of_all((counts.sum(1, dtype=np.int64), int(counts.max(initial=0))))
        rows = np.concatenate([[0], np.cumsum(sum(sizes for sizes, _ in found))])
        assert rows[-1] == self.plastic.entries
        starts, bases = self._lines(self.used, self.sources)
        self.entries = int(bases[-1])
        return starts, OnDevice(held(self.device, bases, self.what), 8), bases, rows, max(line for _, line in found)

    def _lines(self, used: Memory, lines: int) -> tuple[OnDevice, Array]:
        """Return where the lines of each block begin, and where blocks do, given how many synapses lines have."""
        ends = self.device.memory(8 * self.blocks, self.what)
        starts = self.memory(4, self.blocks * (lines + 1))
        how = {"sources": lines, "blocks": self.blocks, "layout": SHORT, "words": 1, "start_bytes": 4}
        laid = filled(LAID, used=used.address, ends=ends.address, starts=starts.address, **how)
        self._launch("lay_rows", self.blocks, laid)
        sizes = ends.download(np.uint64, self.blocks)
        if (most := int(sizes.max(initial=0))) >= 2**_WORD:
            raise NetworkError(
                f"build: {self.what}: {most} end in one of {self.blocks} blocks, but 32 bits count those of a block; "
                "pass more blocks="
            )
        return starts, np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)

    def keys(self, starts: OnDevice, bases: OnDevice, rows: Array) -> tuple[OnDevice, dict[str, int]]:
        """Write and sort the key of each synapse; return them, and of how many bits they consist."""
        turns = max(1, (self.longest_row or int(np.diff(rows).max(initial=0)) + 1).bit_length())
        places, late = _bits(self.places), _bits(self.rows) if self.rows > 1 else 0
        if turns + places + late > 64:
            raise NetworkError(
                f"build: {self.what}: {self.places} targets in a block, {self.rows} different delays and rows of up to "
                f"{2**turns - 1} synapses need {turns + places + late} bits, but keys have 64; pass more blocks= or "
                "fewer different delays"
            )
        size = 4 if turns + places + late <= _WORD else 8
        keys = OnDevice(self.device.memory(size * self.entries, f"keys by which {self.what} are sorted"), size)
        how = {"key_bytes": size, "turn_bits": turns, "place_bits": places}
        of_delay = np.zeros(int(self.plastic.distinct.max(initial=0)) + 1, np.uint32)
        of_delay[self.plastic.distinct] = np.arange(self.rows)
        table = held(self.device, of_delay, self.what)
        where = {"used": self.used.address, "starts": starts.address, "bases": bases.address, "keys": keys.address}
        self.used.clear()
        self.draw(filled(ROWS, start_bytes=4, late=table.address if self.rows > 1 else 0, **how, **where))
        self.sort(self.sources, starts, bases, keys)
        self.device.wait()
        return keys, how

    def sort(self, lines: int, starts: OnDevice, bases: OnDevice, keys: OnDevice) -> None:
        """Sort the keys of each line."""
        where = {"starts": starts.address, "bases": bases.address, "keys": keys.address}
        how = filled(LINES, blocks=self.blocks, lines=lines, key_bytes=keys.itemsize, **where)
        self._launch("sort_lines", self.blocks * lines, how)

    def keyed(self, arrays: Mapping[str, OnDevice], **more: Any) -> Any:
        """Return what kernels are to know of synapses that lie in some arrays."""
        found = filled(KEYED, blocks=self.blocks, sources=self.sources, places=self.places, **more)
        found["all_blocks"], found["first"] = self.partition.blocks, self.partition.first
        found["first_number"] = self.partition.begins[self.plastic.target]
        for name, array in arrays.items():
            found[name] = array.address
            if name in ("targets", "which", "more"):
                found[f"{name.removesuffix('s')}_bytes"] = array.itemsize
        return found

    def take(self, keyed: Any, keys: OnDevice, how: Mapping[str, int], weights: Memory) -> None:
        """Take synapses from keys, with weights if these are drawn."""
        keyed["keys"] = keys.address
        for name, value in how.items():
            keyed[name] = value
        if self.recipe is not None and self.recipe["own_weights"]:
            keyed["own_weights"], keyed["weights"], keyed["law"] = 1, weights.address, self.recipe["weights"]
            keyed["by_target"] = self.recipe["by_target"]
            keyed["key0"], keyed["key1"] = self.recipe["key0"], self.recipe["key1"]
        self._launch("take_keys", -(-self.blocks * self.sources * 32 // _THREADS), keyed)
        self.device.wait()

    def index(self, arrays: dict[str, OnDevice], used: Memory, late: int, line: int) -> int:
        """Add the second index to arrays, given how many synapses each of its lines has; return the bits of a place."""
        lines = self.places * late
        arrays["into"], bases = self._lines(used, lines)
        entry_bits = max(self.of_all(_bits(int(np.diff(bases.astype(np.int64)).max(initial=0)))))
        bits = entry_bits + (_bits(self.sources) if reads_sources(self.plastic) else 0)
        arrays["incoming"] = self.memory(4)
        if bits > _WORD:
            arrays["more"] = self.memory(_bytes_for(2 ** (bits - _WORD)))
        used.clear()
        keyed = self.keyed(arrays, used=used.address, late_places=late, entry_bits=entry_bits)
        some = -(-self.entries // _THREADS)
        self._launch("index_targets", some, keyed)
        self.sort(lines, arrays["into"], arrays["bases"], arrays["incoming"])
        if reads_sources(self.plastic):
            self._launch("add_sources", some, keyed)
        self.device.wait()
        return entry_bits


def laid_out(
    device: Device,
    plastic: PlasticPlan,
    partition: Partition,
    *,
    deferred: bool = False,
    of_all: Gather = alone,
) -> PlasticLayout:
    """Sort the synapses of a plastic projection by block, and write weights that are drawn.

    Of several GPUs, each does this at the same time: `of_all` returns the values that each of them passes.
    """
    layouter = _Layouter(device, plastic, partition, of_all)
    starts, bases, ends, rows, line = layouter.count()
    weights = device.memory(4 * layouter.entries, f"weights of {layouter.what}")
    keys, how = layouter.keys(starts, bases, rows)
    arrays = {"bases": bases, "starts": starts, "targets": layouter.memory(_bytes_for(layouter.places))}
    if layouter.rows > 1:
        arrays["which"] = layouter.memory(_bytes_for(layouter.rows))
    if deferred or not plastic.rules.on_post:
        layouter.take(layouter.keyed(arrays), keys, how, weights)
        return PlasticLayout(arrays, weights, ends, rows, 0, layouter.places, line, deferred)
    late = plastic.post_rows if layouter.rows > 1 else 1
    used = cleared(device, 4 * layouter.places * late * partition.here, f"numbers of {layouter.what}")
    layouter.take(layouter.keyed(arrays, used=used.address, late_places=late), keys, how, weights)
    del keys  # given back before more is taken
    entry_bits = layouter.index(arrays, used, late, line)
    return PlasticLayout(arrays, weights, ends, rows, entry_bits, layouter.places, line)


def draw_weights(device: Device, plastic: PlasticPlan, partition: Partition, layout: PlasticLayout) -> None:
    """Draw the weights of synapses that are laid out again."""
    layouter = _Layouter(device, plastic, partition)
    layouter.entries = layout.entries
    layouter.used = cleared(device, 4 * layouter.sources * layouter.blocks, f"numbers of {layouter.what}")
    keys, how = layouter.keys(layout.arrays["starts"], layout.arrays["bases"], layout.rows)
    layouter.take(layouter.keyed(layout.arrays), keys, how, layout.weights)


def _bits(count: int) -> int:
    """Return how many bits hold the numbers below a count, at least 1."""
    return max(1, (count - 1).bit_length())


def _bytes_for(count: int) -> int:
    """Return the bytes of the smallest unsigned integer that holds the numbers below a count."""
    return next(size for size in (1, 2, 4) if count <= 2 ** (8 * size))
