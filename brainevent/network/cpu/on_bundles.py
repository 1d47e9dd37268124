# SPDX-License-Identifier: Apache-2.0
"""Deliver what arrives in one step through a bundle: the spikes of earlier steps, each delay's from its own step."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba import inner, prefetch
from ...backends.numba.memory import array_at, word
from .layout import BUNDLE, LINE, STRETCHES
from .on_lists import count_of, spikes_of

__all__ = ["bundle_delivery"]

_FETCHED = 256  # entries of a stretch: of a longer one, the processor sees for itself that more follow


@inner(error_model="numpy")
def fetch(values, begin, end):  # type: ignore[no-untyped-def]
    """Ask for the entries of a stretch."""
    for entry in range(begin, min(end, begin + _FETCHED), 64 // values.itemsize):
        prefetch(values, entry)
    if begin < end <= begin + _FETCHED:
        prefetch(values, end - 1)


def stretch_adder(one_weight: bool) -> Any:
    """Return a function that adds stretches of entries to sums."""

    @inner(error_model="numpy", apart=True)
    def add(begin, end, places, weights, sums):  # type: ignore[no-untyped-def]
        weight = np.int32(weights[0])
        for entry in range(begin, end):
            if not one_weight:
                weight = np.int32(weights[entry])
            sums[np.int64(places[entry])] += weight

    @inner(error_model="numpy")
    def add_found(found, count, starts, places, weights, sums):  # type: ignore[no-untyped-def]
        for k in range(count):
            begin, end = starts[found[k]], starts[found[k] + 1]
            fetch(places, begin, end)
            if not one_weight:
                fetch(weights, begin, end)
        for k in range(count):
            add(starts[found[k]], starts[found[k] + 1], places, weights, sums)

    return add_found


def bundle_delivery(places: Any, weights: Any) -> Any:
    """Return `deliver(table, step, before)` for dtypes of entries; None for one weight for all, an int32.

    It delivers what spikes before a step send to `step`.
    """
    weight_type = weights or np.int32
    add_found = stretch_adder(weights is None)

    @numba.njit(error_model="numpy", nogil=True)
    def deliver(table, step, before):  # type: ignore[no-untyped-def]
        parts, part, many = word(table, BUNDLE.parts), word(table, BUNDLE.part), word(table, BUNDLE.many)
        stretches = word(table, BUNDLE.sources) * parts * many
        delays = array_at(word(table, BUNDLE.delays), many, np.int64)
        starts = array_at(word(table, BUNDLE.starts), stretches + 1, np.int64)
        places_ = array_at(word(table, BUNDLE.places), starts[stretches], places)
        weights_ = array_at(word(table, BUNDLE.weights), starts[stretches], weight_type)
        row = word(table, BUNDLE.row)
        sums = array_at(word(table, BUNDLE.ring) + 4 * row * (step & word(table, BUNDLE.mask)), row, np.int32)
        found = array_at(word(table, BUNDLE.found), STRETCHES, np.int64)
        count = np.int64(0)  # no literal: it would make another function of `add_found`
        for k in range(many):
            sent = step - delays[k]
            if sent >= before:
                continue
            for other in range(parts):
                line = word(table, BUNDLE.lists) + 8 * LINE * other
                spiked = count_of(line, sent)
                spikes = spikes_of(line, sent, spiked)
                for i in range(spiked):
                    stretch = (np.int64(spikes[i]) * parts + part) * many + k
                    prefetch(starts, stretch)
                    found[count] = stretch
                    count += 1
                    if count == STRETCHES:
                        add_found(found, count, starts, places_, weights_, sums)
                        count = np.int64(0)
        add_found(found, count, starts, places_, weights_, sums)
        return 0

    return deliver
