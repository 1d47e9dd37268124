# SPDX-License-Identifier: Apache-2.0
"""Deliver graded spikes to one part of a network: each synapse adds its weight times the value of the spike.

The functions are those of `on_delivery.py` for spikes without values. A product is that of floats, rounded to a whole
number of quanta.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, prefetch, word
from .on_delivery import fetch_stretch
from .on_lists import count_of, spikes_of, values_of
from .tables import BUNDLE, DELIVERY, LINE

__all__ = ["graded_bundle_delivery", "graded_delivery"]

_AHEAD, _ROWS_AHEAD = 16, 8  # spikes between asking where entries begin, asking for the entries, and adding them


def entries_adder(one_weight: bool, one_delay: bool, kind: Any) -> Any:
    """Return a function that adds entries, times a value, to a ring, a slot of which has `row` sums."""

    @inner(error_model="numpy", apart=True)
    def add(begin, end, places, weights, delays, value, ring, step, row, mask):  # type: ignore[no-untyped-def]
        weight, slot = kind(weights[0]), ((step + np.int64(delays[0])) & mask) * row
        for entry in range(begin, end):
            if not one_weight:
                weight = kind(weights[entry])
            if not one_delay:
                slot = ((step + np.int64(delays[entry])) & mask) * row
            ring[slot + np.int64(places[entry])] += np.int32(np.rint(weight * value))

    return add


def spikes_adder(add: Any, kind: Any) -> Any:
    """Return a function that adds what the spikes of one part and step send: entries `starts[first * stride + shift]`.

    `starts` has the first entry of each stretch.
    """
    values_at = values_of(kind)

    @inner(error_model="numpy")
    def add_all(line, sent, stride, shift, starts, places, weights, delays, ring, step, row, mask):  # type: ignore[no-untyped-def]
        count = count_of(line, sent)
        spikes, values = spikes_of(line, sent, count), values_at(line, sent, count)
        for k in range(-_AHEAD if count else 0, count):
            if k + _AHEAD < count:
                prefetch(starts, np.int64(spikes[k + _AHEAD]) * stride + shift)
            if 0 <= k + _ROWS_AHEAD < count:
                first = np.int64(spikes[k + _ROWS_AHEAD]) * stride + shift
                fetch_stretch(places, starts[first], starts[first + 1])
                fetch_stretch(weights, min(starts[first], weights.size), min(starts[first + 1], weights.size))
            if k >= 0:
                first = np.int64(spikes[k]) * stride + shift
                add(starts[first], starts[first + 1], places, weights, delays, values[k], ring, step, row, mask)

    return add_all


def graded_delivery(targets: Any, weights: Any, delays: Any, kind: Any) -> Any:
    """Return `deliver(table, step, _)` for dtypes of entries, as `delivery` does; `kind` is that of values."""
    weight_type, delay_type = weights or np.int32, delays or np.uint16
    one_weight, one_delay = weights is None, delays is None
    add_all = spikes_adder(entries_adder(one_weight, one_delay, kind), kind)

    @numba.njit(error_model="numpy", nogil=True)
    def deliver(table, step, _):  # type: ignore[no-untyped-def]
        parts, mask, row = word(table, DELIVERY.parts), word(table, DELIVERY.mask), word(table, DELIVERY.row)
        starts = array_at(word(table, DELIVERY.starts), word(table, DELIVERY.sources) * parts + 1, np.int64)
        entries = starts[starts.size - 1]
        places = array_at(word(table, DELIVERY.targets), entries, targets)
        weights_ = array_at(word(table, DELIVERY.weights), 1 if one_weight else entries, weight_type)
        delays_ = array_at(word(table, DELIVERY.delays), 1 if one_delay else entries, delay_type)
        ring = array_at(word(table, DELIVERY.ring) + word(table, DELIVERY.shift), (mask + 1) * row, np.int32)
        for other in range(word(table, DELIVERY.listed)):
            line, part = word(table, DELIVERY.lists) + 8 * LINE * other, word(table, DELIVERY.part)
            add_all(line, step, parts, part, starts, places, weights_, delays_, ring, step, row, mask)
        return 0

    return deliver


def graded_bundle_delivery(places: Any, weights: Any, kind: Any) -> Any:
    """Return `deliver(table, step, before)` for dtypes of entries, as `bundle_delivery` does; `kind` is that of values.

    What arrives in a step has one slot of the ring, so delays of entries are 0.
    """
    weight_type, one_weight = weights or np.int32, weights is None
    add_all = spikes_adder(entries_adder(one_weight, True, kind), kind)

    @numba.njit(error_model="numpy", nogil=True)
    def deliver(table, step, before):  # type: ignore[no-untyped-def]
        parts, many = word(table, BUNDLE.parts), word(table, BUNDLE.many)
        starts = array_at(word(table, BUNDLE.starts), word(table, BUNDLE.sources) * parts * many + 1, np.int64)
        entries, mask, row = starts[starts.size - 1], word(table, BUNDLE.mask), word(table, BUNDLE.row)
        places_ = array_at(word(table, BUNDLE.places), entries, places)
        weights_ = array_at(word(table, BUNDLE.weights), 1 if one_weight else entries, weight_type)
        delays = array_at(word(table, BUNDLE.delays), many, np.int64)
        ring, none = array_at(word(table, BUNDLE.ring), (mask + 1) * row, np.int32), np.zeros(1, np.int64)
        for k in range(many):
            sent = step - delays[k]
            for other in range(word(table, BUNDLE.listed) if sent < before else 0):
                line, shift = word(table, BUNDLE.lists) + 8 * LINE * other, word(table, BUNDLE.part) * many + k
                add_all(line, sent, parts * many, shift, starts, places_, weights_, none, ring, step, row, mask)
        return 0

    return deliver
