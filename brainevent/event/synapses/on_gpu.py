# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of values of synapses times values of neurons: what `kernels.cu` is compiled and launched with."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax

from ...backends.nvrtc import cuda_kernel
from ..on_gpu import WARP

__all__ = ["multiplied"]


@functools.cache
def _source() -> str:
    return Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")


def multiplied(y: Any, w: Any, structure: Any, out: Any, *, of_columns: bool) -> jax.Array:
    """Return each value of w times that of its row in y, or of its column; `structure` says which those are."""
    (batch, stored), neurons = out.shape, y.shape[1]
    kernel = cuda_kernel(
        _source(),
        "of_columns" if of_columns else "of_rows",
        out,
        launch_dims=stored if of_columns else WARP * neurons * batch,
        types={"A": out.dtype, "I": structure.dtype, "P": structure.dtype},
        zeroed=not of_columns,
    )
    size = "columns" if of_columns else "rows"
    numbers = {size: neurons, "stored": stored, "batch": batch, "of_y": y.shape[0], "of_w": w.shape[0]}
    found: jax.Array = kernel(y, w, structure, **numbers)
    return found
