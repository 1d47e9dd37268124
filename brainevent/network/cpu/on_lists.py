# SPDX-License-Identifier: Apache-2.0
"""Lists of spikes of one part of a population, for the steps up to its longest delay."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, put, word
from .tables import KEPT, LIST

__all__ = ["count_of", "keep_spikes", "keep_state", "keep_values", "put_count", "spikes_of", "values_of"]

_compile = inner(error_model="numpy", later=True)


@_compile
def _count_at(line, step):  # type: ignore[no-untyped-def]
    return word(line, LIST.counts) + 8 * (step & word(line, LIST.mask))


@_compile
def count_of(line, step):  # type: ignore[no-untyped-def]
    """Return how many neurons of a part spiked in a step."""
    return word(_count_at(line, step), 0)


@_compile
def put_count(line, step, count):  # type: ignore[no-untyped-def]
    """Say how many neurons of a part spiked in a step."""
    put(_count_at(line, step), 0, count)


@_compile
def spikes_of(line, step, count):  # type: ignore[no-untyped-def]
    """Return the array of the neurons of a part that spiked in a step."""
    at = word(line, LIST.spikes) + word(line, LIST.stride) * (step & word(line, LIST.mask))
    return array_at(at, count, np.int32)


@_compile
def keep_spikes(line, step, spikes, count):  # type: ignore[no-untyped-def]
    """Copy the spikes of a part to another list."""
    kept = spikes_of(line, step, count)
    for k in range(count):
        kept[k] = spikes[k]
    put_count(line, step, count)


@_compile
def keep_state(table, line, step, spikes, count):  # type: ignore[no-untyped-def]
    """Copy a state of the neurons that spiked; it has as many rows as the lists of spikes at a line."""
    size = word(table, KEPT.size)
    first = (step & word(line, LIST.mask)) * size
    if word(table, KEPT.itemsize) == 8:
        doubles, double = array_at(word(table, KEPT.state), size, np.int64), word(table, KEPT.values) + 8 * first
        kept_doubles = array_at(double, size, np.int64)
        for k in range(count):
            kept_doubles[np.int64(spikes[k])] = doubles[np.int64(spikes[k])]
    elif word(table, KEPT.itemsize) == 4:
        values, kept = array_at(word(table, KEPT.state), size, np.int32), word(table, KEPT.values) + 4 * first
        kept_values = array_at(kept, size, np.int32)
        for k in range(count):
            kept_values[np.int64(spikes[k])] = values[np.int64(spikes[k])]
    else:
        flags, narrow = array_at(word(table, KEPT.state), size, np.uint8), word(table, KEPT.values) + first
        kept_flags = array_at(narrow, size, np.uint8)
        for k in range(count):
            kept_flags[np.int64(spikes[k])] = flags[np.int64(spikes[k])]


@_compile
def keep_values(table, line, step, spikes, count, values):  # type: ignore[no-untyped-def]
    """Keep the values of spikes as `keep_state` keeps states of their neurons."""
    size = word(table, KEPT.size)
    first = word(table, KEPT.values) + (step & word(line, LIST.mask)) * size * word(table, KEPT.itemsize)
    kept = array_at(first, size, values.dtype)
    for k in range(count):
        kept[np.int64(spikes[k])] = values[k]


def values_of(kind: Any) -> Any:
    """Return a function that returns the array of the values of the spikes of a part in a step, floats of a kind."""
    itemsize = np.dtype(kind).itemsize

    @_compile
    def values_at(line, step, count):  # type: ignore[no-untyped-def]
        slot = word(line, LIST.stride) // 4 * itemsize
        return array_at(word(line, LIST.values) + slot * (step & word(line, LIST.mask)), count, kind)

    return values_at
