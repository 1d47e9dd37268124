# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a projection, straight into the arrays of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...event.room import check_room
from ..pages import aligned
from .delays import LARGEST_DELAY, delay_dtype
from .distribution import Distribution
from .keys import key_words, words_of
from .loop_arguments import ALL, DISTINCT, GAPS, ONE, REPLACED, Entries, Recipe, scratch_for
from .loops import (
    count_drawn,
    count_ends,
    count_gaps,
    draw_rows,
    draw_words,
    place_listed,
    place_rows,
    sort_rows,
    values_of,
)
from .plan import Source, SynapsePlan, part_bounds
from .projections import ProjectionPlan, finer, projection_of
from .quantum import in_quanta, largest_rounding, weight_dtype
from .threads import even_edges, in_threads, row_edges
from .wiring import Wiring

__all__ = [
    "Description",
    "Measure",
    "Placed",
    "drawn_of",
    "drawn_on_host",
    "dtypes_of",
    "placed_synapses",
    "same_for_all",
]
__all__ += ["synapse_keys"]

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
    fewest = 2 * int(wiring.expected)  # bytes: of targets alone
    check_room(f"projection {wiring.name}", f"{wiring.expected:.3g} synapses", fewest, on_host=True)
    keys = synapse_keys(wiring, seed)
    drawn = drawn_of(wiring, quantum, keys)
    counts = _counts(wiring, drawn, keys[2])
    rows = np.zeros(wiring.shape[0] + 1, np.int64)
    np.cumsum(counts.sum(0), out=rows[1:])
    room = unfilled_for(wiring, quantum, int(rows[-1]), parts)
    by_source = wiring.kind not in ("in_degree", "listed")
    rounded = room.rounded + (0 if by_source else _place(wiring, drawn, rows, counts, room))

    def finished(first: int, last: int) -> tuple[Array, int]:
        loads = np.zeros(wiring.shape[1], np.int64)
        scratch = scratch_for(int(np.diff(rows[first : last + 1]).max(initial=1)), drawn.ends if by_source else 0)
        if by_source:
            return loads, draw_rows(first, last, drawn, rows, scratch, room.entries, loads)
        sort_rows(first, last, rows, scratch, room.entries, loads)
        return loads, 0

    done = in_threads(finished, row_edges(rows))
    loads = np.sum([loads for loads, _ in done], axis=0) * room.weight
    return _plan(wiring, room), loads, rounded + sum(off for _, off in done)


def _plan(wiring: Wiring, room: Unfilled) -> SynapsePlan:
    projection = wiring.projection
    ends = wiring.name, projection.source.name, projection.target.name, projection.into
    return SynapsePlan(*ends, room.starts, room.targets, room.weights, room.delays, room.rounding)


def synapse_keys(wiring: Wiring, seed: int) -> Array:
    """Return the keys of ends and weights, of delays, and of the sources of `total`: uint32 (3, 2)."""
    return key_words(seed, *(f"{what} of {wiring.name}" for what in ("targets", "delays", "sources")))


def drawn_of(wiring: Wiring, quantum: np.floating[Any] | None, keys: Array) -> Recipe:
    """Return how rows are drawn: those of targets for in_degree, else those of sources; without quantum as floats."""
    sources, targets = wiring.shape
    kinds = {"total": REPLACED, "prob": GAPS, "all_to_all": ALL, "one_to_one": ONE}
    kind = kinds.get(wiring.kind, REPLACED if wiring.replace else DISTINCT)
    p = wiring.number if kind == GAPS else 1
    largest = float(np.finfo(np.float32).max)
    scale = np.float32(min(-1 / math.log1p(-p), largest) if 0 < p < 1 else 0)
    weights = delays = np.zeros(0, np.float32)
    if isinstance(wiring.weights, Distribution) and quantum is None:
        weights = wiring.weights.numbers(-math.inf, math.inf)
    elif isinstance(wiring.weights, Distribution) and quantum is not None:
        most = 2**15 - 1 if weight_dtype(wiring, quantum) is np.int16 else _LARGEST_32
        weights = wiring.weights.scaled(1 / float(quantum)).numbers(-most, most)
    if isinstance(wiring.steps, Distribution):
        delays = wiring.steps.numbers(1, LARGEST_DELAY)
    ends = sources if wiring.kind == "in_degree" else targets
    return Recipe(kind, ends, int(wiring.skip), scale, keys[:2], weights, delays, int(quantum is None))


def _counts(wiring: Wiring, drawn: Recipe, key: Array) -> Array:
    """Return how many synapses each source has, int64 (1, sources); of in_degree, for each chunk that draws them."""
    (sources, targets), number = wiring.shape, wiring.number
    if wiring.listed is not None:
        return np.bincount(wiring.listed.sources, minlength=sources)[None]
    if wiring.kind == "total":
        return _drawn_counts(sources, int(number), key)[None]
    if wiring.kind == "in_degree":
        return _end_counts(wiring, drawn)
    if wiring.kind == "prob":
        counts = np.zeros((1, sources), np.int64)
        if number > 0:
            edges = even_edges(sources, sources * targets * number)
            in_threads(lambda first, last: count_gaps(first, last, drawn, scratch_for(0, 0), counts[0]), edges)
        return counts
    fixed = {"out_degree": number, "all_to_all": targets - wiring.skip, "one_to_one": 1}[wiring.kind]
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


def _end_counts(wiring: Wiring, drawn: Recipe) -> Array:
    """Draw the sources of each target; return how many synapses each source has, by the chunk of targets."""
    (sources, targets), number = wiring.shape, int(wiring.number)

    def counted(first: int, last: int) -> Array:
        counts = np.zeros(sources, np.int64)
        count_ends(first, last, drawn, number, scratch_for(number, drawn.ends), counts)
        return counts

    return np.array(in_threads(counted, even_edges(targets, targets * number)))


def _place(wiring: Wiring, drawn: Recipe, rows: Array, counts: Array, room: Unfilled) -> int:
    """Write synapses at their sources, in the order of targets or of the list; return how many weights were rounded."""
    places = rows[:-1] + np.cumsum(counts, axis=0) - counts
    if (found := wiring.listed) is not None:
        delays = _listed_delays(wiring, drawn)
        place_listed(found.sources, found.targets, room.numbers, delays, places[0], room.entries)
        return 0
    targets, number = wiring.shape[1], int(wiring.number)
    edges = even_edges(targets, targets * number)
    chunk = dict(zip(edges[:-1], places, strict=True))

    def placed(first: int, last: int) -> int:
        scratch = scratch_for(number, drawn.ends)
        return place_rows(first, last, drawn, number, chunk[first], scratch, room.entries)

    return sum(in_threads(placed, edges))


def _listed_delays(wiring: Wiring, drawn: Recipe) -> Array:
    """Return the delays of synapses in a list, int32 (1,) or (synapses,): synapse i takes word i, if they are drawn."""
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


def unfilled_for(wiring: Wiring, quantum: np.floating[Any] | None, number: int, parts: int) -> Unfilled:
    """Return the arrays for a number of synapses."""
    sources, targets = wiring.shape
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
    starts = aligned((sources * parts + 1,), np.int64)
    starts[-1] = number
    largest = 0 if one_delay else int(np.iinfo(dtypes[2]).max)
    bounds = part_bounds(targets, parts)[1:]
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
        Entries(starts, bounds, np.array([targets - 1, largest]), *pairs),
        numbers,
        rounded,
        abs(int(numbers[0])) if one_weight else 1,
        0.0 if quantum is None else largest_rounding(wiring.weights, quantum),
    )


def same_for_all(wiring: Wiring) -> tuple[bool, bool]:
    """Return whether weights, and delays, are the same for all synapses."""
    weights, steps = wiring.weights, wiring.steps
    return not isinstance(weights, Distribution) and weights.size == 1, not isinstance(steps, Distribution) and np.ndim(
        steps
    ) == 0


def dtypes_of(wiring: Wiring, quantum: np.floating[Any] | None) -> tuple[type, type, type]:
    """Return the smallest dtypes of targets, weights and delays."""
    targets = np.uint16 if wiring.shape[1] <= 2**16 else np.int32
    return targets, np.int32 if quantum is None else weight_dtype(wiring, quantum), delay_dtype(wiring.steps)


def _narrow_and_wide(array: Array, wide: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the array, in the place of its dtype, and an empty one of the other."""
    narrow = {"int32": np.int16, "uint16": np.uint8}[str(wide)]
    if array.dtype == wide:
        return np.empty(0, narrow), array
    return array, np.empty(0, wide)
