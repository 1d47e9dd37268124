# SPDX-License-Identifier: Apache-2.0
"""`Sums`: which of the pending input of a block lies in its shared memory, beside what small populations need there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.plan import Plan
from .kinds import Kind
from .partition import MOST_THREADS, Partition
from .rows import entry_of

__all__ = ["Sums", "Wishes", "sums_of", "wishes_of"]

_LEAST_NEAR, _BEYOND_LAG = 4, 3  # steps whose sums are in shared memory, at least; and beyond those of late packets
_MOST_LOAD, _MOST_BITS = 2**15 - 1, 16  # a sum of 16 bits; bits of a weight
_LISTED = 2  # synapses for each cell, that are listed for a later step
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

    Sums of the next `near` steps are there in 16 bits, if not all are there in 32; `far_room` synapses are listed for
    each later step. With `mixed` there is a table of the populations of neurons, and `drawn` words of each neuron for
    what is drawn for the next step. `words` is how many words of memory all lists of synapses take.
    """

    taken: int = 0
    near: int = 0
    far_room: int = 0
    certain: bool = False
    mixed: bool = False
    drawn: int = 0
    words: int = 0

    @property
    def structure(self) -> Mapping[str, Any]:
        """What of it is part of a `Structure`."""
        return {name: getattr(self, name) for name in ("near", "far_room", "certain", "mixed", "drawn")}


def wishes_of(plan: Plan, partition: Partition, lag: int, *, beside: bool) -> Wishes:
    """Return what a plan allows; `beside` other networks, there is no memory for lists of synapses."""
    entry = entry_of(plan, partition)
    graded = any(population.rule.value for population in plan.populations)
    halved = not (entry.wide or graded or plan.plastic or beside) and entry.weight_bits <= _MOST_BITS
    certain = all(plan.loads.get(place, _MOST_LOAD + 1) <= _MOST_LOAD for place in plan.receptors())
    return Wishes(halved, certain, _suits_mixing(plan, partition), lag)


def _suits_mixing(plan: Plan, partition: Partition) -> bool:
    """Say whether threads take fewer turns if those that follow each other have neurons of different populations."""
    if partition.per <= MOST_THREADS or partition.threads or partition.pushed or not partition.common or plan.plastic:
        return False
    at_once = _AT_ONCE * MOST_THREADS
    apart = sum(-(-population.size // (partition.blocks * at_once)) for population in plan.populations)
    return len(plan.populations) <= _MOST_MIXED and apart > _MIXED_GAIN * -(-partition.per // at_once)


def sums_of(
    partition: Partition, kinds: Sequence[Kind], slots: int, left: int, wishes: Wishes, *, ring_in_block: bool
) -> Sums:
    """Share so many bytes out, which are left beside sums of 32 bits if those are there: states have room first."""
    table = 4 * -(-partition.per // 4)
    mixed = wishes.mixed and table <= left
    taken = table if mixed else 0
    words = 0 if partition.per <= MOST_THREADS or partition.threads else 4 * partition.per * _most_states(kinds)
    draws = 4 * partition.per * max(len(kind.drawn) for kind in kinds) if mixed else 0
    step, counts, least = 4 * -(-partition.cells // 2), 8 * slots, max(_LEAST_NEAR, wishes.lag + _BEYOND_LAG)
    near = 0
    if wishes.halved and not ring_in_block and not partition.pushed:
        room = left - taken - counts
        draws = draws if room - words - min(slots, least) * step >= draws else 0
        near = min(slots, max(least, (room - words - draws) // step))
        near = near if near * step + draws <= room else 0
    if not near:
        draws = draws if ring_in_block and left - taken - words >= draws else 0
    far_room = _LISTED * partition.cells + -_LISTED * partition.cells % 4 if near else 0
    taken += draws + (counts + near * step if near else 0)
    drawn = draws // (4 * partition.per)
    listed = partition.here * slots * far_room
    return Sums(taken, near, far_room, near > 0 and wishes.certain, mixed, drawn, listed)


def _most_states(kinds: Sequence[Kind]) -> int:
    return max(len(kind.population.rule.states) for kind in kinds)
