# SPDX-License-Identifier: Apache-2.0
"""Deliveries into a ring of sums, and back, in CUDA C++: how `deliver.cu` is compiled and launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.nvrtc.kernel import cuda_kernel
from ..activity import is_active
from ..precision import precise
from . import definitions, source

__all__ = ["collected", "delivered", "taken"]

_THREADS = 256
_CHUNK = 1024  # elements that a block adds at once, as in deliver.cu
_SHARERS = 8  # blocks that share rows, at most
_BLOCKS = 2048  # about those that a GPU finishes soon if they find nothing


def delivered(
    ring: Any,
    weights: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    delays: Any,
    x: Any,
    t: Any,
    *,
    weighted: bool,
    laid: bool,
    within: bool,
) -> jax.Array:
    """Return the ring with the weights of active rows added.

    Without row pointers, indices are a matrix with rows of equal length; without places, weights are in order.
    """
    sums, held = precise(ring.dtype), max(weights.size, 1 if laid else delays.size)
    perm = perm if held > 1 else None  # one weight and one delay for all have no places
    how: dict[str, Any] = {"ONE": weights.size == 1, "WEIGHTED": weighted, "LAID": laid, "WITHIN": within}
    out, alias = jax.ShapeDtypeStruct(ring.shape, sums), {"input_output_aliases": {0: 0}}
    weights = weights.astype(sums)
    found = _called(out, ring, weights, indices, indptr, perm, delays, x, t, held, how, **alias)
    return found.astype(ring.dtype)


def collected(
    out: Any,
    ring: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    delays: Any,
    x: Any,
    t: Any,
    *,
    weighted: bool,
    laid: bool,
    within: bool,
) -> jax.Array:
    """Return for each element of active rows the value at the place of the ring to which its weight is delivered."""
    how: dict[str, Any] = {"COLLECT": True, "WEIGHTED": weighted, "LAID": laid, "WITHIN": within}
    sums = jax.ShapeDtypeStruct((out.size,), precise(out.dtype))
    weights = jnp.zeros(1, sums.dtype)  # which are not read
    found = _called(sums, ring, weights, indices, indptr, perm, delays, x, t, out.size, how, zeroed=True)
    return found.astype(out.dtype).reshape(out.shape)


def _called(
    out: Any,
    ring: Any,
    weights: Any,
    indices: Any,
    indptr: Any,
    perm: Any,
    delays: Any,
    x: Any,
    t: Any,
    held: int,
    how: Mapping[str, Any],
    **options: Any,
) -> jax.Array:
    rows, (slots, width), sums = x.shape[0], ring.shape, out.dtype
    number = 0 if indptr is not None else indices.shape[1]
    arrays = (indices, indices if indptr is None else indptr, indices if perm is None else perm)
    flags = {"THREADS": _THREADS, "ONE": 1, "ONE_DELAY": delays.size == 1, "CONNECTIONS": 0, "COLLECT": 0}
    flags |= {"INDEXED": perm is not None, "NUMBER": number > 0, **how}
    blocks = -(-max(1, rows) // _THREADS)
    long = indices.size // max(1, rows) // _CHUNK  # or with few blocks, as some rows may be long
    sharers = min(_SHARERS, max(1, long, _BLOCKS // blocks))
    types = dict(zip("IPQ", (array.dtype for array in arrays), strict=True))
    call = cuda_kernel(
        source("rows.cu", "deliver.cu"),
        "deliver",
        out,
        grid=(blocks, sharers),
        block=_THREADS,
        types={"W": sums, "A": sums, "D": delays.dtype, **types},
        options=definitions(flags),
        **options,
    )
    numbers = {"rows": rows, "number": number, "stored": indices.size, "held": held, "slots": slots, "width": width}
    values = x.astype(sums) if flags["WEIGHTED"] else jnp.zeros(1, sums)
    given = (ring.astype(sums), weights, *arrays, delays, is_active(x), values, t.astype("int32"))
    found: jax.Array = call(*given, **numbers)
    return found


def taken(ring: Any, t: Any) -> list[Any]:
    """Return row t of a ring, and the ring with that row set to zero."""
    slots, width = ring.shape
    call = cuda_kernel(
        source("take.cu"),
        "take",
        outs=[jax.ShapeDtypeStruct((width,), ring.dtype), jax.ShapeDtypeStruct(ring.shape, ring.dtype)],
        grid=-(-max(1, width) // _THREADS),
        block=_THREADS,
        types={"A": ring.dtype},
        input_output_aliases={0: 1},
    )
    return list(call(ring, t.astype("int32"), slots=slots, width=width))
