# SPDX-License-Identifier: Apache-2.0
"""Few synapses that are given, not drawn, with NumPy: in order, merged, and taken apart.

The loops that do this with many take seconds to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .distribution import Distribution
from .loop_arguments import Entries, Member, Merged
from .wiring import Wiring

__all__ = ["FEW", "merge", "put_in_order", "runs_of", "starts_of", "take", "takes", "write"]

FEW = 2**20  # synapses, for which NumPy takes some 0.1 s at most
Array = Any


def takes(wiring: Wiring) -> bool:
    """Say whether these synapses are few, and neither they nor their weights are drawn, nor delays but of a list."""
    if wiring.expected > FEW or isinstance(wiring.weights, Distribution):
        return False
    every = wiring.kind in ("all_to_all", "one_to_one") and not isinstance(wiring.steps, Distribution)
    return wiring.listed is not None or (every and not (wiring.skip and wiring.kind == "one_to_one"))


def put_in_order(wiring: Wiring, numbers: Array, delays: Array, entries: Entries) -> Array:
    """Write synapses by source, part, delay and target; return the sums of |weight| into each target, int64.

    `numbers` are weights in quanta and `delays` are steps: one, or one for each synapse. One weight counts as 1.
    """
    sources, targets = _ends(wiring)
    parts = entries.bounds.size
    rows = sources.astype(np.int64) * parts + np.searchsorted(entries.bounds[:-1], targets, "right")
    order = _order(rows, np.broadcast_to(delays, rows.shape), targets)
    entries.starts[:] = starts_of([rows], entries.starts.size)
    _fill(targets[order], entries.targets, entries.wide_targets)
    _fill(numbers[order] if numbers.size > 1 else numbers, entries.weights, entries.wide_weights)
    _fill(delays[order] if delays.size > 1 else delays, entries.delays, entries.wide_delays)
    weights = np.abs(numbers.astype(np.float64)) if numbers.size > 1 else None  # sums of so few are exact
    return np.bincount(targets, weights, minlength=wiring.shape[1]).astype(np.int64)


def _ends(wiring: Wiring) -> tuple[Array, Array]:
    """Return the sources and the targets of synapses."""
    if wiring.listed is not None:
        return wiring.listed.sources, wiring.listed.targets
    if wiring.kind == "one_to_one":
        everyone = np.arange(wiring.shape[0], dtype=np.int32)
        return everyone, everyone
    chosen = np.ones(wiring.shape, bool)
    if wiring.own is not None:
        chosen[wiring.own[:, None] == np.arange(wiring.shape[1])] = False
    elif wiring.skip:
        np.fill_diagonal(chosen, False)
    sources, targets = np.nonzero(chosen)
    return sources.astype(np.int32), targets.astype(np.int32)


def _order(*keys: Array) -> Any:
    """Return the order of entries by several keys, the first one first: equal ones stay as they are."""
    above = np.zeros(max(0, keys[0].size - 1), bool)
    for key in reversed(keys):
        above = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & above)
    return np.lexsort(keys[::-1]) if above.any() else slice(None)


def _fill(values: Array, narrow: Array, wide: Array) -> None:
    """Write values into whichever array there is."""
    for array in (narrow, wide):
        if array.size:
            array[:] = values


def starts_of(rows: Sequence[Array], size: int) -> Array:
    """Return where rows begin, int64 (size,), from the row of each entry."""
    starts = np.zeros(size, np.int64)
    np.cumsum(sum(np.bincount(one, minlength=size - 1) for one in rows), out=starts[1:])
    return starts


def _either(narrow: Array, wide: Array) -> Array:
    return narrow if narrow.size else wide


def _rows(starts: Array) -> Array:
    """Return the row of each entry."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def runs_of(member: Member, delays: int) -> Array:
    """Return which source, part and delay each entry has, as one number; `delays` is how many there are."""
    return _rows(member.starts) * delays + member.which[_either(member.delays, member.wide_delays)]


def merge(members: Sequence[Member], runs: Sequence[Array], merged: Merged) -> None:
    """Write the entries of all members by source, part and delay, and then member by member."""
    order, places, weights = _order(np.concatenate(runs)), [], []
    for member in members:
        targets = _either(member.targets, member.wide_targets)
        shifts = member.shifts[_rows(member.starts) % member.shifts.size]
        places.append(shifts + targets)
        weights.append(np.broadcast_to(_either(member.weights, member.wide_weights), targets.shape))
    _fill(np.concatenate(places)[order], merged.places, merged.wide_places)
    _fill(np.concatenate(weights)[order], merged.weights, merged.wide_weights)


def take(values: Array, merged: Merged, lows: Array, highs: Array, starts: Array) -> tuple[Array, Array]:
    """Count the entries of each source and part whose places are in a range; return which they are, and their delays.

    `values` are the delays of the merged rows.
    """
    parts, delays = lows.size, values.size
    runs, places = _rows(merged.starts), _either(merged.places, merged.wide_places)
    part = runs // delays % parts
    chosen = np.flatnonzero((places >= lows[part]) & (places < highs[part]))
    starts[:] = starts_of([runs[chosen] // delays], starts.size)
    return chosen, values[runs[chosen] % delays]


def write(chosen: Array, delays: Array, merged: Merged, member: Member) -> None:
    """Write chosen entries of merged rows as rows of a projection."""
    places = _either(merged.places, merged.wide_places)[chosen].astype(np.int64)
    shifts = member.shifts[_rows(member.starts) % member.shifts.size]
    _fill(places - shifts, member.targets, member.wide_targets)
    if member.weights.size or member.wide_weights.size:
        _fill(_either(merged.weights, merged.wide_weights)[chosen], member.weights, member.wide_weights)
    _fill(delays, member.delays, member.wide_delays)
