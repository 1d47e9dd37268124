# SPDX-License-Identifier: Apache-2.0
"""`Sharing`: draw all synapses of a network, and keep those that end on neurons that a process owns.

Synapses are drawn some at a time, so that those of others take no memory for long. What is known of a projection is
that of all its synapses, in every process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .distribution import Distribution
from .drawing import (
    Description,
    Placed,
    counts_of,
    draw_sources,
    drawn_of,
    end_counts,
    place_at_sources,
    sort_sources,
    synapse_keys,
    unfilled_for,
)
from .in_numpy import takes
from .loop_arguments import Recipe
from .pair_drawing import is_mapped
from .plan import Plan, SynapsePlan, Synapses, part_bounds
from .projections import ProjectionPlan, finer, projection_of
from .threads import row_edges
from .wiring import Wiring

__all__ = ["OwnedDescription", "Sharing", "own_plan"]

_AT_ONCE = 2**24  # synapses that are drawn before those of other processes are dropped

Array = Any


@dataclass(frozen=True, eq=False)
class OwnedDescription(Description):
    """A description, with those of its synapses that a process owns: in parts, and in the quanta of the description."""

    own: SynapsePlan | None = None

    @property
    def nbytes(self) -> int:
        """How much memory those take."""
        return 0 if self.own is None else self.own.nbytes


class Sharing:
    """A `Measure` that draws synapses on the host, for a process that owns some neurons of each population.

    Args:
        owned: The neurons by population, from the first number to before the second.
        parts: Into how many parts they are divided.
    """

    def __init__(self, owned: Mapping[str, tuple[int, int]], parts: int):
        self.owned, self.parts = owned, parts

    def __call__(self, description: Description) -> Placed | None:
        """Draw synapses; return None for those that `own_plan` takes from the whole.

        These are synapses that users list, or could, those between parts of populations, and those that a function of
        both neurons decides.
        """
        wiring = description.wiring
        of_pairs = wiring.chance is not None or is_mapped(wiring)
        if takes(wiring) or wiring.listed is not None or wiring.ends is not None or of_pairs:
            return None
        name, size = wiring.projection.populations[1].name, wiring.shape[1]
        owned = self.owned[name]
        drawing = _Drawing(description, owned, part_bounds(size, self.parts, owned))
        drawing.draw()
        fields = {field.name: getattr(description, field.name) for field in dataclasses.fields(Description)}
        kept = OwnedDescription(**fields, own=drawing.own)
        return Placed(kept, drawing.about, drawing.loads, drawing.rounded)

    def plastic(self, wiring: Wiring, rules: Any, seed: int) -> None:
        """Return None: plastic synapses need one process."""

    def done(self) -> None:
        """Nothing is kept from one description to the next."""


def own_plan(plan: Plan, sharing: Sharing) -> Plan:
    """Return the plan of the neurons that a process owns and the synapses that end there."""
    synapses = []
    for source, about in zip(plan.synapses.sources, plan.projections, strict=True):
        if isinstance(source, OwnedDescription):
            assert source.own is not None
            synapses.append(finer(source.own, source.times))
        else:
            whole = source if isinstance(source, SynapsePlan) else source.made(about)
            owned = sharing.owned[whole.target]
            bounds = part_bounds(plan.population(whole.target).size, sharing.parts, owned)
            synapses.append(_taken(whole, plan.population(whole.source).size, bounds))
    own = Synapses(plan.projections, synapses)
    return dataclasses.replace(plan, parts=sharing.parts, synapses=own, owned=sharing.owned)


def _taken(whole: SynapsePlan, sources: int, bounds: Array) -> SynapsePlan:
    """Take the synapses that end in parts, given where these begin and end, out of those of a plan in one part."""
    row = np.repeat(np.arange(sources), np.diff(whole.starts))
    chosen = np.flatnonzero((whole.targets >= bounds[0]) & (whole.targets < bounds[-1]))
    parts = bounds.size - 1
    row = row[chosen] * parts + np.searchsorted(bounds[1:-1], whole.targets[chosen], "right")
    order = chosen[row.argsort(kind="stable")]
    starts = np.zeros(sources * parts + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=sources * parts), out=starts[1:])
    each = (array if array.size == 1 else array[order] for array in (whole.weights, whole.delays))
    weights, delays = each
    return dataclasses.replace(whole, starts=starts, targets=whole.targets[order], weights=weights, delays=delays)


class _Drawing:
    """The drawing of one projection: what is known of all synapses, and those that are owned.

    Attributes:
        own: Synapses that end on neurons that are owned, in parts.
        about: What is known of all of them.
        loads: Sums of |weight| into each target.
        rounded: How many weights were rounded by much.
    """

    own: SynapsePlan
    about: ProjectionPlan

    def __init__(self, description: Description, owned: tuple[int, int], bounds: Array):
        self.of, self.wiring, self.owned, self.bounds = description, description.wiring, owned, bounds
        self.keys = synapse_keys(self.wiring, description.seed)
        self.drawn: Recipe = drawn_of(self.wiring, description.quantum, self.keys)
        self.loads = np.zeros(self.wiring.shape[1], np.int64)
        self.rounded = 0
        self._given = 0  # of weights that are not drawn, which are those of each piece
        self._all: list[ProjectionPlan] = []

    def draw(self) -> None:
        """Draw all synapses, and keep the own ones."""
        if self.wiring.kind == "in_degree":
            self._draw_targets()
        else:
            self._draw_sources()
        self.about = _together(self._all)
        self.rounded += self._given

    def _named(self, starts: Array, room: Any) -> SynapsePlan:
        source, target = self.wiring.projection.populations
        ends = self.wiring.name, source.name, target.name, self.wiring.projection.into
        return SynapsePlan(*ends, starts, room.targets, room.weights, room.delays, room.rounding)

    def _draw_targets(self) -> None:
        """Draw the sources of targets: own ones at once, others some at a time."""
        targets, number = self.wiring.shape[1], max(1, int(self.wiring.number))
        low, high = self.owned
        at_once = max(1, _AT_ONCE // number)
        others = [(first, min(first + at_once, end)) for begin, end in ((0, low), (high, targets))
                  for first in range(begin, end, at_once)]  # fmt: skip
        for first, last in others:
            rows, room = self._at_sources(first, last)
            sizes = np.abs(room.weights.astype(np.float64)) if room.weights.size > 1 else None
            self.loads += np.bincount(room.targets, sizes, targets).astype(np.int64) * room.weight
            self._all.append(projection_of(self._named(rows, room)))
        rows, room = self._at_sources(low, high)
        self.loads += sort_sources(self.wiring, rows, room) * room.weight
        self.own = self._named(room.starts, room)
        self._all.append(projection_of(self.own))

    def _at_sources(self, low: int, high: int) -> tuple[Array, Any]:
        """Draw the sources of some targets; return where the entries of each source begin, and all entries."""
        counts = end_counts(self.wiring, self.drawn, low, high)
        rows = _starts(counts.sum(0))
        room = unfilled_for(self.wiring, self.of.quantum, int(rows[-1]), self.bounds[1:])
        self._given = room.rounded
        self.rounded += place_at_sources(self.wiring, self.drawn, self.of.seed, rows, counts, room, (low, high))
        return rows, room

    def _draw_sources(self) -> None:
        """Draw the targets of sources, some sources at a time, and drop targets that others own."""
        counts = counts_of(self.wiring, self.drawn, self.keys[2])[0]
        rows = _starts(counts)
        last_target = self.wiring.shape[1]
        ends = np.append(self.bounds, last_target)  # of a part before the own ones, of these, and of one after them
        kept: list[Any] = []
        numbers = list[Array]()
        for first, last in _chunks(rows):
            number = int(rows[last] - rows[first])
            room = unfilled_for(self.wiring, self.of.quantum, number, ends, (first, last), int(rows[first]))
            own_rows = rows[first : last + 1] - rows[first]
            edges = [first + edge for edge in row_edges(own_rows)]
            loads, off = draw_sources(self.wiring, self.drawn, rows, edges, room)
            self.loads += loads * room.weight
            self._given = room.rounded
            self.rounded += off
            self._all.append(projection_of(self._named(room.starts, room)))
            chosen, sizes = _within(room.starts, ends.size)
            numbers.append(sizes)
            kept.append(
                [room.targets[chosen], *(a if a.size == 1 and same else a[chosen] for a, same in self._others(room))]
            )
        self._join(room, kept, numbers)

    def _others(self, room: Any) -> Sequence[tuple[Array, bool]]:
        """Return weights and delays, and whether they are the same for all."""
        one_weight = not isinstance(self.wiring.weights, Distribution) and self.wiring.weights.size == 1
        one_delay = not isinstance(self.wiring.steps, Distribution) and np.ndim(self.wiring.steps) == 0
        return (room.weights, one_weight), (room.delays, one_delay)

    def _join(self, room: Any, kept: list[Any], numbers: list[Array]) -> None:
        """Make the own synapses of those of all chunks."""
        (_, one_weight), (_, one_delay) = self._others(room)
        targets, weights, delays = zip(*kept, strict=True)
        joined = [np.concatenate(targets)]
        joined += [
            some[0] if same else np.concatenate(some) for some, same in ((weights, one_weight), (delays, one_delay))
        ]
        about = self._named(_starts(np.concatenate(numbers)), room)
        self.own = dataclasses.replace(about, targets=joined[0], weights=joined[1], delays=joined[2])


def _starts(counts: Array) -> Array:
    """Return where rows of these sizes begin, and where the last one ends: int64."""
    starts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _chunks(rows: Array) -> list[tuple[int, int]]:
    """Return the first and the last row, not included, of chunks of about `_AT_ONCE` synapses: at least one chunk."""
    marks = np.arange(_AT_ONCE, int(rows[-1]), _AT_ONCE)
    edges = [0, *np.unique(np.searchsorted(rows, marks).clip(1, rows.size - 2)).tolist(), rows.size - 1]
    return [(first, last) for first, last in pairwise(edges) if last > first]


def _within(starts: Array, parts: int) -> tuple[Array, Array]:
    """Return which entries are neither in the first nor in the last part of their row, and the sizes of those parts."""
    sizes = np.diff(starts).reshape(-1, parts)
    chosen = np.zeros(sizes.shape, bool)
    chosen[:, 1:-1] = True
    return np.flatnonzero(np.repeat(chosen.reshape(-1), sizes.reshape(-1))), sizes[:, 1:-1].reshape(-1)


def _together(all_: Sequence[ProjectionPlan]) -> ProjectionPlan:
    """Return what is known of a projection from what is known of its pieces."""
    some = [one for one in all_ if one.entries] or list(all_[:1])
    return dataclasses.replace(
        some[0],
        entries=sum(one.entries for one in some),
        weights=(min(one.weights[0] for one in some), max(one.weights[1] for one in some)),
        least=min((one.least for one in some if one.least), default=0),
        delays=(min(one.delays[0] for one in some), max(one.delays[1] for one in some)),
    )
