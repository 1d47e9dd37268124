# SPDX-License-Identifier: Apache-2.0
"""The text of CUDA C++ for numbers that loops have and rules have not: of 64 and of 16 bits.

Elements `Float16` and `BFloat16` are read as floats, and rounded when they are written, in the same bits as on the CPU.
"""

from __future__ import annotations

__all__ = ["WIDE_SHIM", "WIDE_TEXT"]

# What CUDA has and C++ has not.
WIDE_SHIM = r"""
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __longlong_as_double(long long u) { double x; std::memcpy(&x, &u, 8); return x; }
static inline int __popcll(unsigned long long u) { return __builtin_popcountll(u); }
"""

WIDE_TEXT = r"""
BE int int32_of_float32(double x) {
    return x != x ? 0 : x >= 0x1p31 ? 2147483647 : x <= -0x1p31 ? -2147483647 - 1 : (int)x;
}
BE unsigned uint32_of_float32(double x) { return x >= 0x1p32 ? 4294967295u : x > 0.0 ? (unsigned)x : 0u; }
template <class Float> BE long long int64_of_float32(Float x) {
    const long long largest = 0x7FFFFFFFFFFFFFFFll;
    return x != x ? 0 : x >= (Float)0x1p63 ? largest : x <= (Float)-0x1p63 ? -largest - 1 : (long long)x;
}
template <class Float> BE unsigned long long uint64_of_float32(Float x) {
    return x >= (Float)0x1p64 ? ~0ull : x > (Float)0 ? (unsigned long long)x : 0ull;
}
BE long long div_int64(long long a, long long b) {
    return b == 0 ? -1 : b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b;
}
BE long long rem_int64(long long a, long long b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
BE unsigned long long div_uint64(unsigned long long a, unsigned long long b) { return b == 0 ? ~0ull : a / b; }
BE unsigned long long rem_uint64(unsigned long long a, unsigned long long b) { return b == 0 ? a : a % b; }
BE unsigned long long shift_left_uint64(unsigned long long a, unsigned long long n) { return n < 64 ? a << n : 0ull; }
BE unsigned long long shift_right_logical_uint64(unsigned long long a, unsigned long long n) {
    return n < 64 ? a >> n : 0ull;
}
BE long long shift_right_arithmetic_int64(long long a, unsigned long long n) { return a >> (n < 64 ? n : 63ull); }
BE long long shift_left_int64(long long a, unsigned long long n) {
    return (long long)shift_left_uint64((unsigned long long)a, n);
}
BE long long shift_right_logical_int64(long long a, unsigned long long n) {
    return (long long)shift_right_logical_uint64((unsigned long long)a, n);
}
BE unsigned long long shift_right_arithmetic_uint64(unsigned long long a, unsigned long long n) {
    return (unsigned long long)shift_right_arithmetic_int64((long long)a, n);
}
BE unsigned long long bit_count_uint64(unsigned long long a) { return (unsigned long long)__popcll(a); }
BE long long bit_count_int64(long long a) { return __popcll((unsigned long long)a); }

BE float float_of_float16(unsigned bits) {
    const unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
    if (rest >= 0x7C00u) return __uint_as_float(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
    if (rest < 0x400u) return __uint_as_float(sign | __float_as_uint(__fmul_rn((float)rest, 0x1p-24f)));
    return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
}
BE unsigned float16_of_float(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return sign | 0x7E00u;
    if (rest >= 0x477FF000u) return sign | 0x7C00u;  // rounds to more than the largest, 65504
    if (rest < 0x38800000u) {  // below the smallest normal: the addition rounds
        return sign | (__float_as_uint(__fadd_rn(__uint_as_float(rest), 0.5f)) - 0x3F000000u);
    }
    return sign | ((rest + 0xFFFu + (rest >> 13 & 1u)) >> 13) - 0x1C000u;
}
BE float float_of_bfloat16(unsigned bits) { return __uint_as_float(bits << 16); }
BE unsigned bfloat16_of_float(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}
BE float rounded_float16(float x) { return float_of_float16(float16_of_float(x)); }
BE float rounded_bfloat16(float x) { return float_of_bfloat16(bfloat16_of_float(x)); }
#ifdef __CUDACC__
#define BE_MEMBER __device__ __forceinline__
#else
#define BE_MEMBER inline
#endif
struct Float16 {
    unsigned short bits;
    Float16() = default;
    BE_MEMBER Float16(float x) : bits((unsigned short)float16_of_float(x)) {}
    BE_MEMBER operator float() const { return float_of_float16(bits); }
};
struct BFloat16 {
    unsigned short bits;
    BFloat16() = default;
    BE_MEMBER BFloat16(float x) : bits((unsigned short)bfloat16_of_float(x)) {}
    BE_MEMBER operator float() const { return float_of_bfloat16(bits); }
};
"""
