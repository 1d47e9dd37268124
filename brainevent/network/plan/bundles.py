# SPDX-License-Identifier: Apache-2.0
"""Bundles: the synapses of several projections from one population, merged row by row and ordered by delay.

A step then reads one stretch of memory for each spike and delay, and adds it to sums that stay in a near cache: the
spikes wait, not what they send. That is worth it where such a stretch is long enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..pages import aligned
from .in_numpy import FEW, merge, runs_of, starts_of, take, write
from .loop_arguments import Member, Merged
from .loops import count_runs, count_taken, merge_runs, take_runs
from .plan import IN_LINE, Plan, PopulationPlan, Source, SynapsePlan, Synapses, part_bounds
from .projections import ProjectionPlan, projection_of
from .threads import even_edges, in_threads

__all__ = ["Bundle", "Bundler", "SumPlaces", "bundled", "bundled_anyhow", "bundles_of", "sum_places"]

_FEW_DELAYS = 4  # a bundle may always have
_LONG = 4  # entries of a stretch, on average, if it has more
Array = Any
Owned = Mapping[str, tuple[int, int]]


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


@dataclass(frozen=True, eq=False)
class InBundle:
    """A projection whose synapses are in a bundle, of which it is the member of a number."""

    bundler: Bundler
    bundle: Bundle
    number: int

    @property
    def nbytes(self) -> int:
        """How much memory the bundle takes: all of it for the first member."""
        return 0 if self.number else self.bundle.nbytes

    def made(self, about: ProjectionPlan) -> SynapsePlan:
        """Copy the synapses out of the bundle."""
        return self.bundler.taken(self.bundle, about)


@dataclass(frozen=True, eq=False)
class Bundler:
    """Puts synapses into bundles where that is worth it. `sizes` are those of populations; `places` those of sums."""

    parts: int
    sizes: Mapping[str, int]
    places: SumPlaces

    def arranged(self, group: Mapping[int, SynapsePlan]) -> dict[int, Source]:
        """Return where all projections from one population are, by their places."""
        found: dict[int, Source] = {place: one for place, one in group.items() if not one.targets.size}
        rest = [(place, one) for place, one in group.items() if one.targets.size]
        while rest:
            layer, rest = _without_doubles(rest)
            short = [one for one in layer if one[1].delays.size == 1]
            found.update(layer)
            for some in (layer, short):
                if some and self._is_worth_it([one for _, one in some]):
                    bundle = self._merged(tuple(place for place, _ in some), [one for _, one in some])
                    found |= {place: InBundle(self, bundle, number) for number, place in enumerate(bundle.members)}
                    break
        return found

    def taken(self, bundle: Bundle, about: ProjectionPlan) -> SynapsePlan:
        """Copy a projection out of a bundle."""
        lows = self.places.first[about.target, about.receptor]
        highs = lows + np.diff(self.places.bounds[about.target])
        sources = self.sizes[about.source]
        merged = Merged(bundle.starts, *_pair(bundle.places, np.uint16, np.int32), *_weights(bundle.weights))
        starts = np.zeros(sources * self.parts + 1, np.int64)
        edges, few = even_edges(sources, bundle.places.size), bundle.places.size <= FEW
        if few:
            chosen, chosen_delays = take(bundle.delays, merged, lows, highs, starts)
        else:
            in_threads(_bound(count_taken, bundle.delays.size, merged, lows, highs, starts[1:]), edges)
            np.cumsum(starts, out=starts)
        sizes = (about.entries, *(1 if same else about.entries for same in about.same))
        arrays = [aligned((size,), dtype) for size, dtype in zip(sizes, about.dtypes, strict=True)]
        arrays[1][:1], arrays[2][:1] = about.weights[0], about.delays[0]  # if they are the same for all
        own = [a[:0] if same else a for a, same in zip(arrays[1:], about.same, strict=True)]
        shifts = self.places.shifts(about.target, about.receptor)
        member = Member(starts, *_pairs(arrays[0], own[0], own[1]), np.zeros(0, np.int64), shifts)
        if few:
            write(chosen, chosen_delays, merged, member)
        else:
            in_threads(_bound(take_runs, bundle.delays, merged, lows, highs, member), edges)
        ends = about.name, about.source, about.target, about.receptor
        return SynapsePlan(*ends, starts, arrays[0], arrays[1], arrays[2], about.rounding)

    def _is_worth_it(self, group: Sequence[SynapsePlan]) -> bool:
        delays = _delays_of(group).size
        stretches = self.sizes[group[0].source] * self.parts * delays
        return delays <= _FEW_DELAYS or sum(one.targets.size for one in group) >= _LONG * stretches

    def _merged(self, members: tuple[int, ...], group: Sequence[SynapsePlan]) -> Bundle:
        """Merge projections of different receptors."""
        source, delays = group[0].source, _delays_of(group)
        sources, number = self.sizes[source], sum(one.targets.size for one in group)
        given = [self._member(one, delays) for one in group]
        edges = even_edges(sources, number)
        starts = aligned((sources * self.parts * delays.size + 1,), np.int64)
        merged = _empty(starts, number, int(self.places.sizes.max()), [one.weights for one in group])
        if number <= FEW:
            runs = [runs_of(member, delays.size) for member in given]
            starts[:] = starts_of(runs, starts.size)
            merge(given, runs, merged)
        else:
            for member in given:
                in_threads(_bound(count_runs, delays.size, member, starts[1:]), edges)
            np.cumsum(starts, out=starts)
            cursors = starts[:-1].copy()
            for member in given:
                in_threads(_bound(merge_runs, delays.size, member, cursors, merged), edges)
        places = merged.places if merged.places.size else merged.wide_places
        weights = merged.weights if merged.weights.size else merged.wide_weights
        return Bundle(source, members, delays, starts, places, weights if weights.size else group[0].weights)

    def _member(self, synapses: SynapsePlan, delays: Array) -> Member:
        which = np.zeros(int(delays[-1]) + 1, np.int64)
        which[delays] = np.arange(delays.size)
        arrays = _pairs(synapses.targets, synapses.weights, synapses.delays)
        return Member(synapses.starts, *arrays, which, self.places.shifts(synapses.target, synapses.receptor))


def bundled(
    populations: Sequence[PopulationPlan],
    parts: int,
    groups: Iterable[Mapping[int, SynapsePlan]],
    owned: Owned = MappingProxyType({}),
) -> Synapses:
    """Return all synapses, bundled where that is worth it; each group has those from one population, by their places.

    A group is asked for when the one before is bundled, so that its own arrays are no longer needed. `owned` are those
    of `Plan`.
    """
    sizes = {population.name: population.size for population in populations}
    bundler = Bundler(parts, sizes, sum_places(populations, parts, owned))
    sources: dict[int, Source] = {}
    projections: dict[int, ProjectionPlan] = {}
    for group in groups:
        projections |= {place: projection_of(one) for place, one in group.items()}
        sources |= bundler.arranged(group)
        del group
    places = range(len(sources))
    return Synapses([projections[k] for k in places], [sources[k] for k in places], bundler.arranged)


def bundled_anyhow(plan: Plan) -> Synapses:
    """Return the synapses of a plan, bundled if they are not yet."""
    if plan.synapses.arrange is not None:
        return plan.synapses
    groups: dict[str, dict[int, SynapsePlan]] = defaultdict(dict)
    for place, synapses in enumerate(plan.synapses):
        groups[synapses.source][place] = synapses
    return bundled(plan.populations, plan.parts, groups.values(), plan.owned)


def bundles_of(synapses: Synapses) -> list[Bundle]:
    """Return the bundles of all synapses."""
    return [source.bundle for source in synapses.sources if isinstance(source, InBundle) and not source.number]


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


@dataclass(frozen=True, eq=False)
class SumPlaces:
    """Places of the sums of each part, one for each of its neurons and receptors.

    Attributes:
        first: By population and receptor, the place of the first neuron in each part: int64 (parts,).
        bounds: By population, where its parts begin and end: int64 (parts + 1,).
        sizes: How many places each part has: int64 (parts,).
    """

    first: dict[tuple[str, str], Array]
    bounds: dict[str, Array]
    sizes: Array

    def shifts(self, population: str, receptor: str) -> Array:
        """Return what to add to a neuron's number for its place, in each part."""
        return self.first[population, receptor] - self.bounds[population][:-1]


def sum_places(populations: Sequence[PopulationPlan], parts: int, owned: Owned = MappingProxyType({})) -> SumPlaces:
    """Return the places of sums: each receptor begins with a line of cache. `owned` are those of `Plan`."""
    first, sizes = {}, np.zeros(parts, np.int64)
    bounds = {p.name: part_bounds(p.size, parts, owned.get(p.name)) for p in populations}
    for population in populations:
        own = np.diff(bounds[population.name])
        for receptor in population.quanta:
            first[population.name, receptor] = sizes.copy()
            sizes += own + -own % IN_LINE
    return SumPlaces(first, bounds, sizes)
