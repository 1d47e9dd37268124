# SPDX-License-Identifier: Apache-2.0
"""`Pairs`: which pairs of neurons a probability is computed for: all but those for which it is certainly 0.

Neurons are put into groups of which the attributes are near to each other, by halving again and again. For two groups
follow bounds of the probability; if it is 0 for all their pairs, none of these is looked at. This changes no result:
each pair has a random number of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.interval import bounds_of
from ...scalar.pair import TracedPair
from .mapped import inputs_of

__all__ = ["Pairs", "looked_at", "pairs_of"]

_LEAST = 32  # neurons of a group
_MOST = 2**19  # pairs of groups
_PIECE = 2**14  # pairs of groups whose bounds are computed together
_LARGEST = np.finfo(np.float32).max
_looked: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # by wiring, pairs
_ENOUGH = 5  # halvings after which groups are left as they are if no pair of them could be left out

Array = Any


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of sources and targets in runs.

    `order` are the numbers of targets, int32, group by group. Source i looks at those at the places `begins[k]` to
    `ends[k] - 1` for each run k from `starts[group[i]]` to `starts[group[i] + 1] - 1`. `pre` are attributes of sources,
    by number, and `post` of targets, in this order: float32 (attributes, neurons). `inputs` are both by number. No
    probability in run k is larger than `limits[k]`; 2 says that some of them may be none.
    """

    inputs: tuple[Array, Array]
    post: Array
    order: Array
    group: Array
    starts: Array
    begins: Array
    ends: Array
    limits: Array

    @property
    def pre(self) -> Array:
        """The attributes of sources, by number."""
        return self.inputs[0]

    def widths(self) -> Array:
        """Return how many targets each source looks at."""
        sizes = np.concatenate([[0], np.cumsum(self.ends.astype(np.int64) - self.begins)])
        return np.diff(sizes[self.starts])[self.group]


def pairs_of(wiring: Any, seed: int) -> Pairs:
    """Return the pairs of a `Wiring` for which its probability may not be 0."""
    pair = wiring.chance
    inputs = inputs_of(pair, wiring, seed)
    sources = _Halved(inputs[0])
    sides = [sources, sources if np.array_equal(*inputs) else _Halved(inputs[1])]
    many, most = _pairs_of_groups(pair, sides)
    targets = sides[1]
    group = np.empty(sources.size, np.int32)
    group[sources.order] = np.repeat(np.arange(sources.groups, dtype=np.int32), np.diff(sources.edges))
    order = np.lexsort((many[:, 1], many[:, 0]))
    many, most = many[order], most[order]
    first = np.ones(len(many), bool)
    first[1:] = (many[1:, 0] != many[:-1, 0]) | (many[1:, 1] != many[:-1, 1] + 1)
    runs, last = many[first], np.roll(first, -1)
    starts = np.zeros(sources.groups + 1, np.int64)
    np.cumsum(np.bincount(runs[:, 0], minlength=sources.groups), out=starts[1:])
    begins, ends = targets.edges[runs[:, 1]], targets.edges[many[last][:, 1] + 1]
    found = Pairs(
        inputs,
        np.ascontiguousarray(inputs[1][:, targets.order]),
        targets.order,
        group,
        starts,
        begins.astype(np.int32),
        ends.astype(np.int32),
        np.maximum.reduceat(most, np.flatnonzero(first)) if len(most) else most,
    )
    _looked[wiring] = int(found.widths().sum())
    return found


def looked_at(wirings: Iterable[Any]) -> dict[str, tuple[int, int]]:
    """Return for how many pairs a probability was computed, and how many there are, by name, where it is a function."""
    return {one.name: (_looked[one], one.shape[0] * one.shape[1]) for one in wirings if one in _looked}


class _Halved:
    """Neurons in groups, which are halved by the attribute that differs most within them."""

    def __init__(self, attributes: Array):
        self.attributes, self.size = attributes, attributes.shape[1]
        self.order = np.arange(self.size, dtype=np.int32)
        self.level = 0
        self._bounds: Any = None
        spread = np.ptp(attributes, axis=1) if len(attributes) else np.zeros(0)
        self.spread = np.where(spread > 0, spread, 1)[:, None]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return 1 << self.level

    @property
    def edges(self) -> Array:
        """Where groups begin and end in the order."""
        return np.int64(self.size) * np.arange(self.groups + 1) >> self.level

    def bounds(self) -> tuple[Array, Array]:
        """Return the smallest and the largest value of each attribute in each group: (attributes, groups)."""
        if self._bounds is None:
            ordered = self.attributes[:, self.order].astype(float)
            self._bounds = tuple(f.reduceat(ordered, self.edges[:-1], 1) for f in (np.minimum, np.maximum))
        return self._bounds

    def halve(self) -> bool:
        """Halve each group; say whether that was possible."""
        if not len(self.attributes) or self.size < 2 * _LEAST * self.groups:
            return False
        low, high = self.bounds()
        widest = ((high - low) / self.spread).argmax(0)
        # Groups as rows, of which some have one place that is empty; the smaller half of a group comes first.
        sizes = np.diff(self.edges)
        there = np.arange(sizes.max()) < sizes[:, None]
        values, numbers = np.full(there.shape, np.inf, np.float32), np.empty(there.shape, np.int32)
        values[there] = np.clip(self.attributes[np.repeat(widest, sizes), self.order], -_LARGEST, _LARGEST)
        numbers[there] = self.order
        places = np.argpartition(values, self.size >> (self.level + 1), axis=1)
        self.order = np.take_along_axis(numbers, places, 1)[np.take_along_axis(there, places, 1)]
        self.level, self._bounds = self.level + 1, None
        return True


def _pairs_of_groups(pair: TracedPair, sides: list[_Halved]) -> tuple[Array, Array]:
    """Return which groups have pairs that are looked at, int64 (pairs, 2), and their limits; halve the groups."""
    many = np.zeros((1, 2), np.int64)
    for level in range(64):
        low, high = _bounds(pair, [side.bounds() for side in sides], many)
        kept = (low != 0) | (high != 0)
        many = many[kept]
        # A limit of float32 at the bound or above it.
        most = np.where((low >= 0) & (high <= 1), high, 2).astype(np.float32)[kept] * np.float32(1 + 2**-20)
        every = len(many) == sides[0].groups * sides[1].groups
        if not len(many) or 4 * len(many) > _MOST or (level >= _ENOUGH and every):
            break
        halved = [sides[0].halve()]
        halved.append(halved[0] if sides[0] is sides[1] else sides[1].halve())
        if not any(halved):
            break
        for side, parted in enumerate(halved):
            if parted:
                many = np.concatenate([many * _twice(side), many * _twice(side) + _next(side)])
    return many, most


def _bounds(pair: TracedPair, ends: list[tuple[Array, Array]], many: Array) -> tuple[Array, Array]:
    """Return the bounds of a probability between groups, by pieces that a near cache holds.

    Threads would take longer: NumPy needs Python's lock between its loops.
    """
    lows, highs = np.empty(len(many)), np.empty(len(many))
    for first in range(0, len(many), _PIECE):
        own = many[first : first + _PIECE]
        low_ends, high_ends = ([*ends[0][which][:, own[:, 0]], *ends[1][which][:, own[:, 1]]] for which in (0, 1))
        ((lows[first : first + _PIECE], highs[first : first + _PIECE]),) = bounds_of(pair.form, low_ends, high_ends)
    return lows, highs


def _twice(side: int) -> Array:
    return np.array([2, 1] if side == 0 else [1, 2])


def _next(side: int) -> Array:
    return np.array([1, 0] if side == 0 else [0, 1])
