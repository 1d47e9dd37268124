# SPDX-License-Identifier: Apache-2.0
"""What native loops are given that draw, sort and merge synapses row by row.

A row is a neuron at one end of its synapses; `ends` are the neurons at the other end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ALL",
    "DISTINCT",
    "GAPS",
    "GROUPED",
    "ONE",
    "PAIRS",
    "REPLACED",
    "Entries",
    "Looked",
    "Member",
    "Merged",
    "Recipe",
    "Scratch",
    "Sight",
    "scratch_for",
]

REPLACED, DISTINCT, GAPS, ALL, ONE, PAIRS, GROUPED = range(7)  # how the ends of a row are drawn
_BLOCK = 64  # words that are drawn at a time where their number is not known


class Recipe(NamedTuple):
    """How the synapses of rows are drawn."""

    kind: int
    ends: int  # neurons at the other end
    skip: int  # 1 leaves a neuron's synapse to itself out
    own: Any  # int64 (rows,), the end that this is, `ends` for none; or (0,), the end of the row's number
    scale: Any  # of gaps, float32
    keys: Any  # uint32 (2, 2): of ends and weights, and of delays
    weights: Any  # float32 (6,), a law in quanta, or (0,)
    delays: Any  # likewise, in steps
    floats: int  # 1 if weights are no whole numbers but the bits of float32
    group: Any  # int32 (rows,), the row of the table that is that of a row, or (0,)
    table: Any  # int64 (groups of rows, groups of ends), how many ends are of each group
    order: Any  # int32, ends group by group
    begins: Any  # int64 (groups of ends + 1,), where they begin in the order


class Looked(NamedTuple):
    """Pairs of neurons that are looked at: as in `Pairs`, with the key of their random numbers."""

    key: Any  # uint32 (2,)
    skip: int  # 1 leaves a neuron's synapse to itself out
    pre: Any  # float32 (attributes, sources)
    post: Any  # float32 (attributes, targets)
    order: Any  # int32 (targets,)
    group: Any  # int32 (sources,)
    starts: Any  # int64
    begins: Any  # int32
    ends: Any  # int32
    limits: Any  # float32


class Sight(NamedTuple):
    """Room for the pairs that are looked at at a time."""

    units: Any  # float32
    marks: Any  # uint8
    places: Any  # int32


class Scratch(NamedTuple):
    """Room for one row; Python makes it, since what compiles slowest is what allocates arrays."""

    ends: Any
    weights: Any
    delays: Any
    words: Any
    more: Any
    floats: Any
    taken: Any  # bits of ends
    keys: Any  # uint64 (2, room), for sorting
    values: Any
    block: Any
    more_block: Any
    gaps: Any
    counters: Any
    more_counters: Any


def scratch_for(room: int, ends: int) -> Scratch:
    """Return room for rows of the given numbers of synapses, whose weights are 1 unless they are drawn."""
    return Scratch(
        np.zeros(room, np.int32),
        np.ones(room, np.int32),
        np.zeros(room, np.int32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.float32),
        np.zeros((ends >> 6) + 1, np.uint64),
        np.empty((2, room), np.uint64),
        np.empty((2, room), np.int32),
        np.empty(_BLOCK, np.uint32),
        np.empty(_BLOCK, np.uint32),
        np.empty(_BLOCK, np.int32),
        np.empty(256, np.int64),
        np.empty(2048, np.int64),
    )


class Entries(NamedTuple):
    """The arrays to fill: of each pair, one is empty, and both are where all entries have one value.

    They begin with the first entry of a row, and those that are before it are in no array.
    """

    row: int
    before: int
    starts: Any  # of rows and parts, int64
    bounds: Any  # where each part ends, int64 (parts,)
    largest: Any  # target and delay, int64 (2,)
    targets: Any  # uint16
    wide_targets: Any  # int32
    weights: Any  # int16
    wide_weights: Any  # int32
    delays: Any  # uint8
    wide_delays: Any  # uint16


class Merged(NamedTuple):
    """Merged rows: of each pair of arrays, one is empty; weights are empty where all have one value."""

    starts: Any  # of rows, parts and delays, int64
    places: Any  # in the sums of a part, uint16
    wide_places: Any  # int32
    weights: Any  # int16
    wide_weights: Any  # int32


class Member(NamedTuple):
    """The rows of one projection, likewise; `which` says which of the merged delays each delay is."""

    starts: Any  # of rows and parts, int64
    targets: Any  # uint16
    wide_targets: Any  # int32
    weights: Any  # int16, one or one each
    wide_weights: Any  # int32
    delays: Any  # uint8, one or one each
    wide_delays: Any  # uint16
    which: Any  # int64
    shifts: Any  # from a target to its place, by part, int64
