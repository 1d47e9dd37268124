# SPDX-License-Identifier: Apache-2.0
"""Draw the synapses of a projection, straight into the arrays of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...event.room import check_room
from .delays import LARGEST_DELAY
from .keys import key_words, words_of
from .law import Law
from .layout import Layout, layout_of
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
from .plan import SynapsePlan
from .quantum import weight_dtype
from .rows import ALL, DISTINCT, GAPS, ONE, REPLACED, Drawn, scratch_for
from .threads import even_edges, in_threads, row_edges
from .wiring import Wiring

__all__ = ["Placed", "drawn_of", "placed_synapses", "synapse_keys"]

_LARGEST_32 = 2**30

Array = Any


@dataclass(frozen=True, eq=False)
class Placed:
    """Synapses of a plan, and what follows from them.

    `loads` are sums of |weight| into each target, in quanta; `rounded` is how many weights were rounded by more than
    2^-9 of their value.
    """

    synapses: SynapsePlan
    loads: Array
    rounded: int


def placed_synapses(wiring: Wiring, quantum: np.floating[Any], seed: int, parts: int) -> Placed:
    """Draw the synapses of a projection: the same, but for their order, for any number of parts."""
    fewest = 2 * int(wiring.expected)  # bytes: of targets alone
    check_room(f"projection {wiring.name}", f"{wiring.expected:.3g} synapses", fewest, on_host=True)
    keys = synapse_keys(wiring, seed)
    drawn = drawn_of(wiring, quantum, keys)
    counts = _counts(wiring, drawn, keys[2])
    rows = np.zeros(wiring.shape[0] + 1, np.int64)
    np.cumsum(counts.sum(0), out=rows[1:])
    layout = layout_of(wiring, quantum, int(rows[-1]), parts)
    rounded = layout.rounded
    by_source = wiring.kind not in ("in_degree", "listed")
    rounded = layout.rounded + (0 if by_source else _place(wiring, drawn, rows, counts, layout))

    def finished(first: int, last: int) -> tuple[Array, int]:
        loads = np.zeros(wiring.shape[1], np.int64)
        scratch = scratch_for(int(np.diff(rows[first : last + 1]).max(initial=1)), drawn.ends if by_source else 0)
        if by_source:
            return loads, draw_rows(first, last, drawn, rows, scratch, layout.entries, loads)
        sort_rows(first, last, rows, scratch, layout.entries, loads)
        return loads, 0

    done = in_threads(finished, row_edges(rows))
    loads = np.sum([loads for loads, _ in done], axis=0) * layout.weight
    return Placed(_plan(wiring, layout), loads, rounded + sum(off for _, off in done))


def _plan(wiring: Wiring, layout: Layout) -> SynapsePlan:
    projection = wiring.projection
    ends = wiring.name, projection.source.name, projection.target.name, projection.into
    return SynapsePlan(*ends, layout.starts, layout.targets, layout.weights, layout.delays, layout.rounding)


def synapse_keys(wiring: Wiring, seed: int) -> Array:
    """Return the keys of ends and weights, of delays, and of the sources of `total`: uint32 (3, 2)."""
    return key_words(seed, *(f"{what} of {wiring.name}" for what in ("targets", "delays", "sources")))


def drawn_of(wiring: Wiring, quantum: np.floating[Any], keys: Array) -> Drawn:
    """Return how rows are drawn: those of targets for in_degree, else those of sources."""
    sources, targets = wiring.shape
    kinds = {"total": REPLACED, "prob": GAPS, "all_to_all": ALL, "one_to_one": ONE}
    kind = kinds.get(wiring.kind, REPLACED if wiring.replace else DISTINCT)
    p = wiring.number if kind == GAPS else 1
    largest = float(np.finfo(np.float32).max)
    scale = np.float32(min(-1 / math.log1p(-p), largest) if 0 < p < 1 else 0)
    weights = delays = np.zeros(0, np.float32)
    if isinstance(wiring.weights, Law):
        most = 2**15 - 1 if weight_dtype(wiring, quantum) is np.int16 else _LARGEST_32
        weights = wiring.weights.scaled(1 / float(quantum)).numbers(-most, most)
    if isinstance(wiring.steps, Law):
        delays = wiring.steps.numbers(1, LARGEST_DELAY)
    ends = sources if wiring.kind == "in_degree" else targets
    return Drawn(kind, ends, int(wiring.skip), scale, keys[:2], weights, delays)


def _counts(wiring: Wiring, drawn: Drawn, key: Array) -> Array:
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


def _end_counts(wiring: Wiring, drawn: Drawn) -> Array:
    """Draw the sources of each target; return how many synapses each source has, by the chunk of targets."""
    (sources, targets), number = wiring.shape, int(wiring.number)

    def counted(first: int, last: int) -> Array:
        counts = np.zeros(sources, np.int64)
        count_ends(first, last, drawn, number, scratch_for(number, drawn.ends), counts)
        return counts

    return np.array(in_threads(counted, even_edges(targets, targets * number)))


def _place(wiring: Wiring, drawn: Drawn, rows: Array, counts: Array, layout: Layout) -> int:
    """Write synapses at their sources, in the order of targets or of the list; return how many weights were rounded."""
    places = rows[:-1] + np.cumsum(counts, axis=0) - counts
    if (found := wiring.listed) is not None:
        delays = _listed_delays(wiring, drawn)
        place_listed(found.sources, found.targets, layout.numbers, delays, places[0], layout.entries)
        return 0
    targets, number = wiring.shape[1], int(wiring.number)
    edges = even_edges(targets, targets * number)
    chunk = dict(zip(edges[:-1], places, strict=True))

    def placed(first: int, last: int) -> int:
        scratch = scratch_for(number, drawn.ends)
        return place_rows(first, last, drawn, number, chunk[first], scratch, layout.entries)

    return sum(in_threads(placed, edges))


def _listed_delays(wiring: Wiring, drawn: Drawn) -> Array:
    """Return the delays of synapses in a list, int32 (1,) or (synapses,): synapse i takes word i, if they are drawn."""
    if not isinstance(wiring.steps, Law):
        return np.asarray(wiring.steps).reshape(-1).astype(np.int32)
    number = int(wiring.number)
    words, more, values = np.empty(number, np.uint32), np.empty(number, np.uint32), np.empty(number, np.float32)
    draw_words(drawn.keys[1], 0, 0, number, words, more)
    values_of(drawn.delays, words, number, values)
    return np.rint(values).astype(np.int32)
