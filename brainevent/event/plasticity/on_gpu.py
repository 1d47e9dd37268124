# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of plasticity: what `kernels.cu` is compiled and launched with."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax

from ...backends.nvrtc import cuda_kernel
from ..on_gpu import WARP, power_of_two
from ..precision import precise

__all__ = ["updated"]

_EACH = 256  # synapses of a neuron, on average, for which there is a warp
_MOST_PARTS = 8  # warps that share a neuron: those of neurons without a spike have to start, too


@functools.cache
def _source() -> str:
    return Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")


def updated(entry: str, neurons: int, operands: tuple[Any, ...], **numbers: int) -> jax.Array:
    """Return the weights that a kernel makes of operands: weights, indices, pointers and places, and the rest."""
    weights, *structure = operands
    names = {"W": weights.dtype, "A": precise(weights.dtype)}
    indices = {"of_slices": "IP", "of_indexed_slices": "IPQ", "of_equal_slices": "I"}.get(entry, "")
    known = dict(zip(indices, (x.dtype for x in structure), strict=False))
    names |= {name: known.get(name, "int32") for name in "IPQ"}
    parts = power_of_two(weights.size // max(1, neurons) // _EACH, _MOST_PARTS)
    kernel = cuda_kernel(
        _source(),
        entry,
        jax.ShapeDtypeStruct(weights.shape, weights.dtype),
        launch_dims=WARP * parts * neurons,
        types=names,
        options=(f"-DPARTS={parts}",),
        input_output_aliases={0: 0},
    )
    found: jax.Array = kernel(*operands, **numbers)
    return found
