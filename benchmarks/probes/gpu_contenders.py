# SPDX-License-Identifier: Apache-2.0
"""The yardstick on a GPU, as a function of JAX arrays: (n,) + (n,) -> (n,)."""

import functools

import jax

from benchmarks.probes import cuda
from benchmarks.probes.contenders import Contender, like
from benchmarks.probes.cpp import register_handler


@functools.cache
def _target() -> str:
    return register_handler(cuda.build_handlers(), "Add", "bench_cuda_by_hand", "CUDA")


def make_cuda(vmap_method: str | None = None) -> Contender:
    """The CUDA handler written by hand."""
    return lambda a, b: jax.ffi.ffi_call(_target(), like(a), vmap_method=vmap_method)(a, b)
