# SPDX-License-Identifier: Apache-2.0
"""`Sums`: which of the pending input of a block lies in its shared memory, beside what small populations need there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.drawing import Description
from ..plan.plan import Plan
from .kinds import Kind, extents_of, words_of
from .partition import MOST_THREADS, Partition
from .rows import entry_of
from .structs import common_dtype

__all__ = ["TABLE_ROOM", "Sums", "Wishes", "sums_of", "wishes_of"]

_LEAST_NEAR, _BEYOND_LAG = 4, 3  # steps whose sums are in shared memory, at least; and beyond those of late packets
_MOST_LOAD = 2**15 - 1  # a sum of 16 bits
_LISTED = 4  # synapses for each cell, that are listed for a later step
_SPAN = 2  # 2^2 steps share a list, at most
_ROWS_DUE = 2048  # rows that are listed for a step, where rows are those of parts
_PILES, _MANY_CELLS = 1, 1024  # of a list, if a block has so many cells: with more, what is written is farther apart
TABLE_ROOM = 512  # words of tables of Poisson numbers
_AT_ONCE, _MOST_MIXED, _MIXED_GAIN = 3, 255, 1.5  # neurons of a thread; populations; turns of threads saved, at least


@dataclass(frozen=True)
class Wishes:
    """What a network allows: sums of 16 bits, which are `certain` if those hold all that may arrive in a step.

    With `mixed`, threads that follow each other have neurons of different populations. Packets are read `lag` steps
    late.
    """

    halved: bool = False
    certain: bool = False
    mixed: bool = False
    lag: int = 0


@dataclass(frozen=True)
class Sums:
    """Bytes of shared memory that are `taken`, besides sums of 32 bits, and by what.

    Sums of the next `near` steps are there in 16 bits, if not all are there in 32; for each later span of 2^`span`
    steps there are `piles` with room for `pile_room` synapses each. With `mixed` there is a table of the populations of
    neurons, and `drawn` bytes of each neuron for what is drawn for the next step. `words` is how many words of memory
    all lists of synapses take. What neurons of a population share takes `known` bytes, among them tables of Poisson
    numbers of `table_words` words.
    """

    taken: int = 0
    near: int = 0
    pile_room: int = 0
    span: int = 0
    piles: int = 1
    certain: bool = False
    mixed: bool = False
    drawn: int = 0
    words: int = 0
    known: int = 0
    table_words: int = 0

    @property
    def structure(self) -> Mapping[str, Any]:
        """What of it is part of a `Structure`."""
        names = "near", "pile_room", "span", "piles", "certain", "mixed", "drawn", "known", "table_words"
        return {name: getattr(self, name) for name in names}


def wishes_of(plan: Plan, partition: Partition, lag: int, *, beside: bool) -> Wishes:
    """Return what a plan allows; `beside` other networks, there is no memory for lists of synapses."""
    entry = entry_of(plan, partition)
    graded = any(population.rule.value for population in plan.populations)
    halved = entry.is_half and not (graded or plan.plastic or beside)
    return Wishes(halved, _are_certain(plan), _suits_mixing(plan, partition), lag)


def _are_certain(plan: Plan) -> bool:
    """Say whether 16 bits hold all that may arrive in a step, by sums of weights, or those of either sign."""
    sums: dict[tuple[str, str], Any] = {place: np.zeros(2) for place in plan.receptors()}
    for about, source in zip(plan.projections, plan.synapses.sources, strict=True):
        wiring = source.wiring if isinstance(source, Description) else None
        known = wiring is not None and wiring.kind == "in_degree"
        number = wiring.number if wiring is not None and known else np.inf  # synapses into a neuron, at most
        for sign, weight in enumerate((-about.weights[0], about.weights[1])):
            if about.entries and weight > 0:
                sums[about.target, about.receptor][sign] += number * weight
    return all(min(plan.loads.get(place, np.inf), both.max()) <= _MOST_LOAD for place, both in sums.items())


def _suits_mixing(plan: Plan, partition: Partition) -> bool:
    """Say whether threads take fewer turns if those that follow each other have neurons of different populations."""
    if partition.per <= MOST_THREADS or partition.threads or partition.pushed or plan.plastic:
        return False
    at_once = _AT_ONCE * MOST_THREADS
    apart = sum(-(-population.size // (partition.blocks * at_once)) for population in plan.populations)
    return len(plan.populations) <= _MOST_MIXED and apart > _MIXED_GAIN * -(-partition.per // at_once)


def sums_of(
    partition: Partition, kinds: Sequence[Kind], slots: int, left: int, wishes: Wishes, *, ring_in_block: bool
) -> Sums:
    """Share so many bytes out, which are left beside sums of 32 bits if those are there: states have room first."""
    known, table_words = _known(partition, kinds)
    table = 4 * -(-partition.per // 4)
    mixed = wishes.mixed and table + known <= left
    taken = table + known if mixed else 0
    words = 0 if partition.per <= MOST_THREADS or partition.threads else 4 * partition.per * words_of(kinds)
    draws = table * max(len(kind.drawn) for kind in kinds) if mixed else 0
    step, least = 4 * -(-partition.cells // 2), min(slots, max(_LEAST_NEAR, wishes.lag + _BEYOND_LAG))
    piles, near = _PILES if partition.cells >= _MANY_CELLS else 1, 0
    if partition.parts:  # late packets add nothing to sums in shared memory
        least = min(slots, _LEAST_NEAR)

    def fits(near: int, room: int) -> bool:
        lists = slots if partition.parts else piles * _spans(slots, near)
        return near * step + 4 * (lists + slots) <= room

    if wishes.halved and not ring_in_block and not partition.pushed:
        room = left - taken
        draws = draws if fits(least, room - words - draws) else 0
        near = next((k for k in range(slots, least, -1) if fits(k, room - words - draws)), least)
        near = near if fits(near, room - draws) else 0
    if not near:
        draws = draws if ring_in_block and left - taken - words >= draws else 0
    span, spans = _span(near), _spans(slots, near)
    pile_room = -(-((_LISTED * partition.cells) << span) // piles) if near else 0
    if near and partition.parts:  # rows are listed, of two words each
        span, spans, piles, pile_room = 0, slots, 1, 2 * _ROWS_DUE
    pile_room += -pile_room % 4
    taken += draws + (near * step + 4 * (piles * spans + slots) if near else 0)
    drawn, listed = draws // table, partition.here * spans * piles * pile_room
    more = (known, table_words) if mixed else ()
    return Sums(taken, near, pile_room, span, piles, near > 0 and wishes.certain, mixed, drawn, listed, *more)


def _span(near: int) -> int:
    """Return the logarithm of how many steps share a list, if sums of so many are near: whole spans are among them."""
    return min(_SPAN, (near - 1).bit_length() - 1) if near > 1 else 0


def _spans(slots: int, near: int) -> int:
    """Return how many spans of steps have lists: none if the sums of all steps are near."""
    return -(-slots >> _span(near)) if near < slots else 0


def _known(partition: Partition, kinds: Sequence[Kind]) -> tuple[int, int]:
    """Return how many bytes what neurons share takes, and tables of Poisson numbers; and words for those tables."""
    extents = extents_of(kinds)
    populations = len(partition.begins)
    words = common_dtype(extents).itemsize // 4 * populations
    table_words = TABLE_ROOM if extents.draws else 0
    of_tables = table_words + populations * extents.draws
    return 4 * (words + -words % 4 + of_tables + -of_tables % 4), table_words
