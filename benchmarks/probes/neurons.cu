// SPDX-License-Identifier: Apache-2.0
// The yardsticks of the examples, as hand-written XLA FFI handlers that may be recorded in CUDA graphs.
#include <cuda_runtime.h>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static unsigned Blocks(int64_t size) { return static_cast<unsigned>((size + 255) / 256); }

// One thread per row of the matrix: what it is worth is added to each of its columns, if there was a spike.
__global__ void SpikeRows(const float* weights, const int* indices, const int* indptr, const bool* spikes, float* post,
                          int n_pre) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n_pre || !spikes[i]) return;
  const float weight = weights[0];
  for (int j = indptr[i]; j < indptr[i + 1]; ++j) atomicAdd(&post[indices[j]], weight);
}

static ffi::Error CsrImpl(cudaStream_t stream, ffi::Buffer<ffi::F32> weights, ffi::Buffer<ffi::S32> indices,
                          ffi::Buffer<ffi::S32> indptr, ffi::Buffer<ffi::PRED> spikes,
                          ffi::ResultBuffer<ffi::F32> post) {
  const int n_pre = static_cast<int>(spikes.element_count());
  cudaMemsetAsync(post->typed_data(), 0, post->size_bytes(), stream);
  SpikeRows<<<Blocks(n_pre), 256, 0, stream>>>(weights.typed_data(), indices.typed_data(), indptr.typed_data(),
                                               spikes.typed_data(), post->typed_data(), n_pre);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Csr, CsrImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::PRED>>()
                                  .Ret<ffi::Buffer<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});

// A neuron over its threshold spikes, and goes back to rest.
__global__ void FireEach(const float* v, const float* threshold, const float* rest, int* spikes, float* after, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const bool spike = v[i] >= threshold[0];
  spikes[i] = spike;
  after[i] = spike ? rest[0] : v[i];
}

static ffi::Error LifImpl(cudaStream_t stream, ffi::Buffer<ffi::F32> v, ffi::Buffer<ffi::F32> threshold,
                          ffi::Buffer<ffi::F32> rest, ffi::ResultBuffer<ffi::S32> spikes,
                          ffi::ResultBuffer<ffi::F32> after) {
  const int64_t n = v.element_count();
  FireEach<<<Blocks(n), 256, 0, stream>>>(v.typed_data(), threshold.typed_data(), rest.typed_data(),
                                          spikes->typed_data(), after->typed_data(), n);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Lif, LifImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});
