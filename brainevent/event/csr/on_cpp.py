# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in C++ for the CPU: how `kernels.cc` is built and called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from ...backends.source.cpp import load_cpp_file
from ..activity import is_active
from ..precision import precise

__all__ = ["cpp_product"]


@functools.cache
def _module() -> Any:
    return load_cpp_file(Path(__file__).with_name("kernels.cc"), name="brainevent_csr")


def cpp_product(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **_: Any) -> Callable[..., Any]:
    """Return the product as a JAX function of weights, indices, row pointers and events."""
    (out,) = outs
    kernel = _module().scatter if transpose else _module().gather

    def product(weights: Any, indices: Any, indptr: Any, x: Any) -> list[Any]:
        sums = jax.ShapeDtypeStruct(out.shape, precise(weights.dtype))
        return [kernel(weights, indices, indptr, is_active(x), outs=sums).astype(out.dtype)]

    return product
