# SPDX-License-Identifier: Apache-2.0
"""Deliver the spikes of one step through one projection: into the sums of later steps, of one part of its target."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba import inner, prefetch
from ...backends.numba.memory import array_at, word
from .layout import DELIVERY, LINE
from .on_lists import count_of, spikes_of

__all__ = ["delivery"]

_AHEAD, _ROWS_AHEAD = 16, 8  # spikes between asking where a row begins, asking for the row, and adding it
_FETCHED = 256  # entries


@inner(error_model="numpy")
def fetch(values, begin, end):  # type: ignore[no-untyped-def]
    """Ask for the entries of a row; of a long row, the processor sees for itself that more follow."""
    for entry in range(begin, min(end, begin + _FETCHED), 64 // values.itemsize):
        prefetch(values, entry)


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
        ring = array_at(word(table, DELIVERY.ring), (mask + 1) * row, np.int32)
        for other in range(parts):
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
