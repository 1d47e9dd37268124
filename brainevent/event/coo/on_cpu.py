# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of products with a matrix in coordinates: `kernel(weights, into, out_of, x, out)`.

An element takes from `x[out_of]` and adds to `out[into]`; which are rows, and which columns, is up to the caller.
"""

from __future__ import annotations

import functools
from typing import Any

from ...backends.numba import inner
from ..on_cpu import BLOCK, Places, Terms, no_event, places, terms, unsigned

__all__ = ["kernel"]


@functools.cache
def kernel(dtype: str, *, event: bool, homogeneous: bool, within: bool, ndim: int) -> Any:
    """Return the kernel for weights of a dtype, one or many, and an operand x of a rank.

    If `within`, all indices are known to be in range.
    """
    of, at = terms(dtype, event=event, homogeneous=homogeneous), places(within=within)
    return _of_matrix(of, at) if ndim == 2 else _of_vector(of, at)


@inner
def _is_silent(x: Any) -> bool:
    start = 0
    while start < x.size and no_event(x, start, min(start + BLOCK, x.size)):
        start += BLOCK
    return start >= x.size


def _of_vector(of: Terms, at: Places) -> Any:
    event, common, weight, counts, term = of.event, of.common, of.weight, of.counts, of.term
    has, add_to = at.has, at.add

    @inner
    def of_vector(weights: Any, into: Any, out_of: Any, x: Any, out: Any) -> None:
        out[:] = 0
        if event and _is_silent(x):
            return
        one = common(weights)
        for i in range(into.shape[0]):
            if has(out_of[i], x.shape[0]):
                value = x[unsigned(out_of[i])]
                if counts(value):
                    add_to(out, into[i], term(weight(one, weights, i), value))

    return of_vector


def _of_matrix(of: Terms, at: Places) -> Any:
    event, common, weight, counts, term = of.event, of.common, of.weight, of.counts, of.term
    has = at.has

    @inner
    def of_matrix(weights: Any, into: Any, out_of: Any, x: Any, out: Any) -> None:
        out[:] = 0
        if event and _is_silent(x.ravel()):
            return
        one, nothing = common(weights), out.dtype.type(0)
        for i in range(into.shape[0]):
            here, source, target = weight(one, weights, i), unsigned(out_of[i]), unsigned(into[i])
            if has(source, x.shape[0]) and has(target, out.shape[0]):
                for b in range(x.shape[1]):  # read once, and a choice, not a branch, so that sums are vectors
                    value = x[source, b]
                    adds = term(here, value)
                    out[target, b] += adds if counts(value) else nothing

    return of_matrix
