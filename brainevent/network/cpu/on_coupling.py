# SPDX-License-Identifier: Apache-2.0
"""Carry a state through the synapses of a coupling, to the neurons of one part of a network."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES
from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, word
from ...scalar.on_numba import compiled_forms
from ..plan.couplings import added_form
from .tables import COUPLING

__all__ = ["coupling"]


def summer(kind: Any, difference: bool, one_weight: bool) -> Any:
    """Return a function that adds up what arrives at each target, in the order of its synapses."""
    (added,) = compiled_forms([added_form(kind.__name__, difference=difference)], inlined=True).values()

    @inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)
    def summed(starts, sources, weights, values, own, begins, out):  # type: ignore[no-untyped-def]
        weight = weights[0]
        for j in range(out.size):
            total = kind(0) if begins else out[j]
            for entry in range(starts[j], starts[j + 1]):
                if not one_weight:
                    weight = weights[entry]
                total = added(total, weight, values[np.int64(sources[entry])], own[j])
            out[j] = total

    return summed


def coupling(kind: Any, difference: bool, one_weight: bool) -> Any:
    """Return `carry(table, step, _)`, which writes what arrives in a step because of the states before it.

    These are in two rows, for even and for odd steps, of which nobody writes the one that is read.
    """
    summed = summer(kind, difference, one_weight)

    @numba.njit(error_model="numpy", nogil=True)
    def carry(table, step, _):  # type: ignore[no-untyped-def]
        size, row = word(table, COUPLING.size), step & 1
        starts = array_at(word(table, COUPLING.starts), size + 1, np.int64)
        sources = array_at(word(table, COUPLING.sources), starts[size], np.int32)
        weights = array_at(word(table, COUPLING.weights), starts[size], kind)
        values = array_at(word(table, COUPLING.values) + row * word(table, COUPLING.row), starts[size], kind)
        own = array_at(word(table, COUPLING.own) + row * word(table, COUPLING.own_row), size, kind)
        out = array_at(word(table, COUPLING.out), size, kind)
        if starts[0] < starts[size] or word(table, COUPLING.begins):
            summed(starts, sources, weights, values, own, word(table, COUPLING.begins) != 0, out)
        return 0

    return carry
