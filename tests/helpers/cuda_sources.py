# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ that the GPU tests build."""

import functools

from cpp_sources import CPP_TYPES, DESCRIBED

import brainevent

BASICS = (
    r"""
#include <cuda_runtime.h>
#include <stdexcept>
#include "brainevent/common.h"
"""
    + DESCRIBED
    + r"""

template <typename T>
__global__ void add_kernel(const T* a, const T* b, T* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

__global__ void affine_kernel(const float* x, float* out, int64_t n, float scale, float offset) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = scale * x[i] + offset;
}

// Tensors go to the device by value.
__global__ void rows_kernel(const BE::Tensor x, BE::Tensor out) {
  const int row = blockIdx.x;
  float total = 0;
  for (int64_t j = 0; j < x.shape(1); ++j) total += x.data_ptr<float>()[row * x.stride(0) + j * x.stride(1)];
  out.data_ptr<float>()[row] = total;
}

__global__ void checked_kernel(const float* x, float* out, int n) {
  for (int i = 0; i < n; ++i) {
    BE_CHECK(x[i] >= 0) << "negative" << i;
    out[i] = x[i];
  }
}

static unsigned blocks(int64_t n) { return static_cast<unsigned>((n + 255) / 256); }

// @BE copy arg ret stream
void copy(const BE::Tensor x, BE::Tensor out, cudaStream_t stream) {
  BE_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr(), x.data_ptr(), x.nbytes(), cudaMemcpyDeviceToDevice, stream));
}

// @BE describe arg ret stream
void describe(const BE::Tensor x, BE::Tensor out, int64_t stream) {
  int32_t row[21];
  describe_in(row, x);
  BE_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr(), row, sizeof row, cudaMemcpyHostToDevice, (cudaStream_t)stream));
}

// @BE add arg arg ret stream
void add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, int64_t stream) {
  const int64_t n = out.numel();
  if (n == 0) return;
  BE_DISPATCH_FLOATING_AND_HALF(a.dtype(), scalar_t, {
    add_kernel<scalar_t><<<blocks(n), 256, 0, (cudaStream_t)stream>>>(
        a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
  });
  BE_CHECK_KERNEL_LAUNCH();
}

// @BE affine arg ret attr.scale:float32 attr.offset stream
void affine(const BE::Tensor x, BE::Tensor out, float scale, float offset, int64_t stream) {
  const int64_t n = x.numel();
  affine_kernel<<<blocks(n), 256, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, scale,
                                                             offset);
  BE_CHECK_KERNEL_LAUNCH();
}

// @BE sum_rows arg ret stream
void sum_rows(const BE::Tensor x, BE::Tensor out, int64_t stream) {
  rows_kernel<<<static_cast<unsigned>(x.shape(0)), 1, 0, (cudaStream_t)stream>>>(x, out);
  BE_CHECK_KERNEL_LAUNCH();
}

// @BE fail arg ret attr.how stream
void fail(const BE::Tensor x, BE::Tensor out, int how, int64_t stream) {
  BE_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, out.nbytes(), (cudaStream_t)stream));
  BE_CHECK(how != 1) << "how is " << how;
  if (how == 2) throw std::runtime_error("out of paper");
  if (how == 3) affine_kernel<<<1, 4096, 0, (cudaStream_t)stream>>>(nullptr, nullptr, 0, 0, 0);  // too many threads
  BE_CHECK_KERNEL_LAUNCH();
  if (how == 4) BE_CUDA_CHECK(cudaSetDevice(4096));
}

// @BE checked arg ret stream
void checked(const BE::Tensor x, BE::Tensor out, int64_t stream) {
  checked_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel_checked_int());
}
"""
)

# Counts on the host how often it was called, and how often while XLA recorded a graph.
COUNTING = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

extern "C" BE_EXPORT long calls[2];
long calls[2] = {0, 0};

__global__ void add_one(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = x[i] + 1;
}

// @BE count arg ret stream
void count(const BE::Tensor x, BE::Tensor out, cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  BE_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  ++calls[0];
  calls[1] += status == cudaStreamCaptureStatusActive;
  add_one<<<static_cast<unsigned>((x.numel() + 255) / 256), 256, 0, stream>>>(x.data_ptr<float>(),
                                                                             out.data_ptr<float>(), x.numel());
  BE_CHECK_KERNEL_LAUNCH();
}
"""

ECHO = '#include "brainevent/common.h"\n' + "\n".join(
    f"""
__global__ void write_{kind}({cpp}* out, {cpp} value) {{ *out = value; }}
// @BE echo_{kind} ret attr.value:{kind} stream
void echo_{kind}(BE::Tensor out, {cpp} value, int64_t stream) {{
  write_{kind}<<<1, 1, 0, (cudaStream_t)stream>>>(out.data_ptr<{cpp}>(), value);
}}"""
    for kind, cpp in CPP_TYPES.items()
)


@functools.cache
def echo() -> brainevent.CompiledModule:
    """Return the module of `ECHO`."""
    return brainevent.load_cuda_inline("cuda_echo", ECHO)


@functools.cache
def basics(**options: object) -> brainevent.CompiledModule:
    """Return the module of `BASICS`."""
    return brainevent.load_cuda_inline("cuda_basics", BASICS, **options)
