// SPDX-License-Identifier: Apache-2.0
// From a dtype known at run time to a C++ type: the body is compiled once for each type of a family.
//
//     BE_DISPATCH_FLOATING(x.dtype(), scalar_t, { run(x.data_ptr<scalar_t>(), x.numel()); });
//
// The body is that of a lambda: it can use all variables around it, and `return` leaves it.  A dtype outside the family
// throws BE::DTypeError.
//
// On the CPU, BE_DISPATCH_FLOATING_AND_HALF means float32 and float64, because 16-bit arithmetic is missing there; with
// `#define BE_CPU_HALF` before the include it has float16 and bfloat16 too, which compute by way of float.
#pragma once

#include <cstdint>

#include "brainevent/check.h"
#include "brainevent/dtypes.h"

namespace BE {
namespace detail {
[[noreturn]] inline void refuse_dtype(const char* macro, DType dtype, const char* family) {
  Text text;
  text << macro << ": dtype " << dtype << " is not one of " << family
       << "; convert the array first, for example with x.astype(...)";
  throw DTypeError(text.c_str());
}
}  // namespace detail
}  // namespace BE

#define BE_DETAIL_CASE(DTYPE, TYPE, NAME, ...) \
  case BE::DType::DTYPE: {                     \
    using NAME [[maybe_unused]] = TYPE;        \
    [&] { __VA_ARGS__ }();                     \
    break;                                     \
  }

#define BE_DETAIL_FLOATING(NAME, ...)                 \
  BE_DETAIL_CASE(Float32, float, NAME, __VA_ARGS__)   \
  BE_DETAIL_CASE(Float64, double, NAME, __VA_ARGS__)

#define BE_DETAIL_HALF(NAME, ...)                             \
  BE_DETAIL_CASE(Float16, BE::float16_t, NAME, __VA_ARGS__)   \
  BE_DETAIL_CASE(BFloat16, BE::bfloat16_t, NAME, __VA_ARGS__)

#define BE_DETAIL_SIGNED_INDEX(NAME, ...)            \
  BE_DETAIL_CASE(Int32, int32_t, NAME, __VA_ARGS__)  \
  BE_DETAIL_CASE(Int64, int64_t, NAME, __VA_ARGS__)

#define BE_DETAIL_INTEGRAL(NAME, ...)                  \
  BE_DETAIL_CASE(Bool, bool, NAME, __VA_ARGS__)        \
  BE_DETAIL_CASE(Int8, int8_t, NAME, __VA_ARGS__)      \
  BE_DETAIL_CASE(Int16, int16_t, NAME, __VA_ARGS__)    \
  BE_DETAIL_SIGNED_INDEX(NAME, __VA_ARGS__)            \
  BE_DETAIL_CASE(UInt8, uint8_t, NAME, __VA_ARGS__)    \
  BE_DETAIL_CASE(UInt16, uint16_t, NAME, __VA_ARGS__)  \
  BE_DETAIL_CASE(UInt32, uint32_t, NAME, __VA_ARGS__)  \
  BE_DETAIL_CASE(UInt64, uint64_t, NAME, __VA_ARGS__)

#define BE_DETAIL_COMPLEX(NAME, ...)                              \
  BE_DETAIL_CASE(Complex64, BE::complex64_t, NAME, __VA_ARGS__)   \
  BE_DETAIL_CASE(Complex128, BE::complex128_t, NAME, __VA_ARGS__)

#define BE_DETAIL_SWITCH(MACRO, DTYPE, FAMILY, ...)                                 \
  do {                                                                              \
    const BE::DType be_dtype = (DTYPE);                                             \
    switch (be_dtype) {                                                             \
      __VA_ARGS__                                                                   \
      default:                                                                      \
        BE::detail::refuse_dtype(MACRO, be_dtype, FAMILY);                          \
    }                                                                               \
  } while (false)

#define BE_DISPATCH_FLOATING(DTYPE, NAME, ...) \
  BE_DETAIL_SWITCH("BE_DISPATCH_FLOATING", DTYPE, "float32, float64", BE_DETAIL_FLOATING(NAME, __VA_ARGS__))

#if defined(__CUDACC__) || defined(BE_CPU_HALF)
#define BE_DISPATCH_FLOATING_AND_HALF(DTYPE, NAME, ...)                                           \
  BE_DETAIL_SWITCH("BE_DISPATCH_FLOATING_AND_HALF", DTYPE, "float16, bfloat16, float32, float64", \
                   BE_DETAIL_FLOATING(NAME, __VA_ARGS__) BE_DETAIL_HALF(NAME, __VA_ARGS__))
#else
#define BE_DISPATCH_FLOATING_AND_HALF(DTYPE, NAME, ...)                                                         \
  BE_DETAIL_SWITCH("BE_DISPATCH_FLOATING_AND_HALF", DTYPE, "float32, float64 (and halves, with BE_CPU_HALF)",   \
                   BE_DETAIL_FLOATING(NAME, __VA_ARGS__))
#endif

#define BE_DISPATCH_INTEGRAL(DTYPE, NAME, ...) \
  BE_DETAIL_SWITCH("BE_DISPATCH_INTEGRAL", DTYPE, "bool, int8 to int64, uint8 to uint64", \
                   BE_DETAIL_INTEGRAL(NAME, __VA_ARGS__))

#define BE_DISPATCH_SIGNED_INDEX(DTYPE, NAME, ...) \
  BE_DETAIL_SWITCH("BE_DISPATCH_SIGNED_INDEX", DTYPE, "int32, int64", BE_DETAIL_SIGNED_INDEX(NAME, __VA_ARGS__))

// Two index types at once, independent of each other.
#define BE_DISPATCH_SIGNED_INDEX_PAIR(DTYPE1, DTYPE2, NAME1, NAME2, ...)             \
  BE_DISPATCH_SIGNED_INDEX(DTYPE1, NAME1, {                                          \
    const BE::DType be_second = (DTYPE2);                                            \
    switch (be_second) {                                                             \
      BE_DETAIL_CASE(Int32, int32_t, NAME2, __VA_ARGS__)                             \
      BE_DETAIL_CASE(Int64, int64_t, NAME2, __VA_ARGS__)                             \
      default:                                                                       \
        BE::detail::refuse_dtype("BE_DISPATCH_SIGNED_INDEX_PAIR", be_second, "int32, int64"); \
    }                                                                                \
  })

#define BE_DISPATCH_CSR_INDPTR(DTYPE, NAME, ...) \
  BE_DETAIL_SWITCH("BE_DISPATCH_CSR_INDPTR", DTYPE, "int32, int64", BE_DETAIL_SIGNED_INDEX(NAME, __VA_ARGS__))

#define BE_DISPATCH_COMPLEX(DTYPE, NAME, ...) \
  BE_DETAIL_SWITCH("BE_DISPATCH_COMPLEX", DTYPE, "complex64, complex128", BE_DETAIL_COMPLEX(NAME, __VA_ARGS__))

#define BE_DISPATCH_ALL_TYPES(DTYPE, NAME, ...)                                                            \
  BE_DETAIL_SWITCH("BE_DISPATCH_ALL_TYPES", DTYPE, "float32, float64, bool, int8 to int64, uint8 to uint64", \
                   BE_DETAIL_FLOATING(NAME, __VA_ARGS__) BE_DETAIL_INTEGRAL(NAME, __VA_ARGS__))

#define BE_DISPATCH_ALL(DTYPE, NAME, ...)                                                              \
  BE_DETAIL_SWITCH("BE_DISPATCH_ALL", DTYPE, "the dtypes of BE::DType",                                \
                   BE_DETAIL_FLOATING(NAME, __VA_ARGS__) BE_DETAIL_HALF(NAME, __VA_ARGS__)             \
                   BE_DETAIL_INTEGRAL(NAME, __VA_ARGS__) BE_DETAIL_COMPLEX(NAME, __VA_ARGS__))

#define BE_CHECK_CSR_INDICES_INT32(TENSOR) \
  BE_CHECK((TENSOR).dtype() == BE::DType::Int32) << "indices are " << (TENSOR).dtype() << "; pass int32"
