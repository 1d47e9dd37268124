# SPDX-License-Identifier: Apache-2.0
"""Compile the text of an update, with the helpers that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ...backends.numba import inner
from ..rule.form import Form
from ..rule.on_floats import HARDWARE_FLUSHES
from ..rule.on_numba import compiled_forms, flush
from .on_lists import spikes_of
from .on_words import array_at, word

__all__ = ["compiled_update"]

_inner = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)


@_inner
def gather(sums, quantum, arriving):  # type: ignore[no-untyped-def]
    """Turn sums in quanta into what arrives, and leave zeros for a later step."""
    for k in range(arriving.size):
        arriving[k] = np.float32(sums[k]) * quantum
        sums[k] = 0


@_inner
def add_input(row, item, start, arriving):  # type: ignore[no-untyped-def]
    """Add a row of inputs: one for all neurons, where an item has no bytes, or one each."""
    if item == 0:
        same = flush(array_at(row, 1, np.float32)[0])
        for k in range(arriving.size):
            arriving[k] = flush(arriving[k] + same)
    else:
        each = array_at(row + 4 * start, arriving.size, np.float32)
        for k in range(arriving.size):
            arriving[k] = flush(arriving[k] + flush(each[k]))


@_inner
def list_spikes(flags, count, first, spikes, found):  # type: ignore[no-untyped-def]
    """Append the neurons whose flag, of one byte, is set; most groups of 64 have none."""
    whole = count & -64
    words = array_at(flags, whole >> 3, np.uint64)
    single = array_at(flags, count, np.uint8)
    for group in range(0, whole, 64):
        at = group >> 3
        some = words[at] | words[at + 1] | words[at + 2] | words[at + 3]
        some |= words[at + 4] | words[at + 5] | words[at + 6] | words[at + 7]
        if some != 0:
            for k in range(group, group + 64):
                spikes[found] = first + k
                found += np.int64(single[k])
    for k in range(whole, count):
        spikes[found] = first + k
        found += np.int64(single[k])
    return found


@_inner
def count_events(uniform, table, counts):  # type: ignore[no-untyped-def]
    """Count for each number how many of a rising table are at most that; none is looked at that all are below."""
    largest = np.float32(0)
    for k in range(uniform.size):
        counts[k] = 0
        largest = max(largest, uniform[k])
    for entry in table:
        if entry > largest:
            break
        for k in range(uniform.size):
            counts[k] += np.int32(uniform[k] >= entry)


def compiled_update(forms: Sequence[Form], text: str) -> Any:
    """Return the Numba function `update(table, step, turn)` of a text; its other functions are loops over arrays."""
    scope = {"np": np, "array_at": array_at, "word": word, "flush": flush, "gather": gather}
    scope |= {"spikes_of": spikes_of, "add_input": add_input, "list_spikes": list_spikes, "count_events": count_events}
    scope |= {f"be_{name}": function for name, function in compiled_forms(forms).items()}
    known = set(scope)
    exec(compile(text, "<update>", "exec"), scope)
    update = scope.pop("update")
    for name in scope.keys() - known - {"__builtins__"}:
        scope[name] = _inner(scope[name])
    return numba.njit(error_model="numpy", nogil=True)(update)
