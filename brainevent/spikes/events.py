# SPDX-License-Identifier: Apache-2.0
"""Spikes as events, the step and the neuron of each: read from bits, or checked and put in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..event.structure import checked_count

__all__ = ["events_in_bits", "events_in_order"]

_AT_ONCE = 1 << 20  # bytes that hold spikes are unpacked in portions

Array = Any


def events_in_bits(bits: Any, first: int) -> tuple[Array, Array]:
    """Return the step and the neuron of each spike, by step, and by neuron within a step; the first row is `first`."""
    bits = np.asarray(bits)
    rows, places = np.nonzero(bits)
    found = []
    for start in range(0, rows.size, _AT_ONCE):
        row, place = rows[start : start + _AT_ONCE], places[start : start + _AT_ONCE]
        which, bit = np.nonzero(np.unpackbits(bits[row, place][:, None], axis=1, bitorder="little"))
        found.append((row[which] + first, place[which] * 8 + bit))
    if not found:
        return np.empty(0, int), np.empty(0, int)
    steps, neurons = (np.concatenate(part) for part in zip(*found, strict=True))
    return steps, neurons


def events_in_order(steps: Any, neurons: Any, size: int, *, first: int, n_steps: int) -> tuple[Array, Array]:
    """Return what `Spikes.from_events` was given, in the order of `events_in_bits`; raise where it does not fit."""
    where = "Spikes.from_events"
    size, first = _counted("size", size), _counted("first", first)
    n_steps = _counted("n_steps", n_steps)
    at, who = _integers("steps", steps), _integers("neurons", neurons)
    if at.shape != who.shape:
        raise ShapeError(f"{where}: {at.size} steps but {who.size} neurons; pass one of each for every spike")
    _check_range("step", at, first, first + n_steps)
    _check_range("neuron", who, 0, size)
    rising = (at[1:] > at[:-1]) | ((at[1:] == at[:-1]) & (who[1:] > who[:-1]))
    if not rising.all():
        order = np.lexsort((who, at))
        at, who = at[order], who[order]
        twice = np.flatnonzero((at[1:] == at[:-1]) & (who[1:] == who[:-1]))
        if twice.size:
            k = twice[0]
            raise ValueError(f"{where}: neuron {who[k]} spikes twice in step {at[k]}; pass each spike once")
    return at, who


def _counted(name: str, number: Any) -> int:
    count = checked_count("Spikes.from_events", name, number)
    if count < 0:
        raise ValueError(f"Spikes.from_events: {name} is {count}; pass at least 0")
    return count


def _integers(name: str, values: Any) -> Array:
    array = np.asarray(values)
    array = array if array.size else array.astype(np.int64)  # an empty list has no type
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"Spikes.from_events: {name} is an array of {array.dtype} of shape {array.shape}; "
            "pass a vector of integers, an element for each spike"
        )
    return array


def _check_range(name: str, values: Array, low: int, high: int) -> None:
    wrong = values[(values < low) | (values >= high)][:1]
    if wrong.size:
        raise ValueError(f"Spikes.from_events: {name} {wrong[0]} is out of range; pass {low} to {high - 1}")
