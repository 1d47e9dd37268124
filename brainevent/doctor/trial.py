# SPDX-License-Identifier: Apache-2.0
"""Compile and run a kernel, as a test of this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from ..errors import KernelExecutionError
from ..languages import language
from ..toolchain import cache, directory
from .findings import Line

__all__ = ["trials"]

_CPP = """
#include "brainevent/common.h"
// @BE add_one arg ret
void add_one(const BE::Tensor x, BE::Tensor y) {
  for (int64_t i = 0; i < x.numel(); ++i) y.data_ptr<float>()[i] = x.data_ptr<float>()[i] + 1;
}
"""
_CUDA = """
#include <cuda_runtime.h>
#include "brainevent/common.h"
__global__ void add_one_kernel(const float* x, float* y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + 1;
}
// @BE add_one arg ret stream
void add_one(const BE::Tensor x, BE::Tensor y, int64_t stream) {
  add_one_kernel<<<1, 32, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.numel());
  BE_CHECK_KERNEL_LAUNCH();
}
"""


def trials() -> Iterator[Line]:
    """Compile and run a kernel in each language that compiles source here, in a temporary directory."""
    from ..backends.source.cpp import load_cpp_inline
    from ..backends.source.cuda import load_cuda_inline

    with tempfile.TemporaryDirectory(prefix="brainevent-", ignore_cleanup_errors=True) as folder:
        chosen = list(directory._chosen)
        cache.set_cache_dir(folder)
        try:
            yield _trial("cpp", load_cpp_inline, _CPP, "cpu")
            row = language("cuda_raw")
            why = row.why_missing() if row else None
            yield Line("cuda_raw", f"not here: {why}") if why else _trial("cuda_raw", load_cuda_inline, _CUDA, "cuda")
        finally:
            cache.set_cache_dir(chosen[0] if chosen else None)


def _trial(name: str, load: Callable[..., Any], source: str, platform_name: str) -> Line:
    """Compile, load and run."""
    try:
        start = time.perf_counter()
        module = load("brainevent_doctor", source, auto_register=False)
        built = time.perf_counter()
        x = jax.device_put(np.arange(3, dtype=np.float32), jax.devices(platform_name)[0])
        result = np.asarray(module.add_one(x, outs=x)).tolist()
        done = time.perf_counter()
        if result != [1, 2, 3]:
            raise KernelExecutionError(
                f"the kernel adds 1 to [0, 1, 2] and returns {result}; the compiler may be broken"
            )
    except Exception as error:  # noqa: BLE001
        return Line(name, f"ERROR ({type(error).__name__}): {str(error) or 'without a message'}", fault=True)
    return Line(name, f"compiled and loaded in {built - start:.1f} s, ran in {done - built:.2f} s")
