# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes of a run with a dense matrix, on the CPU: only spikes are visited, forward and backward."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...._compat import ShapedArray
from ....ffi.call import NativeTarget, native_call
from ..times import lower_on, times
from .kernel_target import KernelTarget

__all__ = ["times"]

Array = Any
_RANKS = {"times_kernel": (3, 4), "outer_kernel": (4, 3)}  # of what spikes are multiplied with, and of results


@functools.cache
def _compiled(title: str) -> NativeTarget:
    from ....backends.numba.kernel import target_of

    spikes, delay = ShapedArray((1,) * 4, np.dtype("uint8")), ShapedArray((1,), np.dtype("int32"))
    other, out = (ShapedArray((1,) * n, np.dtype("float32")) for n in _RANKS[title])
    return target_of(getattr(importlib.import_module(f"{__package__}.on_events"), title), [spikes, other, delay], [out])


def _as_bytes(spikes: Array) -> Array:
    """Return spikes as kernels read them; XLA does this where it computes them."""
    return jnp.where(jnp.isnan(spikes), np.uint8(2), (spikes != 0).astype(np.uint8))


def _run(kernel: str, shape: tuple[int, ...], spikes: Array, other: Array, delay: int) -> Array:
    operands = [_as_bytes(spikes), other, np.array([delay], np.int32)]
    return native_call(KernelTarget(kernel, _compiled), operands, [ShapedArray(shape, np.dtype("float32"))])[0]


def _times(spikes: Array, matrix: Array, *, delay: int, exact: bool) -> Array:
    return _run("times_kernel", (*spikes.shape[:3], matrix.shape[2]), spikes, matrix, delay)


def _outer(spikes: Array, arrived: Array, *, delay: int, exact: bool) -> Array:
    return _run("outer_kernel", (spikes.shape[0], spikes.shape[3], arrived.shape[3]), spikes, arrived, delay)


lower_on("cpu", _times, _outer)
