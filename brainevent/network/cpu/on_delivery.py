# SPDX-License-Identifier: Apache-2.0
"""Deliver spikes to one part of a network: through a projection, or through a bundle of several.

A projection adds the spikes of one step to the sums of later ones. A bundle adds what arrives in one step: the spikes
of earlier steps, each delay's from its own step.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, prefetch, word
from .on_lists import count_of, spikes_of
from .tables import BUNDLE, DELIVERY, LINE, STRETCHES

__all__ = ["bundle_delivery", "delivery"]

_AHEAD, _ROWS_AHEAD = 16, 8  # spikes between asking where a row begins, asking for the row, and adding it
_FETCHED = 256  # entries


@inner(error_model="numpy")
def fetch(values, begin, end):  # type: ignore[no-untyped-def]
    """Ask for the entries of a row; of a long row, the processor sees for itself that more follow."""
    for entry in range(begin, min(end, begin + _FETCHED), 64 // values.itemsize):
        prefetch(values, entry)


@inner(error_model="numpy")
def fetch_stretch(values, begin, end):  # type: ignore[no-untyped-def]
    """Ask for the entries of a stretch of a bundle, the last one included."""
    fetch(values, begin, end)
    if begin < end <= begin + _FETCHED:
        prefetch(values, end - 1)


def row_adder(one_weight: bool, one_delay: bool) -> Any:
    """Return a function that adds the entries of one row to the ring."""

    @inner(error_model="numpy", apart=True)
    def add_row(begin, end, targets, weights, delays, ring, step, row, mask):  # type: ignore[no-untyped-def]
        weight, place = np.int32(weights[0]), ((step + np.int64(delays[0])) & mask) * row
        for entry in range(begin, end):
            if not one_weight:
                weight = np.int32(weights[entry])
            if not one_delay:
                place = ((step + np.int64(delays[entry])) & mask) * row
            ring[place + np.int64(targets[entry])] += weight

    return add_row


def row_fetcher(one_weight: bool, one_delay: bool) -> Any:
    """Return a function that asks for one row from memory."""

    @inner(error_model="numpy")
    def fetch_row(begin, end, targets, weights, delays):  # type: ignore[no-untyped-def]
        fetch(targets, begin, end)
        if not one_weight:
            fetch(weights, begin, end)
        if not one_delay:
            fetch(delays, begin, end)

    return fetch_row


def delivery(targets: Any, weights: Any, delays: Any) -> Any:
    """Return `deliver(table, step, _)` for dtypes of entries; None for what is the same for all: int32, uint16."""
    weight_type, delay_type = weights or np.int32, delays or np.uint16
    add_row, fetch_row = (make(weights is None, delays is None) for make in (row_adder, row_fetcher))

    @numba.njit(error_model="numpy", nogil=True)
    def deliver(table, step, _):  # type: ignore[no-untyped-def]
        parts, part = word(table, DELIVERY.parts), word(table, DELIVERY.part)
        mask, row = word(table, DELIVERY.mask), word(table, DELIVERY.row)
        last = word(table, DELIVERY.sources) * parts
        starts = array_at(word(table, DELIVERY.starts), last + 1, np.int64)
        targets_ = array_at(word(table, DELIVERY.targets), starts[last], targets)
        weights_ = array_at(word(table, DELIVERY.weights), starts[last], weight_type)
        delays_ = array_at(word(table, DELIVERY.delays), starts[last], delay_type)
        ring = array_at(word(table, DELIVERY.ring) + word(table, DELIVERY.shift), (mask + 1) * row, np.int32)
        for other in range(word(table, DELIVERY.listed)):
            line = word(table, DELIVERY.lists) + 8 * LINE * other
            count = count_of(line, step)
            spikes = spikes_of(line, step, count)
            for k in range(-_AHEAD if count else 0, count):  # what is needed at k is asked for some turns before
                if k + _AHEAD < count:
                    prefetch(starts, np.int64(spikes[k + _AHEAD]) * parts + part)
                if 0 <= k + _ROWS_AHEAD < count:
                    first = np.int64(spikes[k + _ROWS_AHEAD]) * parts + part
                    fetch_row(starts[first], starts[first + 1], targets_, weights_, delays_)
                if k >= 0:
                    first = np.int64(spikes[k]) * parts + part
                    add_row(starts[first], starts[first + 1], targets_, weights_, delays_, ring, step, row, mask)
        return 0

    return deliver


_FETCHED = 256  # entries of a stretch: of a longer one, the processor sees for itself that more follow


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
            fetch_stretch(places, begin, end)
            if not one_weight:
                fetch_stretch(weights, begin, end)
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
            for other in range(word(table, BUNDLE.listed)):
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
