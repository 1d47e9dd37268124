# SPDX-License-Identifier: Apache-2.0
"""Lists of spikes of one part of a population, for the steps up to its longest delay."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numba import inner
from ...backends.numba.memory import array_at, put, word
from .tables import LIST

__all__ = ["count_of", "put_count", "spikes_of", "values_of"]

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


def values_of(kind: Any) -> Any:
    """Return a function that returns the array of the values of the spikes of a part in a step, floats of a kind."""
    itemsize = np.dtype(kind).itemsize

    @_compile
    def values_at(line, step, count):  # type: ignore[no-untyped-def]
        slot = word(line, LIST.stride) // 4 * itemsize
        return array_at(word(line, LIST.values) + slot * (step & word(line, LIST.mask)), count, kind)

    return values_at
