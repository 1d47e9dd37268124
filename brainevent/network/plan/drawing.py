# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a projection, straight into the arrays of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...event.room import check_room
from ..pages import aligned
from .delays import LARGEST_DELAY, delay_dtype
from .distribution import Distribution
from .ends import whole_of
from .grouped import NO_GROUPS
from .in_numpy import put_in_order, takes
from .keys import key_words, words_of
from .loop_arguments import ALL, DISTINCT, GAPS, GROUPED, ONE, PAIRS, REPLACED, Entries, Recipe, scratch_for
from .loops import (
    count_drawn,
    count_ends,
    count_gaps,
    draw_pairs,
    draw_rows,
    draw_words,
    place_listed,
    place_rows,
    sort_rows,
    values_of,
)
from .mapped import Mapped
from .pair_drawing import Found, found_pairs, is_mapped, map_synapses, mapped_delays
from .plan import Source, SynapsePlan, part_bounds
from .projections import ProjectionPlan, finer, projection_of
from .quantum import in_quanta, largest_rounding, weight_dtype
from .threads import even_edges, in_threads, row_edges
from .wiring import Wiring

__all__ = [
    "Description",
    "Measure",
    "Placed",
    "counts_of",
    "draw_sources",
    "drawn_of",
    "drawn_on_host",
    "dtypes_of",
    "end_counts",
    "law_of",
    "place_at_sources",
    "placed_synapses",
    "same_for_all",
    "sort_sources",
    "synapse_keys",
    "unfilled_for",
]

_LARGEST_32 = 2**30
Array = Any


@dataclass(frozen=True, eq=False)
class Placed:
    """Synapses of a projection, and what follows from them.

    `loads` are sums of |weight| into each target, in quanta; `rounded` is how many weights were rounded by more than
    2^-9 of their value.
    """

    synapses: Source
    about: ProjectionPlan
    loads: Array
    rounded: int


@dataclass(frozen=True, eq=False)
class Description:
    """What determines the synapses of a projection, on whichever device they are drawn.

    Weights are drawn in quanta; `times` is how many quanta of the plan are one of these. Those of plastic synapses have
    no quantum: they are the bits of float32.
    """

    wiring: Wiring
    quantum: np.floating[Any] | None
    seed: int
    parts: int
    times: int = 1

    @property
    def nbytes(self) -> int:
        """How much memory they take on the host: none."""
        return 0

    def made(self, about: ProjectionPlan) -> SynapsePlan:
        """Draw the synapses on the host."""
        return finer(drawn_on_host(self), self.times)


class Measure(Protocol):
    """Draws the synapses of a description on a device, and returns what follows from them; None if it cannot."""

    def __call__(self, description: Description) -> Placed | None:
        """Measure the synapses of a description."""

    def plastic(self, wiring: Wiring, rules: Any, seed: int) -> Any:
        """Return the plan of a plastic projection whose synapses the device draws; None if it cannot."""

    def done(self) -> None:
        """Give back the memory that is kept from one description to the next."""


def drawn_on_host(of: Description) -> SynapsePlan:
    """Draw the synapses of a description, in its quanta."""
    return _placed(of.wiring, of.quantum, of.seed, of.parts)[0]


def placed_synapses(wiring: Wiring, quantum: np.floating[Any], seed: int, parts: int) -> Placed:
    """Draw the synapses of a projection: the same, but for their order, for any number of parts."""
    synapses, loads, rounded = _placed(wiring, quantum, seed, parts)
    return Placed(synapses, projection_of(synapses), loads, rounded)


def _placed(wiring: Wiring, quantum: np.floating[Any] | None, seed: int, parts: int) -> tuple[SynapsePlan, Array, int]:
    """Draw synapses; return them, sums of |weight| into each target, and how many weights were rounded by much."""
    if wiring.ends is None:
        return _placed_rows(wiring, quantum, seed, parts)
    found, loads, rounded = _placed_rows(wiring, quantum, seed, parts if wiring.ends.rising else 1)
    return whole_of(wiring.ends, found, parts), wiring.ends.loads(loads), rounded


def _placed_rows(
    wiring: Wiring, quantum: np.floating[Any] | None, seed: int, parts: int
) -> tuple[SynapsePlan, Array, int]:
    """Do the same with the numbers of the neurons between which synapses are drawn."""
    if wiring.chance is None:  # else their number is not known yet
        fewest = 2 * int(wiring.expected)  # bytes: of targets alone
        check_room(f"projection {wiring.name}", f"{wiring.expected:.3g} synapses", fewest, on_host=True)
    keys = synapse_keys(wiring, seed)
    drawn = drawn_of(wiring, quantum, keys)
    if quantum is not None and takes(wiring):
        room = unfilled_for(wiring, quantum, int(wiring.expected), parts)
        loads = put_in_order(wiring, room.numbers, _listed_delays(wiring, drawn, seed), room.entries)
        return _plan(wiring, room), loads * room.weight, room.rounded
    found = None if wiring.chance is None else found_pairs(wiring, seed, keys[0])
    counts = counts_of(wiring, drawn, keys[2]) if found is None else found.counts
    rows = np.zeros(wiring.shape[0] + 1, np.int64)
    np.cumsum(counts.sum(0), out=rows[1:])
    room = unfilled_for(wiring, quantum, int(rows[-1]), parts)
    loads, off = _filled(wiring, drawn, seed, rows, counts, found, room)
    if is_mapped(wiring) and wiring.listed is None:
        off += map_synapses(wiring, law_of(wiring, quantum), seed, rows, room)
        loads = sort_sources(wiring, rows, room)
    return _plan(wiring, room), loads * room.weight, room.rounded + off


def _filled(
    wiring: Wiring, drawn: Recipe, seed: int, rows: Array, counts: Array, found: Found | None, room: Unfilled
) -> tuple[Array, int]:
    """Write synapses, in order unless functions are yet to write values; return loads, and how many weights are off."""
    waits = is_mapped(wiring) and wiring.listed is None
    if wiring.kind in ("in_degree", "listed"):
        off = place_at_sources(wiring, drawn, seed, rows, counts, room)
        return (np.zeros(0, np.int64) if waits else sort_sources(wiring, rows, room)), off
    if found is None:
        return draw_sources(wiring, drawn, rows, row_edges(rows), room)

    def finished(first: int, last: int) -> tuple[Array, int]:
        loads = np.zeros(wiring.shape[1], np.int64)
        scratch = scratch_for(int(np.diff(rows[first : last + 1]).max(initial=1)), drawn.ends)
        own = found.pieces.pop(first)  # given back when its synapses are written
        return loads, draw_pairs(first, last, drawn, rows, own, int(not waits), scratch, room.entries, loads)

    done = in_threads(finished, found.edges)
    return np.sum([loads for loads, _ in done], axis=0), sum(off for _, off in done)


def draw_sources(wiring: Wiring, drawn: Recipe, rows: Array, edges: Sequence[int], room: Unfilled) -> tuple[Array, int]:
    """Draw sources from the first edge to the last one, in threads; return sums of |weight|, and how many are off."""

    def finished(first: int, last: int) -> tuple[Array, int]:
        loads = np.zeros(wiring.shape[1], np.int64)
        scratch = scratch_for(int(np.diff(rows[first : last + 1]).max(initial=1)), drawn.ends)
        return loads, draw_rows(first, last, drawn, rows, scratch, room.entries, loads)

    done = in_threads(finished, edges)
    return np.sum([loads for loads, _ in done], axis=0), sum(off for _, off in done)


def sort_sources(wiring: Wiring, rows: Array, room: Unfilled) -> Array:
    """Put the entries of all sources in order, which are there; return sums of |weight| into each target."""

    def finished(first: int, last: int) -> Array:
        loads = np.zeros(wiring.shape[1], np.int64)
        scratch = scratch_for(int(np.diff(rows[first : last + 1]).max(initial=1)), 0)
        sort_rows(first, last, rows, scratch, room.entries, loads)
        return loads

    return np.sum(in_threads(finished, row_edges(rows)), axis=0)


def _plan(wiring: Wiring, room: Unfilled) -> SynapsePlan:
    source, target = wiring.projection.populations
    ends = wiring.name, source.name, target.name, wiring.projection.into
    return SynapsePlan(*ends, room.starts, room.targets, room.weights, room.delays, room.rounding)


def synapse_keys(wiring: Wiring, seed: int) -> Array:
    """Return the keys of ends and weights, of delays, and of the sources of `total`: uint32 (3, 2)."""
    return key_words(seed, *(f"{what} of {wiring.name}" for what in ("targets", "delays", "sources")))


def drawn_of(wiring: Wiring, quantum: np.floating[Any] | None, keys: Array) -> Recipe:
    """Return how rows are drawn: those of targets for in_degree, else those of sources; without quantum as floats."""
    sources, targets = wiring.shape
    kinds = {"total": REPLACED, "prob": GAPS, "all_to_all": ALL, "one_to_one": ONE, "pairs": PAIRS}
    kind = kinds.get(wiring.kind, REPLACED if wiring.replace else DISTINCT)
    kind = kind if wiring.grouped is None else GROUPED
    p = wiring.number if kind == GAPS else 1
    largest = float(np.finfo(np.float32).max)
    scale = np.float32(min(-1 / math.log1p(-p), largest) if 0 < p < 1 else 0)
    weights = law_of(wiring, quantum)
    delays = np.zeros(0, np.float32)
    if isinstance(wiring.steps, Distribution):
        delays = wiring.steps.numbers(1, LARGEST_DELAY)
    # What functions give is written when the ends are there.
    weights, delays = (
        law[:0] if isinstance(of, Mapped) else law for law, of in ((weights, wiring.weights), (delays, wiring.steps))
    )
    ends = sources if wiring.kind == "in_degree" else targets
    own = np.zeros(0, np.int64) if wiring.own is None else wiring.own
    groups = NO_GROUPS if wiring.grouped is None else wiring.grouped.arrays
    return Recipe(kind, ends, int(wiring.skip), own, scale, keys[:2], weights, delays, int(quantum is None), *groups)


def law_of(wiring: Wiring, quantum: np.floating[Any] | None) -> Array:
    """Return the law of weights as numbers, in quanta or, without one, as floats; nothing if they have none."""
    if not isinstance(wiring.weights, Distribution):
        return np.zeros(0, np.float32)
    if quantum is None:
        return wiring.weights.numbers(-math.inf, math.inf)
    most = 2**15 - 1 if weight_dtype(wiring, quantum) is np.int16 else _LARGEST_32
    return wiring.weights.scaled(1 / float(quantum)).numbers(-most, most)


def counts_of(wiring: Wiring, drawn: Recipe, key: Array) -> Array:
    """Return how many synapses each source has, int64 (1, sources); of in_degree, for each chunk that draws them."""
    (sources, targets), number = wiring.shape, wiring.number
    if wiring.listed is not None:
        return np.bincount(wiring.listed.sources, minlength=sources)[None]
    if wiring.kind == "total":
        return _drawn_counts(sources, int(number), key)[None]
    if wiring.kind == "in_degree":
        return end_counts(wiring, drawn, 0, targets)
    if wiring.kind == "prob":
        counts = np.zeros((1, sources), np.int64)
        if number > 0:
            edges = even_edges(sources, sources * targets * number)
            in_threads(lambda first, last: count_gaps(first, last, drawn, scratch_for(0, 0), counts[0]), edges)
        return counts
    fixed = {"out_degree": number, "all_to_all": targets - wiring.skip, "one_to_one": 1}[wiring.kind]
    if wiring.own is not None and wiring.kind == "all_to_all":
        return targets - (wiring.own < targets)[None].astype(np.int64)
    return np.full((1, sources), fixed, np.int64)


def _drawn_counts(sources: int, number: int, key: Array) -> Array:
    """Draw the source of each synapse; return how many each has."""

    def counted(first: int, last: int) -> Array:
        counts = np.zeros(sources, np.int64)
        scratch = scratch_for(0, 0)
        count_drawn(first, last, sources, key, scratch.block, scratch.more_block, counts)
        return counts

    counts = np.sum(in_threads(counted, even_edges(number // 2, number)), axis=0)
    if number % 2:
        last = divmod(number // 2, 2**32)
        counts[words_of((int(key[0]), int(key[1])), last)[0] * sources >> 32] += 1
    return counts


def _edges_between(low: int, high: int, number: int) -> list[int]:
    """Return where chunks of the targets from `low` to before `high` begin and end, with synapses of this number."""
    return [low + edge for edge in even_edges(high - low, (high - low) * number)]


def end_counts(wiring: Wiring, drawn: Recipe, low: int, high: int) -> Array:
    """Draw the sources of some targets; return how many synapses each source has, by the chunk of targets."""
    sources, number = wiring.shape[0], int(wiring.number)

    def counted(first: int, last: int) -> Array:
        counts = np.zeros(sources, np.int64)
        count_ends(first, last, drawn, number, scratch_for(number, drawn.ends), counts)
        return counts

    return np.array(in_threads(counted, _edges_between(low, high, number)))


def place_at_sources(
    wiring: Wiring,
    drawn: Recipe,
    seed: int,
    rows: Array,
    counts: Array,
    room: Unfilled,
    owned: tuple[int, int] | None = None,
) -> int:
    """Write synapses at their sources, in the order of targets or of the list; return how many weights were rounded.

    Of targets that draw their sources, they may be those that are `owned`.
    """
    places = rows[:-1] + np.cumsum(counts, axis=0) - counts
    if (found := wiring.listed) is not None:
        delays = _listed_delays(wiring, drawn, seed)
        place_listed(found.sources, found.targets, room.numbers, delays, places[0], room.entries)
        return 0
    number = int(wiring.number)
    edges = _edges_between(*(owned or (0, wiring.shape[1])), number)
    chunk = dict(zip(edges[:-1], places, strict=True))

    def placed(first: int, last: int) -> int:
        scratch = scratch_for(number, drawn.ends)
        return place_rows(first, last, drawn, number, chunk[first], scratch, room.entries)

    return sum(in_threads(placed, edges))


def _listed_delays(wiring: Wiring, drawn: Recipe, seed: int) -> Array:
    """Return the delays of synapses in a list, int32 (1,) or (synapses,): synapse i takes word i, if they are drawn."""
    if isinstance(wiring.steps, Mapped):
        return mapped_delays(wiring, seed)
    if not isinstance(wiring.steps, Distribution):
        return np.asarray(wiring.steps).reshape(-1).astype(np.int32)
    number = int(wiring.number)
    words, more, values = np.empty(number, np.uint32), np.empty(number, np.uint32), np.empty(number, np.float32)
    draw_words(drawn.keys[1], 0, 0, number, words, more)
    values_of(drawn.delays, words, number, values)
    return np.rint(values).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Unfilled:
    """Arrays to fill, as a plan has them.

    `numbers` are the weights that are given, in quanta, int32 (1,) or (synapses,); nothing if they are drawn.
    `rounded` is how many of them differ by more than 2^-9 of themselves. `weight` is the |weight| that all synapses
    have; 1 if they have weights of their own. `rounding` is by how much a weight differs at most.
    """

    starts: Array
    targets: Array
    weights: Array
    delays: Array
    entries: Entries
    numbers: Array
    rounded: int
    weight: int
    rounding: float
    as_floats: bool  # weights are the bits of float32


def unfilled_for(
    wiring: Wiring,
    quantum: np.floating[Any] | None,
    number: int,
    parts: int | Array,
    rows: tuple[int, int] | None = None,
    before: int = 0,
) -> Unfilled:
    """Return the arrays for a number of synapses, in parts that are equal or end with these targets.

    They may be of some sources only, from the first of `rows` to before the second, and without the entries `before`.
    """
    targets = wiring.shape[1]
    first, last = rows or (0, wiring.shape[0])
    bounds: Array = parts
    if isinstance(parts, int):
        bounds = part_bounds(targets, parts)[1:] if wiring.ends is None else wiring.ends.bounds(parts)
    numbers, rounded = (np.zeros(0, np.int32), 0)
    if quantum is not None and not isinstance(wiring.weights, Distribution):
        numbers, rounded = in_quanta(wiring.weights, quantum)
    steps = wiring.steps
    one_weight, one_delay = same_for_all(wiring)
    dtypes = dtypes_of(wiring, quantum)
    sizes = [number, 0 if one_weight else number, 0 if one_delay else number]
    size = sum(np.dtype(dtype).itemsize * many for dtype, many in zip(dtypes, sizes, strict=True))
    check_room(f"projection {wiring.name}", f"{number} synapses", size, on_host=True)
    filled: list[Array] = [aligned((many,), dtype) for dtype, many in zip(dtypes, sizes, strict=True)]
    starts = aligned(((last - first) * bounds.size + 1,), np.int64)
    starts[-1] = number
    largest = 0 if one_delay else int(np.iinfo(dtypes[2]).max)
    pairs = (
        part
        for array, other in zip(filled, (np.int32, np.int32, np.uint16), strict=True)
        for part in _narrow_and_wide(array, np.dtype(other))
    )
    return Unfilled(
        starts,
        filled[0],
        numbers.astype(dtypes[1]) if one_weight else filled[1],
        np.array([steps], dtypes[2]) if one_delay else filled[2],
        Entries(first, before, starts, bounds, np.array([targets - 1, largest]), *pairs),
        numbers,
        rounded,
        abs(int(numbers[0])) if one_weight else 1,
        0.0 if quantum is None else largest_rounding(wiring.weights, quantum),
        quantum is None,
    )


def same_for_all(wiring: Wiring) -> tuple[bool, bool]:
    """Return whether weights, and delays, are the same for all synapses."""
    weights, steps = wiring.weights, wiring.steps
    return not isinstance(weights, Distribution) and weights.size == 1, not isinstance(steps, Distribution) and np.ndim(
        steps
    ) == 0


def dtypes_of(wiring: Wiring, quantum: np.floating[Any] | None) -> tuple[type, type, type]:
    """Return the smallest dtypes of targets, weights and delays."""
    targets = np.uint16 if wiring.whole_shape[1] <= 2**16 else np.int32
    return targets, np.int32 if quantum is None else weight_dtype(wiring, quantum), delay_dtype(wiring.steps)


def _narrow_and_wide(array: Array, wide: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the array, in the place of its dtype, and an empty one of the other."""
    narrow = {"int32": np.int16, "uint16": np.uint8}[str(wide)]
    if array.dtype == wide:
        return np.empty(0, narrow), array
    return array, np.empty(0, wide)
