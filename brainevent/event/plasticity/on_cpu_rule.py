# SPDX-License-Identifier: Apache-2.0
"""A user's rule in Numba, applied to the synapses of neurons that spiked, in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np

from ...backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from ...backends.numba.kernel import numba_kernel
from ...scalar.on_numba import compiled_forms, flush
from .rule_form import NativeRule

__all__ = ["kernel"]


_KERNEL = """
def kernel({arrays}):
    before = flush_floats()
    stored, most = np.int64(indices.size), np.int64(others[0])
    for i in range(active.size):
        if active[i]:
            begin, end = max(np.int64(indptr[i]), np.int64(0)), min(np.int64(indptr[i + 1]), stored)
            for at in range(begin, end):
                j, k = np.int64(indices[at]), {place}
                if 0 <= j < most and 0 <= k < stored:
                    {results} = rule({taken})
    restore_floats(before)
"""


def kernel(native: NativeRule, outs: list[Any], aliases: Mapping[int, int], *, post: bool) -> Callable[..., Any]:
    """Return a JAX function that returns the new leaves of the state."""
    return numba_kernel(_compiled(native, post=post), outs, input_output_aliases=aliases)


@functools.lru_cache(128)
def _compiled(native: NativeRule, *, post: bool) -> Any:
    """Return the kernel; with `post`, the neurons that spike are those of columns, with places of their synapses."""
    scope: dict[str, Any] = {
        "np": np,
        "flush": flush,
        "flush_floats": flush_floats,
        "restore_floats": restore_floats,
        "rule": compiled_forms([native.form])["rule"],
    }
    exec(compile(_text(native, post=post), "<rule of synapses>", "exec"), scope)
    return numba.njit(error_model="numpy")(scope["kernel"])


def _text(native: NativeRule, *, post: bool) -> str:
    leaves = native.leaves(post=post)
    states = [(f"o{name[1:]}", place, size) for name, place, size in leaves[: len(native.state)]]
    arrays = ["active", "indices", "indptr", "others", *(["places"] if post else [])]
    arrays += [name for name, _, _ in (*leaves, *states)]
    taken = [element for leaf in (*states, *leaves[len(states) :]) for element in _elements(*leaf)]
    if not HARDWARE_FLUSHES:
        floats = (name.dtype == "float32" for name in native.form.inputs)
        taken = [f"flush({x})" if is_float else x for x, is_float in zip(taken, floats, strict=True)]
    results = ", ".join(element for leaf in states for element in _elements(*leaf))
    place = "np.int64(places[at])" if post else "at"
    return _KERNEL.format(arrays=", ".join(arrays), place=place, results=results, taken=", ".join(taken))


def _elements(name: str, place: str, size: int) -> list[str]:
    """Return the elements of a leaf at a place; further arrays have none."""
    places = [f"{place}, {k}" if place else str(k) for k in range(size)] if size else [place or "0"]
    return [f"{name}[{at}]" for at in places]
