# SPDX-License-Identifier: Apache-2.0
"""Print forms as Python for Numba; the helpers that the text names are those of `on_numba.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .float64 import PRIMITIVES_64
from .form import FLOATS, Assign, Constant, Form, Name, Operand
from .text import ARITHMETIC, COMPARE, all_functions, printed

__all__ = ["numba_text"]

_FLOAT = ARITHMETIC | {"rem": "flush(np.fmod({0}, {1}))", "neg": "-{0}", "abs": "abs({0})"}
_FLOAT |= {"floor": "np.floor({0})", "ceil": "np.ceil({0})", "round": "np.rint({0})", "sqrt": "np.sqrt({0})"}
_FLOAT |= {"max": "{0} if ({0} > {1}) | ({0} != {0}) else {1}", "min": "{0} if ({0} < {1}) | ({0} != {0}) else {1}"}
_FLOAT |= {f"round_to_{name}": f"rounded_{name}({{0}})" for name in ("float16", "bfloat16")}
_BY_HAND = {"add": "flush({0} + {1})", "sub": "flush({0} - {1})", "mul": "product({0}, {1})"}
_BY_HAND |= {"div": "quotient({0}, {1})"}
_FLOAT64 = {name: text.replace("flush(np.fmod({0}, {1}))", "np.fmod({0}, {1})") for name, text in _FLOAT.items()}
# Numba computes integers of 32 bits in 64: each result is cast.
_INTEGER = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "neg": "-{0}", "not": "~{0}", "abs": "abs({0})"}
_INTEGER |= {"and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}"}
_INTEGER |= {"max": "{0} if {0} > {1} else {1}", "min": "{0} if {0} < {1} else {1}"}
# Numba promises LLVM that int64 numbers do not overflow, so that `a + b < b` would become `a < 0`; unsigned ones may.
_INT64 = {op: f"np.uint64({{0}}) {sign} np.uint64({{1}})" for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))}
_BOOL = {"and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "not {0}"}


class _Python:
    """Python as Numba compiles it."""

    closing: tuple[str, ...] = ()
    separator: str = "pass"

    def __init__(self, *, by_hand: bool):
        self.float = _FLOAT | _BY_HAND if by_hand else _FLOAT

    def operand(self, operand: Operand) -> str:
        if isinstance(operand, Name):
            return operand.text
        return _literal(operand)

    def operation(self, line: Assign) -> str:
        x = [self.operand(operand) for operand in line.operands]
        dtype, given = line.target.dtype, line.operands[0].dtype
        if line.op == "select":
            return f"{x[1]} if {x[0]} else {x[2]}"
        if line.op in COMPARE:
            return f"{x[0]} {COMPARE[line.op]} {x[1]}"
        if line.op in ("convert", "bitcast"):
            return _converted(line.op, given, dtype, x[0])
        if dtype == "float32":
            return self.float[line.op].format(*x)
        if dtype == "float64":
            return f"{line.op}({', '.join(x)})" if line.op in PRIMITIVES_64 else _FLOAT64[line.op].format(*x)
        if dtype == "bool":
            return _BOOL[line.op].format(*x)
        pattern = (_INTEGER | _INT64 if dtype == "int64" else _INTEGER).get(line.op)
        return f"np.{dtype}({pattern.format(*x)})" if pattern else f"{line.op}_{dtype}({', '.join(x)})"

    def begin(self, form: Form) -> str:
        return f"def be_{form.name}({', '.join(name.text for name in form.inputs)}):"

    def end(self, outputs: Sequence[Operand]) -> list[str]:
        return [f"return {', '.join(self.operand(output) for output in outputs)}"]

    def define(self, target: Name, expression: str) -> str:
        return f"{target.text} = {expression}"

    def declare(self, target: Name, start: str | None) -> list[str]:
        return [] if start is None else [f"{target.text} = {start}"]

    def assign(self, targets: Sequence[Name], values: Sequence[str]) -> list[str]:
        return [f"{', '.join(name.text for name in targets)} = {', '.join(values)}"] if targets else []

    def opening(self, words: str, condition: str) -> str:
        return {"while": "while True:", "if": f"if {condition}:", "else": "else:"}[words]

    def leave_unless(self, condition: str) -> str:
        return f"if not {condition}: break"


def _literal(operand: Constant) -> str:
    value: Any = operand.value
    if operand.dtype == "bool":
        return str(bool(value))
    if operand.dtype in FLOATS and not np.isfinite(value):
        return f"np.{operand.dtype}({'np.nan' if np.isnan(value) else 'np.inf' if value > 0 else '-np.inf'})"
    return f"np.{operand.dtype}({value.item()!r})"


_OF_BITS = {"float32": "flush(float_of_bits(np.uint32({})))", "float64": "double_of_bits(np.uint64({}))"}


def _converted(op: str, given: str, dtype: str, x: str) -> str:
    if op == "bitcast":
        if given == "float32":
            return f"np.{dtype}(bits_of({x}))"
        return _OF_BITS.get(dtype, f"np.{dtype}({{}})").format(x)
    if dtype == "bool":
        return f"{x} != np.{given}(0)"
    if dtype in FLOATS:
        return f"flush(np.float32({x}))" if (given, dtype) == ("float64", "float32") else f"np.{dtype}({x})"
    return f"{dtype}_of_float32({x})" if given in FLOATS else f"np.{dtype}({x})"


def numba_text(forms: Iterable[Form], *, by_hand: bool = False) -> str:
    """Return forms, and the functions that they call, as Python functions `be_NAME`.

    Denormals are flushed by the processor, or `by_hand`: by operations in the text.
    """
    forms, language = list(forms), _Python(by_hand=by_hand)
    return "\n\n".join(printed(form, language) for form in [*all_functions(forms), *forms])
