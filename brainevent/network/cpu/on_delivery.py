# SPDX-License-Identifier: Apache-2.0
"""Deliver the spikes of one step through one projection, into the sums of one part of its target."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba import inner, prefetch
from .layout import DELIVERY, LINE, LIST
from .on_words import array_at, word

__all__ = ["delivery"]

_AHEAD = 16  # spikes for which it is asked where their rows begin; for half of them, their rows are asked for
_FETCHED = 256  # entries of a row that are asked for: the processor sees for itself that more follow


def delivery(targets: Any, weights: Any, delays: Any) -> Any:
    """Return `deliver(table, step, _)` for dtypes of entries; None for what is the same for all: int32, uint16."""
    weight_type, delay_type = weights or np.int32, delays or np.uint16
    one_weight, one_delay = weights is None, delays is None

    @inner(error_model="numpy", apart=True)
    def add_row(begin, end, targets, weights, delays, ring, step, row, mask):  # type: ignore[no-untyped-def]
        weight, place = np.int32(weights[0]), ((step + np.int64(delays[0])) & mask) * row
        for entry in range(begin, end):
            if not one_weight:
                weight = np.int32(weights[entry])
            if not one_delay:
                place = ((step + np.int64(delays[entry])) & mask) * row
            ring[place + np.int64(targets[entry])] += weight

    @inner(error_model="numpy")
    def fetch_row(starts, first, targets, weights, delays):  # type: ignore[no-untyped-def]
        begin, end = starts[first], min(starts[first + 1], starts[first] + _FETCHED)
        for entry in range(begin, end, 64 // targets.itemsize):
            prefetch(targets, entry)
        if not one_weight:
            for entry in range(begin, end, 64 // weights.itemsize):
                prefetch(weights, entry)
        if not one_delay:
            for entry in range(begin, end, 64 // delays.itemsize):
                prefetch(delays, entry)

    @numba.njit(error_model="numpy", nogil=True)
    def deliver(table, step, _):  # type: ignore[no-untyped-def]
        parts, part = word(table, DELIVERY.parts), word(table, DELIVERY.part)
        mask, row = word(table, DELIVERY.mask), word(table, DELIVERY.row)
        last = word(table, DELIVERY.sources) * parts
        starts = array_at(word(table, DELIVERY.starts), last + 1, np.int64)
        targets_ = array_at(word(table, DELIVERY.targets), starts[last], targets)
        weights_ = array_at(word(table, DELIVERY.weights), starts[last], weight_type)
        delays_ = array_at(word(table, DELIVERY.delays), starts[last], delay_type)
        ring = array_at(word(table, DELIVERY.ring), (mask + 1) * row, np.int32)
        for other in range(parts):
            at = word(table, DELIVERY.lists) + 8 * LINE * other + 16 * (step & 1)
            count = word(at, LIST.count)
            spikes = array_at(word(at, LIST.address), count, np.int32)
            for k in range(min(_AHEAD, count)):
                prefetch(starts, np.int64(spikes[k]) * parts + part)
            for k in range(min(_AHEAD // 2, count)):
                fetch_row(starts, np.int64(spikes[k]) * parts + part, targets_, weights_, delays_)
            for k in range(count):
                if k + _AHEAD < count:
                    prefetch(starts, np.int64(spikes[k + _AHEAD]) * parts + part)
                if k + _AHEAD // 2 < count:
                    fetch_row(starts, np.int64(spikes[k + _AHEAD // 2]) * parts + part, targets_, weights_, delays_)
                first = np.int64(spikes[k]) * parts + part
                add_row(starts[first], starts[first + 1], targets_, weights_, delays_, ring, step, row, mask)
        return 0

    return deliver
