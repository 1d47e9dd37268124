# SPDX-License-Identifier: Apache-2.0
"""Numba kernels of products of a dense matrix with events.

Both list the events of each vector first, and then visit only their weights: `sum_rows` adds up whole rows, for
`weights.T @ x`, and `sum_columns` picks from each row, for `weights @ x`. x has one vector per column.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.numba.inner import inner
from ...backends.numba.kernel import numba_kernel
from ..activity import as_events
from ..on_cpu.terms import product
from ..precision import precise

__all__ = ["numba_product"]

_TOGETHER = 4  # rows: sums are visited less often, and do not wait for one another
_TILE = 512  # columns, whose weights stay in the caches while all vectors visit them


@inner
def _list_events(x: Any, events: Any, counts: Any) -> None:
    """Write the positions of the events of each column of x; without a branch, as spikes cannot be predicted."""
    counts[:] = 0
    for row in range(x.shape[0]):
        for b in range(x.shape[1]):
            events[b, counts[b]] = row
            counts[b] += x[row, b] != 0


def _load(dtype: str) -> Callable[..., Any]:
    """Return a function that reads a weight of this dtype."""
    weight = product(dtype, event=True, homogeneous=False).weight
    return inner(lambda weights, i, j: weight(0, weights, (i, j)))


@functools.cache
def _sum_rows(dtype: str) -> Any:
    load = _load(dtype)

    @inner
    def sum_rows(weights: Any, x: Any, out: Any, events: Any, counts: Any) -> None:
        _list_events(x, events, counts)
        out[:] = 0
        width = weights.shape[1]
        tile = _TILE if out.shape[0] > 1 else max(1, width)
        for start in range(0, width, tile):
            stop = min(start + tile, width)
            for b in range(out.shape[0]):
                whole = counts[b] - counts[b] % _TOGETHER
                for e in range(0, whole, _TOGETHER):
                    p, q, r, s = events[b, e], events[b, e + 1], events[b, e + 2], events[b, e + 3]
                    for j in range(start, stop):
                        first = load(weights, p, j) + load(weights, q, j)
                        out[b, j] += first + (load(weights, r, j) + load(weights, s, j))
                for e in range(whole, counts[b]):
                    p = events[b, e]
                    for j in range(start, stop):
                        out[b, j] += load(weights, p, j)

    return sum_rows


@functools.cache
def _sum_columns(dtype: str) -> Any:
    load = _load(dtype)

    @inner
    def sum_columns(weights: Any, x: Any, out: Any, events: Any, counts: Any) -> None:
        _list_events(x, events, counts)
        out[:] = 0
        height = out.shape[0]
        whole = height - height % _TOGETHER
        for i in range(0, whole, _TOGETHER):
            for b in range(out.shape[1]):
                p, q, r, s = out[i, b], out[i + 1, b], out[i + 2, b], out[i + 3, b]
                for e in range(counts[b]):
                    j = events[b, e]
                    p += load(weights, i, j)
                    q += load(weights, i + 1, j)
                    r += load(weights, i + 2, j)
                    s += load(weights, i + 3, j)
                out[i, b], out[i + 1, b], out[i + 2, b], out[i + 3, b] = p, q, r, s
        for i in range(whole, height):
            for b in range(out.shape[1]):
                for e in range(counts[b]):
                    out[i, b] += load(weights, i, events[b, e])

    return sum_columns


def numba_product(outs: Sequence[Any], *, transpose: bool) -> Callable[..., Any]:
    """Return the product as a JAX function of weights and x."""
    (out,) = outs

    def run(weights: Any, x: Any) -> Any:
        vectors = as_events(x).reshape(x.shape[0], math.prod(x.shape[1:]))
        size, count = vectors.shape
        shape = (count, out.shape[0]) if transpose else (out.shape[0], count)
        call = numba_kernel(
            (_sum_rows if transpose else _sum_columns)(weights.dtype.name),
            outs=[
                # Numba has no arithmetic in 16 bits, and a long sum needs more.
                jax.ShapeDtypeStruct(shape, precise(weights.dtype)),
                # Elements that are not events write behind the list.
                jax.ShapeDtypeStruct((count, size + 1), jnp.uint32),
                jax.ShapeDtypeStruct((count,), jnp.int32),
            ],
        )
        sums = call(weights, vectors)[0]
        return [(sums.T if transpose else sums).reshape(out.shape).astype(out.dtype)]

    return run
