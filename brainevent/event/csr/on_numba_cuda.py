# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in Numba-CUDA, for NVIDIA GPUs.

Pointers are clipped to the stored elements, and out-of-range indices are ignored.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from numba import cuda

from ...backends.numba_cuda.kernel import numba_cuda_kernel

__all__ = ["product"]

_TOGETHER = 32  # threads that add one row


@cuda.jit  # type: ignore[untyped-decorator]
def _scatter(weights: Any, indices: Any, indptr: Any, x: Any, zeros: Any, out: Any) -> None:
    thread = cuda.grid(1)
    row, lane = thread // _TOGETHER, thread % _TOGETHER
    many = min(1, weights.size - 1)  # 0 if all elements have one weight
    if row < x.size and x[row]:
        for j in range(max(0, indptr[row]) + lane, min(indptr[row + 1], indices.size), _TOGETHER):
            if 0 <= indices[j] < out.size:
                cuda.atomic.add(out, indices[j], weights[j * many])


@cuda.jit  # type: ignore[untyped-decorator]
def _gather(weights: Any, indices: Any, indptr: Any, x: Any, zeros: Any, out: Any) -> None:
    row = cuda.grid(1)
    many = min(1, weights.size - 1)
    if row < out.size:
        total = out[row]
        for j in range(max(0, indptr[row]), min(indptr[row + 1], indices.size)):
            if 0 <= indices[j] < x.size and x[indices[j]]:
                total += weights[j * many]
        out[row] = total


def product(weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, transpose: bool, **_: Any) -> Any:
    """Return the sums of weights, indices, row pointers and events."""
    call = numba_cuda_kernel(
        _scatter if transpose else _gather,
        outs=sums,
        launch_dims=_TOGETHER * events.size if transpose else sums.size,
        input_output_aliases={4: 0},  # the sums start as zeros
    )
    return call(weights.astype(sums.dtype), indices, indptr, events, jnp.zeros(sums.shape, sums.dtype))
