# SPDX-License-Identifier: Apache-2.0
"""C++ that several tests build, and ways to build it."""

import brainevent

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
DTYPE_CODES = {
    "float16": 0, "float32": 1, "float64": 2, "bfloat16": 3, "int8": 4, "int16": 5, "int32": 6, "int64": 7,
    "uint8": 8, "uint16": 9, "uint32": 10, "uint64": 11, "bool": 12, "complex64": 13, "complex128": 14,
}  # fmt: skip

# Writes dtype, rank, elements, bytes, element size, then shape and strides, into 21 integers.
DESCRIBED = r"""
static void describe_in(int32_t* row, const BE::Tensor& x) {
  for (int i = 0; i < 21; ++i) row[i] = -1;
  row[0] = static_cast<int32_t>(x.dtype());
  row[1] = x.ndim();
  row[2] = x.numel_checked_int();
  row[3] = static_cast<int32_t>(x.nbytes());
  row[4] = static_cast<int32_t>(x.element_size());
  for (int i = 0; i < x.ndim(); ++i) {
    BE_CHECK(x.size(i) == x.shape(i) && x.shape_ptr()[i] == x.shape(i) && x.strides_ptr()[i] == x.stride(i));
    row[5 + i] = static_cast<int32_t>(x.shape(i));
    row[13 + i] = static_cast<int32_t>(x.stride(i));
  }
}
"""

BASICS = (
    r"""
#include <cstring>
#include <stdexcept>
#include "brainevent/common.h"
"""
    + DESCRIBED
    + r"""

// @BE copy arg ret
void copy(const BE::Tensor x, BE::Tensor out) { std::memcpy(out.data_ptr(), x.data_ptr(), x.nbytes()); }

// @BE describe arg ret
void describe(const BE::Tensor x, BE::Tensor out) { describe_in(out.data_ptr<int32_t>(), x); }

// @BE add arg arg ret
void add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out) {
  BE_CHECK(a.numel() == out.numel() && b.numel() == out.numel());
  BE_DISPATCH_FLOATING(a.dtype(), scalar_t, {
    for (int64_t i = 0; i < out.numel(); ++i)
      out.data_ptr<scalar_t>()[i] = a.data_ptr<scalar_t>()[i] + b.data_ptr<scalar_t>()[i];
  });
}

// @BE affine arg ret attr.scale:float32 attr.offset:float32
void affine(const BE::Tensor x, BE::Tensor out, float scale, float offset) {
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = scale * x.data_ptr<float>()[i] + offset;
}

// @BE sum_and_largest arg ret ret
void sum_and_largest(const BE::Tensor x, BE::Tensor total, BE::Tensor largest) {
  float sum = 0, most = -1e30f;
  for (int64_t i = 0; i < x.numel(); ++i) {
    sum += x.data_ptr<float>()[i];
    most = x.data_ptr<float>()[i] > most ? x.data_ptr<float>()[i] : most;
  }
  *total.data_ptr<float>() = sum;
  *largest.data_ptr<float>() = most;
}

// @BE add_one_in_place arg ret
void add_one_in_place(const BE::Tensor, BE::Tensor& out) {
  for (int64_t i = 0; i < out.numel(); ++i) out.data_ptr<float>()[i] += 1;
}

// @BE fail arg ret attr.how
void fail(const BE::Tensor x, BE::Tensor out, int how) {
  std::memset(out.data_ptr(), 0, out.nbytes());
  BE_CHECK(how != 1) << "how is " << how << ", x has " << x.numel() << " of " << x.dtype() << ' ' << 2.5 << true;
  if (how == 2) throw std::runtime_error("out of paper");
  if (how == 3) throw 3;
  BE_CHECK(how != 4);
}
"""
)

CPP_TYPES = {
    "bool": "bool", "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
    **{kind: f"{kind}_t" for kind in INTEGERS},
}  # fmt: skip  # of attributes, which tests echo


def basics() -> brainevent.CompiledModule:
    """Return the module of `BASICS`, from the cache after the first time."""
    return brainevent.load_cpp_inline("basics", BASICS)
