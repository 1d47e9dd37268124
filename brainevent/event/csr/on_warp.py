# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in NVIDIA Warp, for GPUs; emulated, for CPUs."""
# mypy: disable-error-code="misc, no-untyped-def, operator, valid-type"

from typing import Any

import warp as wp

from ...backends.warp.kernel import warp_kernel

__all__ = ["product"]

_TOGETHER = wp.constant(32)  # threads that add one row

# Warp reads annotations, so they are not strings in this file. Positions may need 64 bits, which its ranges lack.
# Pointers are clipped to the stored elements, and out-of-range indices are ignored.


@wp.kernel
def _scatter(
    weights: wp.array(dtype=Any),
    indices: wp.array(dtype=Any),
    indptr: wp.array(dtype=Any),
    x: wp.array(dtype=wp.bool),
    many: wp.int64,
    out: wp.array(dtype=Any),
):
    row, lane = wp.tid()
    if x[row]:
        j = wp.max(wp.int64(indptr[row]), wp.int64(0)) + wp.int64(lane)
        end = wp.min(wp.int64(indptr[row + 1]), wp.int64(indices.shape[0]))
        while j < end:
            target = wp.int64(indices[j])
            if target >= wp.int64(0) and target < wp.int64(out.shape[0]):
                wp.atomic_add(out, indices[j], weights[j * many])
            j += wp.int64(_TOGETHER)


@wp.kernel
def _gather(
    weights: wp.array(dtype=Any),
    indices: wp.array(dtype=Any),
    indptr: wp.array(dtype=Any),
    x: wp.array(dtype=wp.bool),
    many: wp.int64,
    out: wp.array(dtype=Any),
):
    row = wp.tid()
    total = out.dtype(0)
    j = wp.max(wp.int64(indptr[row]), wp.int64(0))
    end = wp.min(wp.int64(indptr[row + 1]), wp.int64(indices.shape[0]))
    while j < end:
        source = wp.int64(indices[j])
        if source >= wp.int64(0) and source < wp.int64(x.shape[0]):  # noqa: SIM102 - `and` would read x in any case
            if x[source]:
                total += weights[j * many]
        j += wp.int64(1)
    out[row] = total


def product(weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, transpose: bool, **_: Any) -> Any:
    """Return the sums of weights, indices, row pointers and events."""
    call = warp_kernel(
        _scatter if transpose else _gather,
        sums,
        launch_dims=(events.size, _TOGETHER) if transpose else sums.size,
        zeroed=transpose,
    )
    many = int(weights.size != 1)  # 0 if all elements have one weight
    return call(weights.astype(sums.dtype), indices, indptr, events, many)
