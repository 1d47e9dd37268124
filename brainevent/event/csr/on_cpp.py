# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in C++ for the CPU: how `kernels.cc` is built and called."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ...backends.source.cpp import load_cpp_file

__all__ = ["product"]


@functools.cache
def _module() -> Any:
    return load_cpp_file(Path(__file__).with_name("kernels.cc"), name="brainevent_csr")


def product(weights: Any, indices: Any, indptr: Any, events: Any, sums: Any, *, transpose: bool, **_: Any) -> Any:
    """Return the sums of weights, indices, row pointers and events."""
    kernel = _module().scatter if transpose else _module().gather
    return kernel(weights, indices, indptr, events, outs=sums)
