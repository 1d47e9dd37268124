# SPDX-License-Identifier: Apache-2.0
"""CUDA text of some functions that takes fewer instructions on a GPU, and gives the bits of their forms.

A fused product gives the rounding error of a product at once; one reciprocal serves two quotients, which fused products
round correctly; and an exponent is added to the bits of a number. What is not usual (NaN, what overflows, what is
denormal) is left to the form.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SHORT", "SHORT_TEXT"]

# By the name of a form: the parameters of the short function, which says whether it gives the result.
SHORT: Mapping[str, str] = {"exp": "float x", "pow": "float x, float y"}

SHORT_TEXT = r"""
BE float near_reciprocal(float x) {  // to one unit in the last place
#ifdef __CUDACC__
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return 1.0f / x;
#endif
}
struct OfTwo { float high, low; };  // a sum of two numbers
BE OfTwo exact_product(float a, float b) {
    const float product = __fmul_rn(a, b);
    return {product, __fmaf_rn(a, b, -product)};
}
BE OfTwo exact_sum(float a, float b) {  // of which a is 0, or not smaller than b
    const float sum = __fadd_rn(a, b);
    return {sum, __fsub_rn(b, __fsub_rn(sum, a))};
}
BE float exact_quotient(float a, float b, float reciprocal) {  // of numbers that are far from all limits
    float quotient = __fmul_rn(a, reciprocal);
    quotient = __fmaf_rn(__fmaf_rn(-b, quotient, a), reciprocal, quotient);
    return __fmaf_rn(__fmaf_rn(-b, quotient, a), reciprocal, quotient);
}

// e^(x + low), for x from -80 to 80.
BE float near_exp(float x, float low, bool has_low) {
    const float large = 0x1.8p+23f;  // what is added to it is rounded to an integer, in its last bits
    const float shifted = __fadd_rn(__fmul_rn(x, 0x1.715476p+0f), large), k = __fsub_rn(shifted, large);
    float r = __fsub_rn(__fmaf_rn(-k, 0x1.63p-1f, x), __fmul_rn(k, -0x1.bd0106p-13f));
    if (has_low) r = __fadd_rn(r, low);
    float p = __fadd_rn(__fmul_rn(0x1.a0d2cep-13f, r), 0x1.6e879cp-10f);
    p = __fadd_rn(__fmul_rn(p, r), 0x1.11121p-7f);
    p = __fadd_rn(__fmul_rn(p, r), 0x1.555382p-5f);
    p = __fadd_rn(__fmul_rn(p, r), 0x1.555554p-3f);
    p = __fadd_rn(__fmul_rn(p, r), 0.5f);
    const float e = __fadd_rn(1.0f, __fadd_rn(r, __fmul_rn(__fmul_rn(r, r), p)));
    return __uint_as_float(__float_as_uint(e) + (__float_as_uint(shifted) << 23));
}

// The logarithm of a positive number that is normal.
BE OfTwo near_log(float x) {
    const unsigned above = __float_as_uint(x) - 1060439283u;
    const float m = __uint_as_float(__float_as_uint(x) - (above & 0xFF800000u));
    const float e = (float)((int)above >> 23);
    const float f = __fsub_rn(m, 1.0f);
    const OfTwo g = exact_sum(1.0f, m);
    const float near = near_reciprocal(g.high), reciprocal = __fmaf_rn(near, __fmaf_rn(-g.high, near, 1.0f), near);
    const float s = exact_quotient(f, g.high, reciprocal);
    const OfTwo back = exact_product(s, g.high);
    const float left = __fsub_rn(__fsub_rn(__fsub_rn(f, back.high), back.low), __fmul_rn(s, g.low));
    const float s_low = exact_quotient(left, g.high, reciprocal);
    const OfTwo square = exact_product(s, s), cube = exact_product(s, square.high);
    const OfTwo third = exact_product(cube.high, 0x1.555556p-1f);
    const float cube_low = __fadd_rn(cube.low, __fmul_rn(s, square.low));
    float third_low = __fadd_rn(third.low, __fmul_rn(cube.high, -0x1.555556p-26f));
    third_low = __fadd_rn(third_low, __fmul_rn(cube_low, 0x1.555556p-1f));
    float p = __fadd_rn(__fmul_rn(0x1.745d18p-3f, square.high), 0x1.c71c72p-3f);
    p = __fadd_rn(__fmul_rn(p, square.high), 0x1.24924ap-2f);
    p = __fadd_rn(__fmul_rn(p, square.high), 0x1.99999ap-2f);
    const float tail = __fmul_rn(__fmul_rn(__fmul_rn(__fmul_rn(third.high, 1.5f), s), s), p);
    const OfTwo sum = exact_sum(__fmul_rn(e, 0x1.63p-1f), __fadd_rn(s, s));
    float low = __fadd_rn(__fmul_rn(__fmaf_rn(2.0f, square.high, 2.0f), s_low), third_low);
    low = __fadd_rn(__fadd_rn(low, tail), __fmul_rn(e, -0x1.bd0106p-13f));
    return exact_sum(sum.high, __fadd_rn(sum.low, __fadd_rn(third.high, low)));
}

BE bool short_exp(float x, float& result) {
    result = near_exp(x, 0.0f, false);
    return fabsf(x) < 80.0f;
}
BE bool short_pow(float x, float y, float& result) {
    const OfTwo log = near_log(x), product = exact_product(y, log.high);
    result = near_exp(product.high, __fadd_rn(product.low, __fmul_rn(y, log.low)), true);
    return __float_as_uint(x) - 0x00800000u < 0x7F000000u && fabsf(product.high) < 80.0f;
}
"""
