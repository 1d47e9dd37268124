# SPDX-License-Identifier: Apache-2.0
"""How layers are laid out on a GPU: blocks, samples of a cluster, and what is in registers and in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .layer import Layer, Layers

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

    `own` are the neurons of a block, of which there are `blocks_of` each layer; together they own `samples` samples. Of
    the weights of a thread, `registers` vectors are in registers. `ahead` is for how many steps there is room for what
    is read from memory.
    """

    way: str
    own: int
    blocks_of: tuple[int, ...]
    samples: int
    registers: int = 32
    ahead: int = 4
    sums_within: bool = False
    multicast: bool = False

    @property
    def blocks(self) -> int:
        """How many blocks own the same samples."""
        return sum(self.blocks_of)

    @property
    def wide(self) -> int:
        """The number of neurons with those that fill the last block of each layer."""
        return self.own * self.blocks

    def wide_of(self, layer: int) -> int:
        """Return the same number of one layer."""
        return self.own * self.blocks_of[layer]

    def first_of(self, layer: int) -> int:
        """Return the number of the first block of a layer."""
        return sum(self.blocks_of[:layer])

    def inner(self, layers: Layers) -> int:
        """Return how many products the sums of a neuron have."""
        return sum(self.wide_of(piece.of) for piece in layers.pieces[self.way])

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

    def planes(self, layers: Layers) -> int:
        """Return of how many numbers of few bits a weight is the sum: of 8 bits forward, of 16 backward."""
        return layers.planes if self.way == "forward" else 1 + layers.precise

    def slice_bytes(self, layers: Layers) -> int:
        """Return what a block sends backward in a step."""
        return layers.sums * self.planes(layers) * self.samples * (self.own + 8) * 2

    def clusters(self, batch: int) -> int:
        """Return how many clusters own all samples."""
        return -(-batch // self.samples)

    def vectors(self, layers: Layers) -> int:
        """Return how many vectors of 16 bytes the weights of a thread are."""
        steps = self.inner(layers) // self.parts // (32 if self.way == "forward" else 16)
        return steps * _TILES * self.planes(layers)

    def fetched(self, layers: Layers) -> int:
        """Return how many words a thread reads from memory in a step, at most."""
        return max(self._fetched(layer) for layer in layers.layers)

    def _fetched(self, layer: Layer) -> int:
        if self.way == "forward":
            return len(layer.fed) * self.each
        pairs = len(layer.kept) + layer.has_answer + len(layer.shown_floats)
        return self.each * (2 * pairs - sum(layer.halves) + len(layer.flags_back))

    def shared(self, layers: Layers) -> int:
        """Return how many bytes of shared memory a block needs."""
        nbytes = 128 + self.ahead * self.fetched(layers) * _THREADS * 4
        if not layers.has_product:
            return nbytes
        slots = layers.delay + 1
        sent = self.samples * self.wide // 8 if self.way == "forward" else self.blocks * self.slice_bytes(layers)
        weights = max(0, self.vectors(layers) - self.registers) * _THREADS * 16
        return nbytes + weights + slots * sent + (0 if self.sums_within else self._sums(layers))

    def _sums(self, layers: Layers) -> int:
        each = layers.sums * self.totals(layers) if self.way == "forward" else 1
        return each * self.parts * self.samples * (self.own + 4) * 4

    def totals(self, layers: Layers) -> int:
        """Return how many numbers of 32 bits the sum of a neuron is made of: one for up to two planes."""
        return 1 + (self.planes(layers) > 2)

    def fitted(self, layers: Layers, most: int) -> Shape | None:
        """Return the same shape with as much read ahead as there is room for; None if there is no room."""
        sums = _TILES * self.groups * 4 * ((2 if self.groups == 1 else 1) + self.totals(layers) - 1)
        per_neuron = max(self._per_neuron(layer) for layer in layers.layers)
        free = _REGISTERS - _OTHERS[self.way] - sums - self.each * (per_neuron + 1)
        some = replace(self, registers=max(4, min(32, free // 4)))
        within = self.way == "backward" and self.blocks * self.slice_bytes(layers) >= self._sums(layers)
        for registers in dict.fromkeys((some.registers, 32)):
            for sums_within in (False, True) if within else (False,):
                for ahead in (4, 3, 2, 1):
                    one = replace(some, registers=registers, ahead=ahead, sums_within=sums_within)
                    if one.shared(layers) <= most:
                        return one
        return None

    def _per_neuron(self, layer: Layer) -> int:
        """Return how many registers a neuron has, or backward a pair."""
        moving = len(layer.float_states) + len(layer.wanted)
        return len(layer.states) if self.way == "forward" else 2 * moving


def layouts(layers: Layers, way: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return neurons of a block, and blocks of each layer: the fastest first."""
    if not layers.has_product:
        return [(64, tuple(-(-layer.neurons // 64) for layer in layers.layers))]
    found = []
    for own in _OWN:
        whole = max(own, 32 * _WARPS * 32 // own)  # neurons of a layer in all, of which there are multiples
        blocks = tuple(-(-layer.neurons // whole) * whole // own for layer in layers.layers)
        if sum(blocks) <= MOST_BLOCKS:
            found.append((own, blocks))
    in_registers = [
        (own, blocks)
        for own, blocks in found
        if own * Shape(way, own, blocks, 1).inner(layers) * 2 <= 32 * _THREADS * 16
    ]
    return sorted(in_registers, key=lambda one: one[0] * sum(one[1])) + [
        one for one in found if one not in in_registers
    ]


def shape_of(layers: Layers, way: str, batch: int, at_once: Callable[[int], int], most: int) -> Shape | None:
    """Return the shape of a kernel for a batch; None if no shape has room.

    Args:
        layers: What the kernel is made for.
        way: "forward" or "backward".
        batch: How many samples there are.
        at_once: Returns how many clusters of a number of blocks a device runs at the same time.
        most: How many bytes of shared memory a block has.
    """
    for own, blocks_of in layouts(layers, way):
        blocks = sum(blocks_of)
        clusters = at_once(blocks) if layers.has_product else at_once(1) // blocks
        least = _THREADS // own
        each = -(-batch // max(1, clusters))
        possible = [n for n in _SAMPLES if n >= least and n * own <= _LANES * _THREADS]
        enough = [n for n in possible if n >= each]
        # A second wave of clusters costs much: the fewest samples with which all run at once, else as many as fit.
        for samples in (*enough[:1], *reversed([n for n in possible if n < each])):
            shape = Shape(way, own, blocks_of, samples)
            multicast = way == "backward" and layers.has_product and blocks > 1
            shape = replace(shape, multicast=multicast and shape.slice_bytes(layers) > _SMALL_SLICE)
            fitted = shape.fitted(layers, most)
            if fitted is not None:
                return fitted
    return None
