# SPDX-License-Identifier: Apache-2.0
"""`Pairs`: which pairs of neurons a probability is computed for: all but those for which it is certainly 0.

Neurons are put into groups of which the attributes are near to each other, by halving again and again. For two groups
follow bounds of the probability; if it is 0 for all their pairs, none of these is looked at. This changes no result:
each pair has a random number of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.interval import bounds_of
from ...scalar.pair import TracedPair
from .mapped import inputs_of
from .threads import even_edges, in_threads

__all__ = ["Pairs", "pairs_of"]

_LEAST = 32  # neurons of a group
_MOST = 2**19  # pairs of groups
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
    sides = [_Halved(one) for one in inputs]
    many, most = _pairs_of_groups(pair, sides)
    sources, targets = sides
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
    return Pairs(
        inputs,
        np.ascontiguousarray(inputs[1][:, targets.order]),
        targets.order,
        group,
        starts,
        begins.astype(np.int32),
        ends.astype(np.int32),
        np.maximum.reduceat(most, np.flatnonzero(first)) if len(most) else most,
    )


class _Halved:
    """Neurons in groups, which are halved by the attribute that differs most within them."""

    def __init__(self, attributes: Array):
        self.attributes, self.size = attributes, attributes.shape[1]
        self.order = np.arange(self.size, dtype=np.int32)
        self.level = 0
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
        ordered = self.attributes[:, self.order].astype(float)
        return np.minimum.reduceat(ordered, self.edges[:-1], 1), np.maximum.reduceat(ordered, self.edges[:-1], 1)

    def halve(self) -> bool:
        """Halve each group; say whether that was possible."""
        if not len(self.attributes) or self.size < 2 * _LEAST * self.groups:
            return False
        low, high = self.bounds()
        widest = ((high - low) / self.spread).argmax(0)
        for group, (begin, end) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            own = self.order[begin:end]
            self.order[begin:end] = own[np.argsort(self.attributes[widest[group], own], kind="stable")]
        self.level += 1
        return True


def _pairs_of_groups(pair: TracedPair, sides: list[_Halved]) -> tuple[Array, Array]:
    """Return which groups have pairs that are looked at, int64 (pairs, 2), and their limits; halve the groups."""
    many = np.zeros((1, 2), np.int64)
    for level in range(64):
        low, high = _bounds_in_threads(pair, [side.bounds() for side in sides], many)
        kept = (low != 0) | (high != 0)
        many = many[kept]
        # A limit of float32 at the bound or above it.
        most = np.where((low >= 0) & (high <= 1), high, 2).astype(np.float32)[kept] * np.float32(1 + 2**-20)
        every = len(many) == sides[0].groups * sides[1].groups
        if not len(many) or 4 * len(many) > _MOST or (level >= _ENOUGH and every):
            break
        halved = [side.halve() for side in sides]
        if not any(halved):
            break
        for side, parted in enumerate(halved):
            if parted:
                many = np.concatenate([many * _twice(side), many * _twice(side) + _next(side)])
    return many, most


def _bounds_in_threads(pair: TracedPair, ends: list[tuple[Array, Array]], many: Array) -> tuple[Array, Array]:
    """Return the bounds of a probability between groups."""

    def bounded(first: int, last: int) -> tuple[Array, Array]:
        own = many[first:last]
        lows, highs = ([*ends[0][which][:, own[:, 0]], *ends[1][which][:, own[:, 1]]] for which in (0, 1))
        ((low, high),) = bounds_of(pair.form, lows, highs)
        return np.broadcast_to(low, len(own)), np.broadcast_to(high, len(own))

    found = in_threads(bounded, even_edges(len(many), len(many)))
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


def _twice(side: int) -> Array:
    return np.array([2, 1] if side == 0 else [1, 2])


def _next(side: int) -> Array:
    return np.array([1, 0] if side == 0 else [0, 1])
