# SPDX-License-Identifier: Apache-2.0
"""How a layer is laid out on a GPU: blocks, samples of a cluster, and what is in registers and in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .layer import Layer

__all__ = ["MOST_BLOCKS", "Shape", "layouts", "shape_of"]

MOST_BLOCKS = 16  # of a cluster
_WARPS, _TILES, _THREADS = 8, 2, 256
_OWN = (256, 128, 64)  # neurons of a block
_SAMPLES = (1, 2, 4, 8, 16, 24, 32, 40)  # of a cluster: whole products of eight are faster than parts
_REGISTERS = 255  # of a thread
_OTHERS = {"forward": 78, "backward": 84}  # registers for all but weights, sums and states, about
_LANES = 32
_SMALL_SLICE = 1024  # bytes, up to which a block copies to each other one, and beyond which to all at once


@dataclass(frozen=True)
class Shape:
    """The shape of a kernel: `way` is "forward" or "backward".

    `own` are the neurons of a block, of which `blocks` own `samples` samples together. Of the weights of a thread,
    `registers` vectors are in registers. `ahead` is for how many steps there is room for what is read from memory.
    """

    way: str
    own: int
    blocks: int
    samples: int
    registers: int = 32
    ahead: int = 4
    sums_within: bool = False
    multicast: bool = False

    @property
    def wide(self) -> int:
        """The number of neurons with those that fill the last block."""
        return self.own * self.blocks

    @property
    def parts(self) -> int:
        """How many warps share the sum of one neuron."""
        return _WARPS * 32 // self.own

    @property
    def groups(self) -> int:
        """How many products of eight samples there are."""
        return -(-self.samples // 8)

    @property
    def each(self) -> int:
        """How many neurons, or backward pairs of them, a thread has."""
        of = self.samples * self.own
        return of // _THREADS if self.way == "forward" else -(-of // 2 // _THREADS)

    @property
    def slice_bytes(self) -> int:
        """What a block sends backward in a step."""
        return self.samples * (self.own + 8) * 2

    def clusters(self, batch: int) -> int:
        """Return how many clusters own all samples."""
        return -(-batch // self.samples)

    def vectors(self) -> int:
        """Return how many vectors of 16 bytes the weights of a thread are."""
        return self.wide // self.parts // 16 * _TILES

    def fetched(self, layer: Layer) -> int:
        """Return how many words a thread reads from memory in a step."""
        if self.way == "forward":
            return len(layer.fed) * self.each
        pairs = len(layer.kept) + layer.has_answer + len(layer.shown_floats)
        return self.each * (2 * pairs - sum(layer.halves) + len(layer.flags_back))

    def shared(self, layer: Layer) -> int:
        """Return how many bytes of shared memory a block needs."""
        nbytes = 128 + self.ahead * self.fetched(layer) * _THREADS * 4
        if not layer.has_product:
            return nbytes
        slots = layer.delay + 1
        sent = self.samples * self.wide // 8 if self.way == "forward" else self.blocks * self.slice_bytes
        weights = max(0, self.vectors() - self.registers) * _THREADS * 16
        return nbytes + weights + slots * sent + (0 if self.sums_within else self._sums())

    def _sums(self) -> int:
        return self.parts * self.samples * (self.own + 4) * 4

    def fitted(self, layer: Layer, most: int) -> Shape | None:
        """Return the same shape with as much read ahead as there is room for; None if there is no room."""
        moving = len(layer.float_states) + len(layer.wanted)
        per_neuron = len(layer.states) if self.way == "forward" else 2 * moving
        sums = _TILES * self.groups * 4 * (2 if self.groups == 1 else 1)
        free = _REGISTERS - _OTHERS[self.way] - sums - self.each * (per_neuron + 1)
        some = replace(self, registers=max(4, min(32, free // 4)))
        within = self.way == "backward" and self.blocks * self.slice_bytes >= self._sums()
        for registers in dict.fromkeys((some.registers, 32)):
            for sums_within in (False, True) if within else (False,):
                for ahead in (4, 3, 2, 1):
                    one = replace(some, registers=registers, ahead=ahead, sums_within=sums_within)
                    if one.shared(layer) <= most:
                        return one
        return None


def layouts(neurons: int, has_product: bool) -> list[tuple[int, int]]:
    """Return neurons of a block, and blocks, for a number of neurons: the fastest first."""
    if not has_product:
        return [(64, -(-neurons // 64))]
    found = []
    for own in _OWN:
        parts = _WARPS * 32 // own
        whole = max(own, 32 * parts)  # neurons in all, of which there are multiples
        blocks = -(-neurons // whole) * whole // own
        if blocks <= MOST_BLOCKS:
            found.append((own, blocks))
    in_registers = [one for one in found if one[0] * one[0] * one[1] * 2 <= 32 * _THREADS * 16]
    return sorted(in_registers, key=lambda one: one[0] * one[1]) + [one for one in found if one not in in_registers]


def shape_of(layer: Layer, way: str, batch: int, at_once: Callable[[int], int], most: int) -> Shape | None:
    """Return the shape of a kernel for a batch; None if no shape has room.

    Args:
        layer: What the kernel is made for.
        way: "forward" or "backward".
        batch: How many samples there are.
        at_once: Returns how many clusters of a number of blocks a device runs at the same time.
        most: How many bytes of shared memory a block has.
    """
    for own, blocks in layouts(layer.neurons, layer.has_product):
        clusters = at_once(blocks) if layer.has_product else at_once(1) // blocks
        least = _THREADS // own
        each = -(-batch // max(1, clusters))
        possible = [n for n in _SAMPLES if n >= least and n * own <= _LANES * _THREADS]
        enough = [n for n in possible if n >= each]
        # A second wave of clusters costs much: the fewest samples with which all run at once, else as many as fit.
        for samples in (*enough[:1], *reversed([n for n in possible if n < each])):
            shape = Shape(way, own, blocks, samples)
            multicast = way == "backward" and layer.has_product and blocks > 1
            shape = replace(shape, multicast=multicast and shape.slice_bytes > _SMALL_SLICE)
            fitted = shape.fitted(layer, most)
            if fitted is not None:
                return fitted
    return None
