# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in Triton, for GPUs, with a program for each row. Out-of-range indices are ignored."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

__all__ = ["product"]

_BLOCK = 256  # elements of a row that are read at once


@triton.jit  # type: ignore[untyped-decorator]
def _scatter(  # type: ignore[no-untyped-def]
    weights, indices, indptr, x, stored, size, out, many: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0)
    if tl.load(x + row) != 0:
        end = tl.minimum(tl.load(indptr + row + 1), stored)  # pointers are clipped to the stored elements
        for start in range(tl.maximum(tl.load(indptr + row), 0), end, block):
            j = start + tl.arange(0, block)
            target = tl.load(indices + j, mask=j < end, other=-1)
            there = (target >= 0) & (target < size)
            weight = tl.load(weights + j * many, mask=there)
            tl.atomic_add(out + target, weight, mask=there, sem="relaxed")


@triton.jit  # type: ignore[untyped-decorator]
def _gather(  # type: ignore[no-untyped-def]
    weights, indices, indptr, x, stored, size, out, many: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0)
    total = tl.zeros((block,), out.dtype.element_ty)
    end = tl.minimum(tl.load(indptr + row + 1), stored)
    for start in range(tl.maximum(tl.load(indptr + row), 0), end, block):
        j = start + tl.arange(0, block)
        inside = j < end
        source = tl.load(indices + j, mask=inside, other=-1)
        active = tl.load(x + source, mask=(source >= 0) & (source < size), other=0) != 0
        total += tl.load(weights + j * many, mask=inside & active, other=0.0)
    tl.store(out + row, tl.sum(total))


def product(weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, transpose: bool, **_: Any) -> Any:
    """Return the sums of weights, indices, row pointers and events."""
    rows = events.size if transpose else sums.size
    if rows == 0 or indices.size == 0:  # Triton launches no empty grid, and reads no empty array
        return jnp.zeros(sums.shape, sums.dtype)
    return jax_triton.triton_call(
        weights.astype(sums.dtype),
        indices,
        indptr,
        events.astype(jnp.int8),
        indices.size,
        sums.size if transpose else events.size,
        kernel=_scatter if transpose else _gather,
        out_shape=sums,
        grid=(rows,),
        zeroed_outputs=(0,) if transpose else (),
        many=int(weights.size != 1),  # 0 if all elements have one weight
        block=_BLOCK,
    )
