# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton, which reads them from their file: their names must be those of a module."""

import triton
import triton.language as tl


@triton.jit
def add(a, b, out, size: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < size
    tl.store(out + i, tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)
