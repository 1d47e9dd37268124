# SPDX-License-Identifier: Apache-2.0
"""Numba loops that merge the rows of several projections, by delay, and take them apart again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .on_cpu_values import loop

__all__ = ["count_runs", "count_taken", "merge_runs", "take_runs"]


@loop
def count_runs(first: int, last: int, delays: int, member: Any, counts: Any) -> None:
    """Count the entries of some sources by part and delay; `delays` is how many there are."""
    parts, which, starts = member.shifts.size, member.which, member.starts
    short, long = member.delays, member.wide_delays
    for row in range(first * parts, last * parts):
        base = row * delays
        begin, end = starts[row], starts[row + 1]
        if short.size + long.size == 1:
            counts[base + which[short[0] if short.size else long[0]]] += end - begin
        elif short.size:
            for entry in range(begin, end):
                counts[base + which[short[entry]]] += 1
        else:
            for entry in range(begin, end):
                counts[base + which[long[entry]]] += 1


@loop
def merge_runs(first: int, last: int, delays: int, member: Any, cursors: Any, merged: Any) -> None:
    """Write the entries of some sources at the cursors of their part and delay."""
    parts, which = member.shifts.size, member.which
    short, long = member.delays, member.wide_delays
    one_delay, one_weight = short.size + long.size == 1, member.weights.size + member.wide_weights.size == 1
    k = which[short[0] if short.size else long[0]] if one_delay else 0
    for row in range(first * parts, last * parts):
        base, shift = row * delays, member.shifts[row % parts]
        for entry in range(member.starts[row], member.starts[row + 1]):
            if not one_delay:
                k = which[short[entry]] if short.size else which[long[entry]]
            at = cursors[base + k]
            cursors[base + k] = at + 1
            place = shift + (member.targets[entry] if member.targets.size else member.wide_targets[entry])
            which_weight = 0 if one_weight else entry
            weight = member.weights[which_weight] if member.weights.size else member.wide_weights[which_weight]
            if merged.places.size:
                merged.places[at] = place
            else:
                merged.wide_places[at] = place
            if merged.weights.size:
                merged.weights[at] = weight
            elif merged.wide_weights.size:
                merged.wide_weights[at] = weight


@loop
def count_taken(first: int, last: int, delays: int, merged: Any, lows: Any, highs: Any, counts: Any) -> None:
    """Count the entries of some sources and parts whose places are in a range, one for each part."""
    parts = lows.size
    for row in range(first * parts, last * parts):
        low, high, found = lows[row % parts], highs[row % parts], np.int64(0)
        for entry in range(merged.starts[row * delays], merged.starts[(row + 1) * delays]):
            place = np.int64(merged.places[entry] if merged.places.size else merged.wide_places[entry])
            found += np.int64((place >= low) & (place < high))
        counts[row] = found


@loop
def take_runs(first: int, last: int, values: Any, merged: Any, lows: Any, highs: Any, member: Any) -> None:
    """Write the entries of some sources and parts whose places are in a range as rows of a projection."""
    parts, delays = lows.size, values.size
    for row in range(first * parts, last * parts):
        low, high, shift, at = lows[row % parts], highs[row % parts], member.shifts[row % parts], member.starts[row]
        for k in range(delays):
            for entry in range(merged.starts[row * delays + k], merged.starts[row * delays + k + 1]):
                place = np.int64(merged.places[entry] if merged.places.size else merged.wide_places[entry])
                if place < low or place >= high:
                    continue
                if member.targets.size:
                    member.targets[at] = place - shift
                else:
                    member.wide_targets[at] = place - shift
                if member.weights.size:
                    member.weights[at] = merged.weights[entry] if merged.weights.size else merged.wide_weights[entry]
                elif member.wide_weights.size:
                    member.wide_weights[at] = (
                        merged.weights[entry] if merged.weights.size else merged.wide_weights[entry]
                    )
                if member.delays.size:
                    member.delays[at] = values[k]
                elif member.wide_delays.size:
                    member.wide_delays[at] = values[k]
                at += 1
