# SPDX-License-Identifier: Apache-2.0
"""Bundles: the synapses of several projections from one population, merged row by row and ordered by delay.

A step then reads one stretch of memory for each spike and delay, and adds it to sums that stay in a near cache: the
spikes wait, not what they send. That is worth it where such a stretch is long enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..pages import aligned
from .loops import count_runs, count_taken, merge_runs, take_runs
from .on_demand import SynapsesOnDemand
from .plan import PopulationPlan, SynapsePlan
from .projections import ProjectionPlan, projection_of
from .rows import Member, Merged
from .sums import SumPlaces, sum_places
from .threads import even_edges, in_threads

__all__ = ["Bundle", "BundledSynapses"]

_FEW_DELAYS = 4  # a bundle may always have
_LONG = 4  # entries of a stretch, on average, if it has more

_UNKNOWN = ProjectionPlan("", "", "", "", 0, (0, 0), 0, (0, 0), (True, True), ("", "", ""))

Array = Any


@dataclass(frozen=True, eq=False)
class Bundle:
    """Merged synapses of projections from one population.

    Source i has in part p the entries of its k-th delay from `starts[(i * parts + p) * len(delays) + k]` on. An entry
    is a place in the sums of the part, and a weight in quanta, or one for all.
    """

    source: str
    members: tuple[int, ...]
    delays: Array
    starts: Array
    places: Array
    weights: Array

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(int(array.nbytes) for array in (self.starts, self.places, self.weights))


class BundledSynapses(SynapsesOnDemand):
    """All synapses of a plan, bundled where that is worth it; one projection at a time as it was given.

    Attributes:
        projections: What is known of each projection.
        bundles: The bundles.
        held: The synapses that no bundle has, by their place in the sequence.
    """

    def __init__(self, populations: Sequence[PopulationPlan], parts: int, count: int):
        self.populations = {population.name: population for population in populations}
        self.parts = parts
        self.places: SumPlaces = sum_places(populations, parts)
        self.projections: list[ProjectionPlan] = [_UNKNOWN] * count
        self.bundles: list[Bundle] = []
        self.held: dict[int, SynapsePlan] = {}

    @classmethod
    def of(cls, populations: Sequence[PopulationPlan], parts: int, all_: Sequence[SynapsePlan]) -> BundledSynapses:
        """Bundle synapses that are there, if they are not yet."""
        if isinstance(all_, BundledSynapses):
            return all_
        by_source: dict[str, list[tuple[int, SynapsePlan]]] = defaultdict(list)
        for place, synapses in enumerate(all_):
            by_source[synapses.source].append((place, synapses))
        result = cls(populations, parts, len(all_))
        for group in by_source.values():
            result.add(group)
        return result

    def add(self, group: list[tuple[int, SynapsePlan]]) -> None:
        """Add all projections from one population, with their places in the sequence; empties the list."""
        for place, synapses in group:
            self.projections[place] = projection_of(synapses)
            if not synapses.targets.size:
                self.held[place] = synapses
        rest = [(place, synapses) for place, synapses in group if synapses.targets.size]
        group.clear()
        while rest:
            layer, rest = _without_doubles(rest)
            short = [one for one in layer if one[1].delays.size == 1]
            for some in (layer, short):
                if some and self._is_worth_it(some):
                    kept = {place for place, _ in some}
                    layer = [one for one in layer if one[0] not in kept]
                    self.bundles.append(self._merged(some))
                    break
            self.held.update(layer)

    @property
    def nbytes(self) -> int:
        """How much memory all synapses take."""
        return sum(bundle.nbytes for bundle in self.bundles) + sum(one.nbytes for one in self.held.values())

    def made(self, place: int) -> SynapsePlan:
        """Copy the synapses of a projection out of their bundle."""
        return self._taken(place, next(bundle for bundle in self.bundles if place in bundle.members))

    def replaced(self, synapses: Mapping[int, SynapsePlan]) -> BundledSynapses:
        """Return all with other synapses in some places; those from other populations are shared."""
        result = BundledSynapses(list(self.populations.values()), self.parts, len(self))
        result.projections, result.bundles, result.held = [*self.projections], [*self.bundles], {**self.held}
        result.replace(synapses)
        return result

    def replace(self, synapses: Mapping[int, SynapsePlan]) -> None:
        """Put other synapses, between the same populations, in some places."""
        for source in dict.fromkeys(one.source for one in synapses.values()):
            places = [k for k, one in enumerate(self.projections) if one.source == source]
            group = [(k, synapses[k] if k in synapses else self[k]) for k in places]
            self.bundles = [bundle for bundle in self.bundles if bundle.source != source]
            for k in places:
                self.held.pop(k, None)
            self.add(group)

    def _is_worth_it(self, group: list[tuple[int, SynapsePlan]]) -> bool:
        delays = _delays_of([synapses for _, synapses in group]).size
        stretches = self.populations[group[0][1].source].size * self.parts * delays
        entries = sum(synapses.targets.size for _, synapses in group)
        return delays <= _FEW_DELAYS or entries >= _LONG * stretches

    def _merged(self, group: list[tuple[int, SynapsePlan]]) -> Bundle:
        """Merge projections of different receptors; the list is emptied as it is read."""
        members, source = tuple(place for place, _ in group), group[0][1].source
        sources = self.populations[source].size
        delays = _delays_of([synapses for _, synapses in group])
        given = [self._member(synapses, delays) for _, synapses in group]
        number = sum(synapses.targets.size for _, synapses in group)
        edges = even_edges(sources, number)
        starts = aligned((sources * self.parts * delays.size + 1,), np.int64)
        for member in given:
            in_threads(_bound(count_runs, delays.size, member, starts[1:]), edges)
        np.cumsum(starts, out=starts)
        merged = _empty(starts, number, int(self.places.sizes.max()), [synapses.weights for _, synapses in group])
        cursors = starts[:-1].copy()
        for member in given:
            in_threads(_bound(merge_runs, delays.size, member, cursors, merged), edges)
        places = merged.places if merged.places.size else merged.wide_places
        weights = merged.weights if merged.weights.size else merged.wide_weights
        return Bundle(source, members, delays, starts, places, weights if weights.size else group[0][1].weights)

    def _member(self, synapses: SynapsePlan, delays: Array) -> Member:
        which = np.zeros(int(delays[-1]) + 1, np.int64)
        which[delays] = np.arange(delays.size)
        arrays = _pairs(synapses.targets, synapses.weights, synapses.delays)
        return Member(synapses.starts, *arrays, which, self.places.shifts(synapses.target, synapses.receptor))

    def _taken(self, place: int, bundle: Bundle) -> SynapsePlan:
        """Copy a projection out of a bundle."""
        about = self.projections[place]
        lows = self.places.first[about.target, about.receptor]
        highs = lows + np.diff(self.places.bounds[about.target])
        sources = self.populations[about.source].size
        merged = Merged(bundle.starts, *_pair(bundle.places, np.uint16, np.int32), *_weights(bundle.weights))
        starts = np.zeros(sources * self.parts + 1, np.int64)
        edges = even_edges(sources, bundle.places.size)
        in_threads(_bound(count_taken, bundle.delays.size, merged, lows, highs, starts[1:]), edges)
        np.cumsum(starts, out=starts)
        sizes = (about.entries, *(1 if same else about.entries for same in about.same))
        arrays = [aligned((size,), dtype) for size, dtype in zip(sizes, about.dtypes, strict=True)]
        arrays[1][:1], arrays[2][:1] = about.weights[0], about.delays[0]  # if they are the same for all
        own = [a[:0] if same else a for a, same in zip(arrays[1:], about.same, strict=True)]
        shifts = self.places.shifts(about.target, about.receptor)
        member = Member(starts, *_pairs(arrays[0], own[0], own[1]), np.zeros(0, np.int64), shifts)
        in_threads(_bound(take_runs, bundle.delays, merged, lows, highs, member), edges)
        ends = about.name, about.source, about.target, about.receptor
        return SynapsePlan(*ends, starts, arrays[0], arrays[1], arrays[2], about.rounding)


def _bound(function: Any, *arguments: Any) -> Any:
    """Return a function of the first and the last source."""
    return lambda first, last: function(first, last, *arguments)


def _without_doubles(group: list[tuple[int, SynapsePlan]]) -> tuple[list[Any], list[Any]]:
    """Part projections into those that are the first into their receptor, and the others."""
    seen: set[tuple[str, str]] = set()
    parted: tuple[list[Any], list[Any]] = ([], [])
    for place, synapses in group:
        end = synapses.target, synapses.receptor
        parted[end in seen].append((place, synapses))
        seen.add(end)
    return parted


def _delays_of(group: Sequence[SynapsePlan]) -> Array:
    """Return all delays that occur, in order."""
    found = np.zeros(2**16, bool)
    for synapses in group:
        found[synapses.delays] = True
    return np.flatnonzero(found)


def _empty(starts: Array, number: int, places: int, weights: Sequence[Array]) -> Merged:
    """Return merged rows to fill, of the smallest dtypes that hold all."""
    narrow = places <= 2**16
    one = all(array.size == 1 for array in weights) and len({int(array[0]) for array in weights}) == 1
    short = all(array.dtype == np.int16 or (array.size == 1 and abs(int(array[0])) < 2**15) for array in weights)
    own = aligned((0 if one else number,), np.int16 if short else np.int32)
    return Merged(
        starts,
        *_pair(aligned((number,), np.uint16 if narrow else np.int32), np.uint16, np.int32),
        *_pair(own, np.int16, np.int32),
    )


def _weights(weights: Array) -> tuple[Array, Array]:
    """Return the weights of a bundle as a pair, empty if they are the same for all."""
    return _pair(weights if weights.size > 1 else weights[:0], np.int16, np.int32)


def _pairs(targets: Array, weights: Array, delays: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return pairs of the arrays of a projection."""
    targets, wide_targets = _pair(targets, np.uint16, np.int32)
    weights, wide_weights = _pair(weights, np.int16, np.int32)
    return targets, wide_targets, weights, wide_weights, *_pair(delays, np.uint8, np.uint16)


def _pair(array: Array, narrow: Any, wide: Any) -> tuple[Array, Array]:
    """Return the array in the place of its dtype, and an empty one of the other."""
    return (array, np.zeros(0, wide)) if array.dtype == narrow else (np.zeros(0, narrow), array)
