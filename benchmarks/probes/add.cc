// SPDX-License-Identifier: Apache-2.0
// The yardstick: out = a + b as a hand-written XLA FFI handler, and a handler that does nothing.
#include "xla/ffi/api/ffi.h"

#ifndef SCALE
#define SCALE 1.0f
#endif

namespace ffi = xla::ffi;

static ffi::Error AddImpl(ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b, ffi::ResultBuffer<ffi::F32> out) {
  const float* left = a.typed_data();
  const float* right = b.typed_data();
  float* sum = out->typed_data();
  const int64_t size = out->element_count();
  for (int64_t i = 0; i < size; ++i) sum[i] = left[i] + SCALE * right[i];
  return ffi::Error::Success();
}

static ffi::Error NothingImpl(ffi::Buffer<ffi::F32>, ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>) {
  return ffi::Error::Success();
}

#define TWO_IN_ONE_OUT \
  ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(Add, AddImpl, TWO_IN_ONE_OUT);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Nothing, NothingImpl, TWO_IN_ONE_OUT);
