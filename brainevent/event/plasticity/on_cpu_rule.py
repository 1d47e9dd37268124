# SPDX-License-Identifier: Apache-2.0
"""A user's rule in Numba, applied to the synapses of neurons that spiked, in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np

from ...backends.numba import numba_kernel
from ...backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from ...scalar.on_numba import compiled_forms, flush
from .rule_form import NativeRule

__all__ = ["kernel"]


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
    def names(letter: str, sizes: Sequence[int]) -> list[str]:
        return [f"{letter}{leaf}" for leaf in range(len(sizes))]

    def elements(letter: str, sizes: Sequence[int], place: str) -> list[str]:
        """Return the elements of leaves at a place; those of further arrays have none."""
        found = []
        for leaf, size in enumerate(sizes):
            places = [f"{place}, {k}" if place else str(k) for k in range(size)] if size else [place or "0"]
            found += [f"{letter}{leaf}[{at}]" for at in places]
        return found

    own, others = ("j", "i") if post else ("i", "j")
    given = (("s", native.state), ("p", native.pre), ("q", native.other), ("r", native.rest))
    arrays = ["active", "indices", "indptr", "others", *(["places"] if post else [])]
    arrays += [name for letter, sizes in (*given, ("o", native.state)) for name in names(letter, sizes)]
    taken = elements("o", native.state, "k") + elements("p", native.pre, own)
    taken += elements("q", native.other, others) + elements("r", native.rest, "")
    if not HARDWARE_FLUSHES:
        floats = (name.dtype == "float32" for name in native.form.inputs)
        taken = [f"flush({x})" if is_float else x for x, is_float in zip(taken, floats, strict=True)]
    results = ", ".join(elements("o", native.state, "k"))
    return f"""
def kernel({", ".join(arrays)}):
    before = flush_floats()
    stored, most = np.int64(indices.size), np.int64(others[0])
    for i in range(active.size):
        if active[i]:
            begin, end = max(np.int64(indptr[i]), np.int64(0)), min(np.int64(indptr[i + 1]), stored)
            for at in range(begin, end):
                j, k = np.int64(indices[at]), {"np.int64(places[at])" if post else "at"}
                if 0 <= j < most and 0 <= k < stored:
                    {results} = rule({", ".join(taken)})
    restore_floats(before)
"""
