// SPDX-License-Identifier: Apache-2.0
// Element types: the enumeration, half precision, complex numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define BE_HOST_DEVICE __host__ __device__
#else
#define BE_HOST_DEVICE
#endif

// CUDA's half types cost a third of a build: the build omits them if nothing uses them.
#if defined(__CUDACC__) && !defined(BE_WITHOUT_HALF)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace BE {

enum class DType : uint8_t {
  Float16 = 0,
  Float32 = 1,
  Float64 = 2,
  BFloat16 = 3,
  Int8 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  UInt8 = 8,
  UInt16 = 9,
  UInt32 = 10,
  UInt64 = 11,
  Bool = 12,
  Complex64 = 13,
  Complex128 = 14,
  Invalid = 255,
};

namespace detail {
struct DTypeRow {
  const char* name;
  uint8_t size;
};
constexpr DTypeRow kDTypes[] = {{"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"int8", 1},
                                {"int16", 2},   {"int32", 4},   {"int64", 8},   {"uint8", 1},    {"uint16", 2},
                                {"uint32", 4},  {"uint64", 8},  {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
constexpr bool is_known(DType dtype) { return static_cast<size_t>(dtype) < sizeof(kDTypes) / sizeof(kDTypes[0]); }
}  // namespace detail

// Bytes of one element; 0 for Invalid.
inline size_t dtype_size(DType dtype) {
  return detail::is_known(dtype) ? detail::kDTypes[static_cast<size_t>(dtype)].size : 0;
}

// NumPy's name, such as "float32".
inline const char* dtype_name(DType dtype) {
  return detail::is_known(dtype) ? detail::kDTypes[static_cast<size_t>(dtype)].name : "invalid";
}

struct complex64_t {
  float real, imag;
};

struct complex128_t {
  double real, imag;
};

#if defined(__CUDACC__) && !defined(BE_WITHOUT_HALF)

using float16_t = __half;
using bfloat16_t = __nv_bfloat16;

#elif !defined(__CUDACC__)

namespace detail {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A float in 16 bits, rounded to nearest, ties to even; `Format` describes the bits.
template <typename Format>
struct Half {
  uint16_t bits;

  Half() = default;
  Half(float value) : bits(Format::from_float(value)) {}
  operator float() const { return Format::to_float(bits); }
  Half operator-() const { return Half(-float(*this)); }
  Half& operator+=(float value) { return *this = Half(float(*this) + value); }
  Half& operator-=(float value) { return *this = Half(float(*this) - value); }
  Half& operator*=(float value) { return *this = Half(float(*this) * value); }
  Half& operator/=(float value) { return *this = Half(float(*this) / value); }
};

struct BFloat16Format {
  static float to_float(uint16_t bits) { return float_of(uint32_t{bits} << 16); }
  static uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // quiet NaN
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

struct Float16Format {
  static float to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    if (exponent == 31u) return float_of(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0u) return float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
    const float tiny = float(fraction) * (1.0f / 16777216.0f);  // a subnormal is a multiple of 2^-24
    return sign ? -tiny : tiny;
  }
  static uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    if (magnitude > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((magnitude >> 13) & 0x1ffu);
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // from 65520 on, the nearest is infinity
    if (magnitude < 0x33000001u) return sign;             // up to 2^-25, the nearest is zero
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 113u) {  // subnormal: in units of 2^-24
      const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u, shift = 126u - exponent;
      const uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1u), half = 1u << (shift - 1u);
      return static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
};

}  // namespace detail

using float16_t = detail::Half<detail::Float16Format>;
using bfloat16_t = detail::Half<detail::BFloat16Format>;

#endif

}  // namespace BE
