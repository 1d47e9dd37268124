# SPDX-License-Identifier: Apache-2.0
"""Deliveries into a ring of sums in CUDA C++: how `deliver.cu` is compiled and launched."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...backends.nvrtc import cuda_kernel
from ..activity import is_active
from ..precision import precise
from . import definitions, source

__all__ = ["delivered"]

_THREADS = 256


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

    Without row pointers, indices are a matrix of rows of as many elements each; without places, weights are in order.
    """
    rows, (slots, width), sums = x.shape[0], ring.shape, precise(ring.dtype)
    number = 0 if indptr is not None else indices.shape[1]
    arrays = (indices, indices if indptr is None else indptr, indices if perm is None else perm)
    flags = {"THREADS": _THREADS, "ONE": weights.size == 1, "ONE_DELAY": delays.size == 1, "CONNECTIONS": 0}
    flags |= {"INDEXED": perm is not None, "NUMBER": number > 0, "WITHIN": within, "WEIGHTED": weighted, "LAID": laid}
    types = dict(zip("IPQ", (array.dtype for array in arrays), strict=True))
    call = cuda_kernel(
        source("rows.cu", "deliver.cu"),
        "deliver",
        jax.ShapeDtypeStruct(ring.shape, sums),
        grid=-(-max(1, rows) // _THREADS),
        block=_THREADS,
        types={"W": sums, "A": sums, "D": delays.dtype, **types},
        options=definitions(flags),
        input_output_aliases={0: 0},
    )
    held = max(weights.size, 1 if laid else delays.size)
    numbers = {"rows": rows, "number": number, "stored": indices.size, "held": held, "slots": slots, "width": width}
    values = x.astype(sums) if weighted else jnp.zeros(1, sums)
    given = (ring.astype(sums), weights.astype(sums), *arrays, delays, is_active(x), values, t.astype("int32"))
    found: jax.Array = call(*given, **numbers)
    return found.astype(ring.dtype)
