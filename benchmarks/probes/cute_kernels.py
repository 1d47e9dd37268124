# SPDX-License-Identifier: Apache-2.0
"""Kernels in CuTe DSL, which reads them from their file."""

from cutlass import cute

_BLOCK = 256


@cute.kernel
def _add(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor):  # type: ignore[no-untyped-def]
    i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
    if i < cute.size(out):
        out[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream):  # type: ignore[no-untyped-def]
    blocks = (cute.size(out) + _BLOCK - 1) // _BLOCK
    _add(a, b, out).launch(grid=[blocks, 1, 1], block=[_BLOCK, 1, 1], stream=stream)
