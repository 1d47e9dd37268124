# SPDX-License-Identifier: Apache-2.0
"""Print forms as CUDA C++, which a C++ compiler takes as well after `SHIM`.

Compile without contraction, and flush denormals: NVRTC `--fmad=false --ftz=true` (and its default, correctly rounded
division and root); g++ `-ffp-contract=off`, and on x86 `FLUSHING` in the function that is called first.

Floats are added and multiplied by functions such as `__fadd_rn`, not by operators: where NVRTC (13.0) knows both
operands, and flushes denormals, it computes the operator itself and rounds ties away from zero, unlike the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .cuda_short import SHORT, SHORT_TEXT
from .cuda_wide import WIDE_SHIM, WIDE_TEXT
from .float64 import PRIMITIVES_64
from .form import FLOATS, WIDE_INTEGERS, Assign, Constant, Form, Name, Operand
from .text import ARITHMETIC, COMPARE, all_functions, printed

__all__ = ["FLUSHING", "LOOP_TYPES", "NVRTC_OPTIONS", "PREAMBLE", "SHIM", "TYPES", "cuda_text"]

NVRTC_OPTIONS = ("--fmad=false", "--ftz=true")

# What CUDA has and C++ has not.
SHIM = r"""
#include <cmath>
#include <cstring>
#define __device__ static
#define __forceinline__ inline
static inline unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
static inline float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline int __popc(unsigned u) { return __builtin_popcount(u); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#ifndef SHORTENS
#define SHORTENS false
#endif
"""
SHIM += WIDE_SHIM
SHIM += r"""
#include <xmmintrin.h>
struct Flushing {  // while it lives, this thread flushes denormals, of operands and of results
    unsigned before = _mm_getcsr();
    Flushing() { _mm_setcsr(0x9FC0); }
    ~Flushing() { _mm_setcsr(before); }
};
"""
FLUSHING = "Flushing flushing;"

# Integers are added and multiplied without a sign, where overflow is defined.
PREAMBLE = r"""
#ifndef SHORTENS
#define SHORTENS true
#endif
#define BE __device__ __forceinline__
BE float flush(float x) {
    return __float_as_uint(x) & 0x7F800000u ? x : __uint_as_float(__float_as_uint(x) & 0x80000000u);
}
BE unsigned bits_of(float x) { return x != x ? 0x7FC00000u : __float_as_uint(x); }
#ifdef __CUDACC__
BE int int32_of_float32(float x) {  // the GPU's own saturates, and makes 0 of NaN
    int result;
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;
}
BE unsigned uint32_of_float32(float x) {
    unsigned result;
    asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;
}
#else
BE int int32_of_float32(float x) {
    return x != x ? 0 : x >= 0x1p31f ? 2147483647 : x <= -0x1p31f ? -2147483647 - 1 : (int)x;
}
BE unsigned uint32_of_float32(float x) { return x >= 0x1p32f ? 4294967295u : x > 0.0f ? (unsigned)x : 0u; }
#endif
BE int div_int32(int a, int b) { return b == 0 ? -1 : b == -1 ? (int)(0u - (unsigned)a) : a / b; }
BE int rem_int32(int a, int b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
BE unsigned div_uint32(unsigned a, unsigned b) { return b == 0 ? 4294967295u : a / b; }
BE unsigned rem_uint32(unsigned a, unsigned b) { return b == 0 ? a : a % b; }
BE unsigned shift_left_uint32(unsigned a, unsigned n) { return n < 32 ? a << n : 0u; }
BE unsigned shift_right_logical_uint32(unsigned a, unsigned n) { return n < 32 ? a >> n : 0u; }
BE int shift_right_arithmetic_int32(int a, unsigned n) { return a >> (n < 32 ? n : 31u); }
BE int shift_left_int32(int a, unsigned n) { return (int)shift_left_uint32((unsigned)a, n); }
BE int shift_right_logical_int32(int a, unsigned n) { return (int)shift_right_logical_uint32((unsigned)a, n); }
BE unsigned shift_right_arithmetic_uint32(unsigned a, unsigned n) {
    return (unsigned)shift_right_arithmetic_int32((int)a, n);
}
BE unsigned mul_high_uint32(unsigned a, unsigned b) { return __umulhi(a, b); }
BE int mul_high_int32(int a, int b) { return __mulhi(a, b); }
BE unsigned bit_count_uint32(unsigned a) { return (unsigned)__popc(a); }
BE int bit_count_int32(int a) { return __popc((unsigned)a); }
"""

TYPES = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}
LOOP_TYPES = TYPES | {"float64": "double", "int64": "long long", "uint64": "unsigned long long"}  # those of loops, too
_FLOAT = {op: f"__f{op}_rn({{0}}, {{1}})" for op in ARITHMETIC}
_FLOAT |= {"rem": "flush(fmodf({0}, {1}))", "neg": "-{0}", "abs": "fabsf({0})", "sqrt": "__fsqrt_rn({0})"}
_FLOAT |= {"floor": "floorf({0})", "ceil": "ceilf({0})", "round": "rintf({0})"}
_FLOAT |= {"max": "{0} > {1} || {0} != {0} ? {0} : {1}", "min": "{0} < {1} || {0} != {0} ? {0} : {1}"}
_FLOAT |= {f"round_to_{name}": f"rounded_{name}({{0}})" for name in ("float16", "bfloat16")}
_FLOAT64 = _FLOAT | {op: f"__d{op}_rn({{0}}, {{1}})" for op in ARITHMETIC}
_FLOAT64 |= {"rem": "fmod({0}, {1})", "abs": "fabs({0})", "sqrt": "__dsqrt_rn({0})"}
_FLOAT64 |= {"floor": "floor({0})", "ceil": "ceil({0})", "round": "rint({0})"}
_UNSIGNED = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_INTEGER = {"max": "{0} > {1} ? {0} : {1}", "min": "{0} < {1} ? {0} : {1}", "not": "~{0}"}
_BOOL = {"and": "{0} && {1}", "or": "{0} || {1}", "xor": "{0} != {1}", "not": "!{0}"}


class _Cuda:
    """CUDA C++."""

    closing: tuple[str, ...] = ("}",)
    separator: str = ";"

    def __init__(self, form: Form):
        self.returns = len(form.outputs) == 1

    def operand(self, operand: Operand) -> str:
        return operand.text if isinstance(operand, Name) else _literal(operand)

    def operation(self, line: Assign) -> str:
        x = [self.operand(operand) for operand in line.operands]
        dtype, given = line.target.dtype, line.operands[0].dtype
        if line.op == "select":
            return f"{x[0]} ? {x[1]} : {x[2]}"
        if line.op in COMPARE:
            return f"{x[0]} {COMPARE[line.op]} {x[1]}"
        if line.op in ("convert", "bitcast"):
            return _converted(line.op, given, dtype, x[0])
        if dtype == "float32":
            return _FLOAT[line.op].format(*x)
        if dtype == "float64":
            function = f"{line.op.removesuffix('_float64')}({', '.join(x)})"
            return function if line.op in PRIMITIVES_64 else _FLOAT64[line.op].format(*x)
        return _BOOL[line.op].format(*x) if dtype == "bool" else _integer(line.op, dtype, x)

    def begin(self, form: Form) -> str:
        inputs = [f"{LOOP_TYPES[name.dtype]} {name.text}" for name in form.inputs]
        if self.returns:
            return f"BE {LOOP_TYPES[form.outputs[0].dtype]} be_{form.name}({', '.join(inputs)}) {{"
        outputs = [f"{LOOP_TYPES[output.dtype]}& r{place}" for place, output in enumerate(form.outputs)]
        return f"BE void be_{form.name}({', '.join(inputs + outputs)}) {{"

    def end(self, outputs: Sequence[Operand]) -> list[str]:
        if self.returns:
            return [f"return {self.operand(outputs[0])};"]
        return [f"r{place} = {self.operand(output)};" for place, output in enumerate(outputs)]

    def define(self, target: Name, expression: str) -> str:
        return f"const {LOOP_TYPES[target.dtype]} {target.text} = {expression};"

    def declare(self, target: Name, start: str | None) -> list[str]:
        return [f"{LOOP_TYPES[target.dtype]} {target.text}{'' if start is None else f' = {start}'};"]

    def assign(self, targets: Sequence[Name], values: Sequence[str]) -> list[str]:
        pairs = list(zip(targets, values, strict=True))
        kept = [f"const {LOOP_TYPES[name.dtype]} new_{name.text} = {value};" for name, value in pairs]
        return kept + [f"{name.text} = new_{name.text};" for name, _ in pairs]

    def opening(self, words: str, condition: str) -> str:
        return {"while": "while (true) {", "if": f"if ({condition}) {{", "else": "else {"}[words]

    def leave_unless(self, condition: str) -> str:
        return f"if (!({condition})) break;"


def _literal(operand: Constant) -> str:
    value: Any = operand.value
    if operand.dtype == "bool":
        return "true" if value else "false"
    if operand.dtype == "float32":
        return f"{float(value).hex()}f" if np.isfinite(value) else f"__uint_as_float({operand.bits}u)"
    if operand.dtype == "float64":
        return float(value).hex() if np.isfinite(value) else f"__longlong_as_double({operand.bits}ull)"
    if operand.dtype in WIDE_INTEGERS:
        return f"{operand.bits}ull" if operand.dtype == "uint64" else f"(long long){operand.bits}ull"
    if operand.dtype == "uint32":
        return f"{operand.bits}u"
    if value == -(2**31):  # C++ reads 2147483648 first, which is no int
        return "(-2147483647 - 1)"
    return f"({value})" if value < 0 else f"{value}"


def _integer(op: str, dtype: str, x: list[str]) -> str:
    kind = LOOP_TYPES[dtype]
    word, zero = ("unsigned long long", "0ull") if dtype in WIDE_INTEGERS else ("unsigned", "0u")
    if op in _UNSIGNED:
        return f"({kind})(({word}){x[0]} {_UNSIGNED[op]} ({word}){x[1]})"
    if op == "neg":
        return f"({kind})({zero} - ({word}){x[0]})"
    if op == "abs":
        return x[0] if dtype.startswith("u") else f"{x[0]} < 0 ? ({kind})({zero} - ({word}){x[0]}) : {x[0]}"
    return _INTEGER[op].format(*x) if op in _INTEGER else f"{op}_{dtype}({', '.join(x)})"


def _converted(op: str, given: str, dtype: str, x: str) -> str:
    kind = LOOP_TYPES[dtype]
    if op == "bitcast":
        if given == "float32":
            return f"({kind})bits_of({x})"
        if dtype == "float64":
            return f"__longlong_as_double((long long){x})"
        return f"flush(__uint_as_float((unsigned){x}))" if dtype == "float32" else f"({kind}){x}"
    if dtype == "bool":
        return f"{x} != 0"
    if dtype in FLOATS:
        return f"flush((float){x})" if (given, dtype) == ("float64", "float32") else f"({kind}){x}"
    return f"{dtype}_of_float32({x})" if given in FLOATS else f"({kind}){x}"


def cuda_text(forms: Iterable[Form], *, wide: bool = False) -> str:
    """Return forms, and the functions that they call, as functions `be_NAME`: outputs by reference if several.

    If it is `wide`, numbers of 64 and 16 bits may be among them.
    """
    forms = list(forms)
    functions = all_functions(forms)
    short = [SHORT_TEXT] if any(form.name in SHORT for form in functions) else []
    return PREAMBLE + "\n".join(
        [*[WIDE_TEXT] * wide, *short, *map(_function, functions), *(printed(form, _Cuda(form)) for form in forms)]
    )


def _function(form: Form) -> str:
    """Return a function, whose short text is used on a GPU if it has one."""
    if form.name not in SHORT:
        return printed(form, _Cuda(form))
    whole = replace(form, name=f"whole_{form.name}")
    given = ", ".join(one.split()[1] for one in SHORT[form.name].split(", "))
    body = f"float result; return SHORTENS && short_{form.name}({given}, result) ? result : be_{whole.name}({given});"
    return f"{printed(whole, _Cuda(whole))}BE float be_{form.name}({SHORT[form.name]}) {{ {body} }}\n"
