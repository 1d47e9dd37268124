# SPDX-License-Identifier: Apache-2.0
"""Changes of the numbers of synapses on the CPU: each is read and written once for some steps, in threads."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...._compat import ShapedArray
from ....ffi.call import NativeTarget, native_call
from ...reference.products import Product
from ..change import Change
from .kernel_target import KernelTarget

__all__ = ["changed"]

Array = Any
_RANKS = {"dense_changes": (4, 3, 3, 3, 3), "sparse_changes": (2, 3, 3, 3, 3)}  # of arrays of float32


@functools.cache
def _compiled(title: str) -> NativeTarget:
    from ....backends.numba.kernel import target_of

    floats = [ShapedArray((1,) * rank, np.dtype("float32")) for rank in _RANKS[title]]
    whole = ShapedArray((1,), np.dtype("int32"))
    operands = [*floats, ShapedArray((1, 1), np.dtype("uint8")), whole, whole]
    operands += [whole] * (3 if title == "sparse_changes" else 0)
    return target_of(getattr(importlib.import_module(f"{__package__}.on_changes"), title), operands, [floats[0]])


def changed(one: Product, values: Array, change: Change, spikes: Array) -> Array:
    """Return the values of synapses after some steps; see `Engine.along_synapses`."""
    before = len(spikes) - change.steps
    late, outer = np.array(one.delays, np.int32) - np.int32(before), np.array([change.outer], np.int32)
    rows = change.rows if one.dense else jnp.swapaxes(change.rows, 1, 2)
    operands = [values, change.maps, change.factors, change.terms, rows, spikes, late, outer]
    structure = [] if one.dense else [one.starts, one.synapses.targets.astype(np.int32), one.which]
    target = KernelTarget("dense_changes" if one.dense else "sparse_changes", _compiled)
    out = ShapedArray((len(change.maps), *values.shape[1:]), values.dtype)
    in_place = [(0, 0)] if out.shape == values.shape else []
    return native_call(target, [*operands, *structure], [out], in_place)[0]
