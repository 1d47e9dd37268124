// SPDX-License-Identifier: Apache-2.0
// The yardstick on a GPU: out = a + b as a hand-written XLA FFI handler that may be recorded in a CUDA graph.
#include <cuda_runtime.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

__global__ void AddEach(const float* a, const float* b, float* out, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = a[i] + b[i];
}

static ffi::Error AddImpl(cudaStream_t stream, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b,
                          ffi::ResultBuffer<ffi::F32> out) {
  const int64_t size = out->element_count();
  AddEach<<<(size + 255) / 256, 256, 0, stream>>>(a.typed_data(), b.typed_data(), out->typed_data(), size);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Add, AddImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});
