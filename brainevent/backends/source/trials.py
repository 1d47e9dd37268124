# SPDX-License-Identifier: Apache-2.0
"""Functions that add one to an array of float32, as trials of the compilers of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cpp import load_cpp_inline
from .cuda import load_cuda_inline

__all__ = ["add_one_in_cpp", "add_one_in_cuda"]

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


def add_one_in_cpp() -> Callable[[Any], Any]:
    """Compile and load it."""
    module = load_cpp_inline("brainevent_doctor", _CPP, auto_register=False)
    return lambda x: module.add_one(x, outs=x)


def add_one_in_cuda() -> Callable[[Any], Any]:
    """Compile and load it."""
    module = load_cuda_inline("brainevent_doctor", _CUDA, auto_register=False)
    return lambda x: module.add_one(x, outs=x)
