# SPDX-License-Identifier: Apache-2.0
"""Compile the text of an update, with the helpers that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES, float_of_bits
from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, word
from ...scalar.form import Form
from ...scalar.on_numba import compiled_forms, flush
from .on_lists import keep_spikes, keep_state, keep_values, put_count, spikes_of, values_of

__all__ = ["compiled_update"]

_inner = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)


@_inner
def same(x):  # type: ignore[no-untyped-def]
    """Return a float64 number."""
    return x


def gather_of(kind: Any) -> Any:
    """Return a function that turns sums in quanta into what arrives, and leaves zeros for a later step."""

    @_inner
    def gather(sums, quantum, arriving):  # type: ignore[no-untyped-def]
        for k in range(arriving.size):
            arriving[k] = kind(sums[k]) * quantum
            sums[k] = 0

    return gather


def add_input_of(kind: Any) -> Any:
    """Return a function that adds a row of inputs: one for all neurons, where an item has no bytes, or one each."""
    flushed, itemsize = flush if kind is np.float32 else same, np.dtype(kind).itemsize

    @_inner
    def add_input(row, item, start, arriving):  # type: ignore[no-untyped-def]
        if item == 0:
            all_ = flushed(array_at(row, 1, kind)[0])
            for k in range(arriving.size):
                arriving[k] = flushed(arriving[k] + all_)
        else:
            each = array_at(row + itemsize * start, arriving.size, kind)
            for k in range(arriving.size):
                arriving[k] = flushed(arriving[k] + flushed(each[k]))

    return add_input


def show_of(kind: Any) -> Any:
    """Return a function that copies a state to where couplings read it in the next step."""

    @_inner
    def show(state, shown):  # type: ignore[no-untyped-def]
        for k in range(state.size):
            shown[k] = state[k]

    return show


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


def list_values_of(kind: Any) -> Any:
    """Return a function that lists the values of spikes, of which `list_spikes` has listed the neurons."""

    @_inner
    def list_values(values, first, spikes, before, found, listed):  # type: ignore[no-untyped-def]
        for k in range(before, found):
            listed[k] = values[np.int64(spikes[k]) - first]

    return list_values


@_inner
def count_events(uniform, table, counts):  # type: ignore[no-untyped-def]
    """Count for each number how many of a rising table are at most that; none is looked at that all are below."""
    bits, largest = uniform.view(np.int32), np.int32(0)  # of numbers that are not negative: in the same order
    for k in range(uniform.size):
        counts[k] = 0
        largest = bits[k] if bits[k] > largest else largest  # vectorized, unlike max()
    for entry in table:
        if entry > float_of_bits(np.uint32(largest)):
            break
        for k in range(uniform.size):
            counts[k] += np.int32(uniform[k] >= entry)


def compiled_update(forms: Sequence[Form], text: str) -> Any:
    """Return the Numba function `update(table, step, turn)` of a text; its other functions are loops over arrays."""
    scope = {"np": np, "array_at": array_at, "word": word, "spikes_of": spikes_of, "list_spikes": list_spikes}
    scope |= {
        "count_events": count_events,
        "keep_spikes": keep_spikes,
        "keep_state": keep_state,
        "keep_values": keep_values,
        "put_count": put_count,
    }
    for kind in (np.float32, np.float64):
        scope |= {f"gather_{kind.__name__}": gather_of(kind), f"add_input_{kind.__name__}": add_input_of(kind)}
        scope[f"show_{kind.__name__}"] = show_of(kind)
        scope |= {f"values_of_{kind.__name__}": values_of(kind), f"list_values_{kind.__name__}": list_values_of(kind)}
    scope |= {f"be_{name}": function for name, function in compiled_forms(forms).items()}
    known = set(scope)
    exec(compile(text, "<update>", "exec"), scope)
    update = scope.pop("update")
    for name in scope.keys() - known - {"__builtins__"}:
        scope[name] = _inner(scope[name])
    return numba.njit(error_model="numpy", nogil=True)(update)
