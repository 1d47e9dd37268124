# SPDX-License-Identifier: Apache-2.0
"""The number of clusters of blocks that a GPU runs at once: not every multiprocessor can be part of one."""

from __future__ import annotations

import functools

import jax

from ...errors import CUDANotInstalledError, KernelLoadError
from ...ffi.devices import cuda_capabilities, cuda_multiprocessors
from ...ffi.launch import Limits
from ...ffi.launch.driver import driver
from ...toolchain.architectures import gpu_architectures
from .compiler import compiled
from .translation_unit import translation_unit

__all__ = ["most_clusters"]

_IDLE = "__global__ void __cluster_dims__({0}, 1, 1) idle(const int* x) {{}}"
_THREADS = 1024


def most_clusters(blocks: int) -> int:
    """Return how many clusters of this number of blocks, each on a separate multiprocessor, a device runs at once.

    Without a device, as in an export, return the number for every large device.
    """
    try:
        jax.devices("cuda")
        return max(1, _asked(blocks, gpu_architectures(None, cuda_capabilities)))
    except (RuntimeError, CUDANotInstalledError, KernelLoadError):
        return max(1, cuda_multiprocessors() // blocks - 2)


@functools.cache
def _asked(blocks: int, architectures: tuple[str, ...]) -> int:
    where = "most_clusters"
    code = compiled(where, translation_unit(where, _IDLE.format(blocks), "idle", None, ()), architectures)
    shared = Limits.of(architectures[0]).shared // 2 + 1024  # enough that no two blocks are on one multiprocessor
    its = driver()
    return its.clusters(its.kernel(code.binary, code.entry, shared), blocks, _THREADS, shared)
