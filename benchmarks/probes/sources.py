# SPDX-License-Identifier: Apache-2.0
"""The texts that the loaders compile: out = a + b in C++ and in CUDA C++."""

CPP_ADD = """
#include "brainevent/common.h"

// @BE vector_add arg arg ret
void vector_add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out) {
  const float* left = static_cast<const float*>(a.data_ptr());
  const float* right = static_cast<const float*>(b.data_ptr());
  float* sum = static_cast<float*>(out.data_ptr());
  const int64_t size = out.numel();
  for (int64_t i = 0; i < size; ++i) sum[i] = left[i] + right[i];
}
"""

CUDA_ADD = """
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void add_each(const float* a, const float* b, float* out, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = a[i] + b[i];
}

// @BE vector_add arg arg ret stream
void vector_add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, int64_t stream) {
  const int64_t size = out.numel();
  add_each<<<(size + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
      static_cast<const float*>(a.data_ptr()), static_cast<const float*>(b.data_ptr()),
      static_cast<float*>(out.data_ptr()), size);
}
"""

# The same, which counts how often the host launches it.
COUNTING_ADD = """
#include <cuda_runtime.h>
#include "brainevent/common.h"

extern "C" BE_EXPORT long launches;
long launches = 0;

__global__ void add_each(const float* a, const float* b, float* out, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = a[i] + b[i];
}

// @BE counted_add arg arg ret stream
void counted_add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, cudaStream_t stream) {
  ++launches;
  const int64_t size = out.numel();
  add_each<<<static_cast<unsigned>((size + 255) / 256), 256, 0, stream>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                                                         out.data_ptr<float>(), size);
}
"""

# language -> the loader's name, and what it compiles.
LOADERS = {"cpp": ("load_cpp_inline", CPP_ADD), "cuda": ("load_cuda_inline", CUDA_ADD)}
FUNCTION = "vector_add"
