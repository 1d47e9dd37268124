# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in Triton, for GPUs: a program for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

from ..activity import is_active
from ..precision import precise

__all__ = ["triton_product"]

_BLOCK = 256  # elements of a row that are read at once


@triton.jit
def _scatter(weights, indices, indptr, x, out, many: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    if tl.load(x + row) != 0:
        end = tl.load(indptr + row + 1)
        for start in range(tl.load(indptr + row), end, block):
            j = start + tl.arange(0, block)
            inside = j < end
            weight = tl.load(weights + j * many, mask=inside)
            tl.atomic_add(out + tl.load(indices + j, mask=inside), weight, mask=inside, sem="relaxed")


@triton.jit
def _gather(weights, indices, indptr, x, out, many: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    total = tl.zeros((block,), out.dtype.element_ty)
    end = tl.load(indptr + row + 1)
    for start in range(tl.load(indptr + row), end, block):
        j = start + tl.arange(0, block)
        inside = j < end
        active = tl.load(x + tl.load(indices + j, mask=inside, other=0), mask=inside, other=0) != 0
        total += tl.load(weights + j * many, mask=inside & active, other=0.0)
    tl.store(out + row, tl.sum(total))


def triton_product(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **_: Any) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices, row pointers and events."""
    (out,) = outs

    def product(weights: Any, indices: Any, indptr: Any, x: Any) -> list[Any]:
        sums = jax.ShapeDtypeStruct(out.shape, precise(weights.dtype))
        rows = x.size if transpose else out.size
        if rows == 0 or indices.size == 0:  # Triton launches no empty grid, and reads no empty array
            return [jnp.zeros(out.shape, out.dtype)]
        found = jax_triton.triton_call(
            weights.astype(sums.dtype),
            indices,
            indptr,
            is_active(x).astype(jnp.int8),
            kernel=_scatter if transpose else _gather,
            out_shape=sums,
            grid=(rows,),
            zeroed_outputs=(0,) if transpose else (),
            many=int(weights.size != 1),  # 0 if all elements have one weight
            block=_BLOCK,
        )
        return [found.astype(out.dtype)]

    return product
