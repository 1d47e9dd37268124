# SPDX-License-Identifier: Apache-2.0
"""Compile the text of a plastic projection, with the helpers that it calls; keep what plastic synapses need later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES
from ...backends.numba.inner import inner
from ...backends.numba.memory import array_at, count_within, prefetch, put, word
from ...scalar.form import Form
from ...scalar.on_numba import compiled_forms
from .on_lists import count_of, spikes_of

__all__ = ["compiled_plastic"]

_inner = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)


@_inner
def stretch(which, begin, end, row):  # type: ignore[no-untyped-def]
    """Return where the synapses of one delay begin and end, among those of a source in the order of delays."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if np.int64(which[middle]) < row:
            low = middle + 1
        else:
            high = middle
    first, high = low, end
    while low < high:
        middle = (low + high) >> 1
        if np.int64(which[middle]) <= row:
            low = middle + 1
        else:
            high = middle
    return first, low


def trace_of_factors_of(scaled: Any) -> Any:
    """Return a function for the value of a trace now; `factors` are those of all numbers of steps: the last one is 0.

    It has no branch, so loops that call it are vectorized.
    """

    @_inner
    def trace_of_factors(value, last, now, factors):  # type: ignore[no-untyped-def]
        steps, most = np.uint32(now - last), np.uint32(factors.size - 1)
        return scaled(value, factors[steps if steps < most else most])

    return trace_of_factors


def decayed_trace_of(scaled: Any, decayed: Any) -> Any:
    """Return a function for the value of a trace now; `factors` are those of the first numbers of steps."""

    @_inner
    def decayed_trace(value, last, now, factors, rate):  # type: ignore[no-untyped-def]
        steps = np.int64(np.uint32(now - last))
        return scaled(value, factors[steps]) if steps < factors.size else decayed(value, last, now, rate)

    return decayed_trace


def compiled_plastic(name: str, forms: Sequence[Form], text: str) -> Any:
    """Return the Numba function of a name in a text; the others are loops over arrays."""
    scope = {"np": np, "array_at": array_at, "word": word, "put": put, "count_of": count_of, "spikes_of": spikes_of}
    scope |= {"prefetch": prefetch, "count_within": count_within}
    functions = compiled_forms(forms, inlined=True)
    scope |= {f"be_{key}": function for key, function in functions.items()} | {"stretch": stretch}
    if "scaled" in functions:
        scope["trace_of_factors"] = trace_of_factors_of(functions["scaled"])
    if "decayed" in functions:
        scope["decayed_trace"] = decayed_trace_of(functions["scaled"], functions["decayed"])
    known = set(scope)
    exec(compile(text, "<plasticity>", "exec"), scope)
    found = scope.pop(name)
    for key in scope.keys() - known - {"__builtins__"}:
        scope[key] = _inner(scope[key])
    return numba.njit(error_model="numpy", nogil=True)(found)
