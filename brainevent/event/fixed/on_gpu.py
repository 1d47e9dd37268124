# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of products with a matrix of equally long rows: those of compressed rows, without row pointers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..csr import on_gpu as compressed

__all__ = ["cuda_product"]


def cuda_product(outs: Sequence[Any], *, transpose: bool, event: bool, **variant: Any) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices and x."""

    def product(weights: Any, indices: Any, x: Any) -> list[Any]:
        how = {"transpose": transpose, "event": event, "indexed": False, "connections": indices.shape[1]}
        flat = indices.reshape(indices.size)
        return compressed.cuda_product(outs, **how, **variant)(weights.reshape(weights.size), flat, flat, x)

    return product
