# SPDX-License-Identifier: Apache-2.0
"""Numba loops that find synapses of a plan by their targets, and put those of several parts in one order."""

from __future__ import annotations

from typing import Any

from .on_cpu_values import loop

__all__ = ["count_ends_at", "index_targets", "merge_parts"]


@loop
def count_ends_at(targets: Any, which: Any, rows: int, counts: Any) -> None:
    """Count the synapses of each target, or of each target and place of a delay, if these are there."""
    for entry in range(targets.size):
        place = targets[entry] * rows
        if which.size:
            place += which[entry]
        counts[place] += 1


@loop
def index_targets(targets: Any, which: Any, rows: int, places: Any, entries: Any) -> None:
    """Write the numbers of synapses, in order, from the first place of each target on; or of each target and delay."""
    for entry in range(targets.size):
        place = targets[entry] * rows
        if which.size:
            place += which[entry]
        at = places[place]
        places[place] = at + 1
        entries[at] = entry


@loop
def merge_parts(starts: Any, parts: int, targets: Any, delays: Any, cursors: Any, order: Any) -> None:
    """Write the numbers of synapses by source, delay and target; within a part they are in this order."""
    to = 0
    for row in range((starts.size - 1) // parts):
        for part in range(parts):
            cursors[part] = starts[row * parts + part]
        end = starts[(row + 1) * parts]
        while to < end:
            best, soonest, lowest = -1, 0, 0
            for part in range(parts):
                at = cursors[part]
                if at == starts[row * parts + part + 1]:
                    continue
                delay = delays[at] if delays.size > 1 else 0
                target = targets[at]
                if best < 0 or delay < soonest or (delay == soonest and target < lowest):
                    best, soonest, lowest = part, delay, target
            order[to] = cursors[best]
            cursors[best] += 1
            to += 1
