// SPDX-License-Identifier: Apache-2.0
// An array of XLA for a kernel: C-contiguous, not owned, passed by value, also to the device.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "brainevent/check.h"
#include "brainevent/dtypes.h"

namespace BE {

constexpr int kMaxDim = 8;

class Tensor {
 public:
  Tensor(void* data, DType dtype, int ndim, const int64_t* shape) : data_(data), ndim_(ndim), dtype_(dtype) {
    BE_CHECK(ndim <= kMaxDim) << "a tensor has at most 8 dimensions, found " << ndim;
    for (int i = ndim - 1; i >= 0; --i) {
      shape_[i] = shape[i];
      strides_[i] = numel_;
      numel_ *= shape[i];
    }
  }

  BE_HOST_DEVICE void* data_ptr() const { return data_; }
  BE_HOST_DEVICE void* data() const { return data_; }
  template <typename T>
  BE_HOST_DEVICE T* data_ptr() const {
    return static_cast<T*>(data_);
  }

  BE_HOST_DEVICE int ndim() const { return ndim_; }
  BE_HOST_DEVICE int64_t shape(int axis) const { return shape_[axis]; }
  BE_HOST_DEVICE int64_t size(int axis) const { return shape_[axis]; }
  BE_HOST_DEVICE int64_t stride(int axis) const { return strides_[axis]; }  // in elements
  BE_HOST_DEVICE const int64_t* shape_ptr() const { return shape_; }
  BE_HOST_DEVICE const int64_t* strides_ptr() const { return strides_; }
  BE_HOST_DEVICE int64_t numel() const { return numel_; }  // 1 for rank 0
  BE_HOST_DEVICE bool is_contiguous() const { return true; }
  BE_HOST_DEVICE DType dtype() const { return dtype_; }
  size_t element_size() const { return dtype_size(dtype_); }
  size_t nbytes() const { return static_cast<size_t>(numel_) * element_size(); }

  // For kernels that count in int.
  int numel_checked_int() const {
    BE_CHECK(numel_ <= INT_MAX) << numel_ << " elements are more than an int can count";
    return static_cast<int>(numel_);
  }

 private:
  void* data_;
  int64_t numel_ = 1;
  int ndim_;
  DType dtype_;
  int64_t shape_[kMaxDim];
  int64_t strides_[kMaxDim];
};

}  // namespace BE
