# SPDX-License-Identifier: Apache-2.0
"""Print forms as functions in LLVM's language, for processors that flush denormals: nothing of them is inferred."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .float64 import PRIMITIVES_64
from .form import FLOATS, Assign, Branch, Constant, Form, Line, Loop, Name, Operand

__all__ = ["TYPES", "llvm_text", "result_type"]

TYPES = {"float32": "float", "float64": "double", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"}
TYPES |= {"bool": "i1"}
_MARKS = 'alwaysinline nounwind "denormal-fp-math"="preserve-sign,preserve-sign"'

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_OF_LLVM = {"abs": "fabs", "floor": "floor", "ceil": "ceil", "round": "rint", "sqrt": "sqrt"}
_INTEGER = {name: name for name in ("add", "sub", "mul", "and", "or", "xor")}
_COMPARED = {"eq": ("oeq", "eq"), "ne": ("une", "ne"), "lt": ("olt", "lt"), "le": ("ole", "le")}
_COMPARED |= {"gt": ("ogt", "gt"), "ge": ("oge", "ge")}

# Functions of lines: of a type {t}, with {s} signed or not, and {bits} of it. What a `select` does not choose may be
# without a value, but a division must not be by zero, and that of the smallest number by -1 has no result.
_HELPERS = {
    "flush": """
define internal float @be.flush(float %x) {marks} {{
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2139095040
  %sign = and i32 %bits, -2147483648
  %is = icmp ne i32 %size, 0
  %kept = select i1 %is, i32 %bits, i32 %sign
  %r = bitcast i32 %kept to float
  ret float %r
}}
""",
    "bits": """
define internal i32 @be.bits(float %x) {marks} {{
  %bits = bitcast float %x to i32
  %is = fcmp uno float %x, %x
  %r = select i1 %is, i32 2143289344, i32 %bits
  ret i32 %r
}}
""",
    "to_int": """
define internal {t} @be.to_int.{t}.{f}({f} %x) {marks} {{
  %size = call {f} @llvm.fabs.{k}({f} %x)
  %is = fcmp olt {f} %size, {end}
  %cut = fptosi {f} %x to {t}
  %inside = select i1 %is, {t} %cut, {t} 0
  %low = fcmp ole {f} %x, -{end}
  %not_low = select i1 %low, {t} {smallest}, {t} %inside
  %high = fcmp oge {f} %x, {end}
  %r = select i1 %high, {t} {largest}, {t} %not_low
  ret {t} %r
}}
""",
    "to_uint": """
define internal {t} @be.to_uint.{t}.{f}({f} %x) {marks} {{
  %over = fcmp ogt {f} %x, 0.0
  %under = fcmp olt {f} %x, {end}
  %is = and i1 %over, %under
  %cut = fptoui {f} %x to {t}
  %inside = select i1 %is, {t} %cut, {t} 0
  %high = fcmp oge {f} %x, {end}
  %r = select i1 %high, {t} -1, {t} %inside
  ret {t} %r
}}
""",
    "sdiv": """
define internal {t} @be.sdiv.{t}({t} %a, {t} %b) {marks} {{
  %zero = icmp eq {t} %b, 0
  %minus = icmp eq {t} %b, -1
  %special = or i1 %zero, %minus
  %divisor = select i1 %special, {t} 1, {t} %b
  %quotient = sdiv {t} %a, %divisor
  %negative = sub {t} 0, %a
  %result = select i1 %minus, {t} %negative, {t} %quotient
  %r = select i1 %zero, {t} -1, {t} %result
  ret {t} %r
}}
""",
    "srem": """
define internal {t} @be.srem.{t}({t} %a, {t} %b) {marks} {{
  %zero = icmp eq {t} %b, 0
  %minus = icmp eq {t} %b, -1
  %special = or i1 %zero, %minus
  %divisor = select i1 %special, {t} 1, {t} %b
  %rest = srem {t} %a, %divisor
  %r = select i1 %zero, {t} %a, {t} %rest
  ret {t} %r
}}
""",
    "udiv": """
define internal {t} @be.udiv.{t}({t} %a, {t} %b) {marks} {{
  %zero = icmp eq {t} %b, 0
  %divisor = select i1 %zero, {t} 1, {t} %b
  %quotient = udiv {t} %a, %divisor
  %r = select i1 %zero, {t} -1, {t} %quotient
  ret {t} %r
}}
""",
    "urem": """
define internal {t} @be.urem.{t}({t} %a, {t} %b) {marks} {{
  %zero = icmp eq {t} %b, 0
  %divisor = select i1 %zero, {t} 1, {t} %b
  %rest = urem {t} %a, %divisor
  %r = select i1 %zero, {t} %a, {t} %rest
  ret {t} %r
}}
""",
    "shl": """
define internal {t} @be.shl.{t}({t} %a, {t} %n) {marks} {{
  %is = icmp ult {t} %n, {bits}
  %amount = and {t} %n, {last}
  %shifted = shl {t} %a, %amount
  %r = select i1 %is, {t} %shifted, {t} 0
  ret {t} %r
}}
""",
    "lshr": """
define internal {t} @be.lshr.{t}({t} %a, {t} %n) {marks} {{
  %is = icmp ult {t} %n, {bits}
  %amount = and {t} %n, {last}
  %shifted = lshr {t} %a, %amount
  %r = select i1 %is, {t} %shifted, {t} 0
  ret {t} %r
}}
""",
    "ashr": """
define internal {t} @be.ashr.{t}({t} %a, {t} %n) {marks} {{
  %is = icmp ult {t} %n, {bits}
  %amount = select i1 %is, {t} %n, {t} {last}
  %r = ashr {t} %a, %amount
  ret {t} %r
}}
""",
    "mulh": """
define internal i32 @be.{s}mulh.i32(i32 %a, i32 %b) {marks} {{
  %wide_a = {s}ext i32 %a to i64
  %wide_b = {s}ext i32 %b to i64
  %product = mul i64 %wide_a, %wide_b
  %high = lshr i64 %product, 32
  %r = trunc i64 %high to i32
  ret i32 %r
}}
""",
    "float16": """
define internal float @be.float16(float %x) {marks} {{
  %bits = bitcast float %x to i32
  %sign = and i32 %bits, -2147483648
  %rest = and i32 %bits, 2147483647
  %high = lshr i32 %rest, 13
  %odd = and i32 %high, 1
  %added = add i32 %rest, 4095
  %rounded = add i32 %added, %odd
  %kept = and i32 %rounded, -8192
  %large = icmp uge i32 %rest, 1199566848
  %finite = select i1 %large, i32 2139095040, i32 %kept
  %nan = icmp ugt i32 %rest, 2139095040
  %number = select i1 %nan, i32 2143289344, i32 %finite
  %size = bitcast i32 %rest to float
  %aligned = fadd float %size, 0.5
  %back = fsub float %aligned, 0.5
  %few = bitcast float %back to i32
  %small = icmp ult i32 %rest, 947912704
  %all = select i1 %small, i32 %few, i32 %number
  %signed = or i32 %all, %sign
  %r = bitcast i32 %signed to float
  ret float %r
}}
""",
    "bfloat16": """
define internal float @be.bfloat16(float %x) {marks} {{
  %bits = bitcast float %x to i32
  %half = lshr i32 %bits, 16
  %odd = and i32 %half, 1
  %added = add i32 %bits, 32767
  %rounded = add i32 %added, %odd
  %is = fcmp uno float %x, %x
  %nan = or i32 %bits, 4194304
  %all = select i1 %is, i32 %nan, i32 %rounded
  %kept = and i32 %all, -65536
  %r = bitcast i32 %kept to float
  ret float %r
}}
""",
}


def llvm_text(form: Form) -> tuple[str, str]:
    """Return a form as a module, and the name in it of the function that returns its outputs."""
    module = _Module()
    name = module.add(form)
    # LLVM links a function with this mark only if another one calls it.
    module.functions[name] = module.functions[name].replace("linkonce_odr ", "", 1)
    return "\n".join([*module.declared, *module.functions.values()]), name


def result_type(outputs: Sequence[Operand]) -> str:
    """Return the type of what a function returns."""
    types = [TYPES[output.dtype] for output in outputs]
    return types[0] if len(types) == 1 else f"{{{', '.join(types)}}}"


class _Module:
    """The functions of a module, by name, callees first; and the declarations."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.declared: dict[str, None] = {}

    def add(self, form: Form) -> str:
        """Add a form, and return its name, which is that of its content: modules are linked into each other."""
        text = _Function(self, form).text()
        name = f"be.{re.sub('[^A-Za-z0-9_]', '', form.name)}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self.functions[name] = text.replace("@(", f"@{name}(", 1)
        return name

    def helper(self, kind: str, name: str, **words: Any) -> str:
        """Add a function of lines, unless it is there, and return its name."""
        self.functions.setdefault(name, _HELPERS[kind].format(marks=_MARKS, **words).strip() + "\n")
        return f"@{name}"

    def declare(self, result: str, name: str, operands: str, marks: str = "") -> str:
        """Declare a function of LLVM or of C, and return its name."""
        self.declared[f"declare {result} @{name}({operands}) {marks}".rstrip()] = None
        return f"@{name}"


class _Function:
    """The text of one form."""

    def __init__(self, module: _Module, form: Form):
        self.module, self.form = module, form
        self.called = {function.name: function for function in form.functions}
        self.names: dict[str, str] = {}  # of functions that were called
        self.count = 0
        self.block = "begin"

    def text(self) -> str:
        form = self.form
        inputs = ", ".join(f"{TYPES[x.dtype]} %{x.text}" for x in form.inputs)
        result = result_type(form.outputs)
        body = [*self.lines(form.lines), *self.end(form.outputs)]
        return "\n".join([f"define linkonce_odr {result} @({inputs}) {_MARKS} {{", "begin:", *body, "}\n"])

    def end(self, outputs: Sequence[Operand]) -> Iterator[str]:
        kind = result_type(outputs)
        if len(outputs) == 1:
            yield f"  ret {kind} {self.value(outputs[0])}"
            return
        last = "undef"
        for place, output in enumerate(outputs):
            name = self.new()
            yield f"  {name} = insertvalue {kind} {last}, {self.typed(output)}, {place}"
            last = name
        yield f"  ret {kind} {last}"

    def new(self) -> str:
        self.count += 1
        return f"%.{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"block{self.count}"

    def value(self, operand: Operand) -> str:
        return f"%{operand.text}" if isinstance(operand, Name) else _literal(operand)

    def typed(self, operand: Operand) -> str:
        return f"{TYPES[operand.dtype]} {self.value(operand)}"

    # ---- lines

    def lines(self, lines: Iterable[Line]) -> Iterator[str]:
        for line in lines:
            if isinstance(line, Assign):
                yield from self.assign(line)
            elif isinstance(line, Loop):
                yield from self.loop(line)
            else:
                yield from self.branch(line)

    def loop(self, loop: Loop) -> Iterator[str]:
        before, head, body, end = self.block, self.label(), self.label(), self.label()
        self.block = head
        inside = list(self.lines(loop.head))
        self.block = body
        rest = list(self.lines(loop.body))
        yield from (f"  br label %{head}", f"{head}:")
        for name, start, result in zip(loop.carries, loop.starts, loop.results, strict=True):
            values = f"[{self.value(start)}, %{before}], [{self.value(result)}, %{self.block}]"
            yield f"  %{name.text} = phi {TYPES[name.dtype]} {values}"
        yield from inside
        yield from (f"  br i1 {self.value(loop.go)}, label %{body}, label %{end}", f"{body}:", *rest)
        yield from (f"  br label %{head}", f"{end}:")
        self.block = end

    def branch(self, branch: Branch) -> Iterator[str]:
        sides, end = (self.label(), self.label()), self.label()
        yield f"  br i1 {self.value(branch.condition)}, label %{sides[0]}, label %{sides[1]}"
        last = []
        for label, lines in zip(sides, (branch.then, branch.otherwise), strict=True):
            self.block = label
            yield f"{label}:"
            yield from self.lines(lines)
            yield f"  br label %{end}"
            last.append(self.block)
        yield f"{end}:"
        results = zip(branch.targets, branch.then_results, branch.otherwise_results, strict=True)
        for name, then, otherwise in results:
            values = f"[{self.value(then)}, %{last[0]}], [{self.value(otherwise)}, %{last[1]}]"
            yield f"  %{name.text} = phi {TYPES[name.dtype]} {values}"
        self.block = end

    def assign(self, line: Assign) -> Iterator[str]:
        target, x = f"%{line.target.text}", [self.value(operand) for operand in line.operands]
        dtype, given = line.target.dtype, line.operands[0].dtype
        kind, of = TYPES[dtype], TYPES[given]
        if line.op in self.called:
            name = self.names.get(line.op) or self.module.add(self.called[line.op])
            self.names[line.op] = name
            yield f"  {target} = call {kind} @{name}({', '.join(map(self.typed, line.operands))})"
        elif line.op == "select":
            yield f"  {target} = select {', '.join(map(self.typed, line.operands))}"
        elif line.op in _COMPARED:
            of_floats, of_integers = _COMPARED[line.op]
            if given in FLOATS:
                yield f"  {target} = fcmp {of_floats} {of} {x[0]}, {x[1]}"
            else:
                yield f"  {target} = icmp {self.sign(of_integers, given)} {of} {x[0]}, {x[1]}"
        elif line.op in ("convert", "bitcast"):
            yield from (self.converted if line.op == "convert" else self.bitcast)(target, dtype, given, x[0])
        elif dtype in FLOATS:
            yield from self.floats(target, line.op, dtype, line.operands)
        else:
            yield from self.integers(target, line.op, dtype, x)

    def sign(self, op: str, dtype: str) -> str:
        if op in ("eq", "ne"):
            return op
        return f"{'s' if dtype.startswith('int') else 'u'}{op}"

    # ---- operations

    def floats(self, target: str, op: str, dtype: str, operands: Sequence[Operand]) -> Iterator[str]:
        kind, short = TYPES[dtype], "f32" if dtype == "float32" else "f64"
        x = [self.value(operand) for operand in operands]
        if op in _BINARY:
            flushed = op == "rem" and dtype == "float32"
            name = self.new() if flushed else target
            yield f"  {name} = {_BINARY[op]} {kind} {x[0]}, {x[1]}"
            if flushed:
                yield self.flush(target, name)
        elif op == "neg":
            yield f"  {target} = fneg {kind} {x[0]}"
        elif op in _OF_LLVM:
            function = self.module.declare(kind, f"llvm.{_OF_LLVM[op]}.{short}", kind)
            yield f"  {target} = call {kind} {function}({kind} {x[0]})"
        elif op in ("max", "min"):
            chosen = self.new()
            yield from self.better(chosen, "gt" if op == "max" else "lt", kind, operands)
            yield f"  {target} = select i1 {chosen}, {kind} {x[0]}, {kind} {x[1]}"
        elif op.startswith("round_to_"):
            half = op.removeprefix("round_to_")
            yield f"  {target} = call float {self.module.helper(half, f'be.{half}')}(float {x[0]})"
        else:
            assert op in PRIMITIVES_64
            given = ", ".join([kind] * len(x))
            function = self.module.declare(kind, op.removesuffix("_float64"), given, "nobuiltin")
            yield f"  {target} = call {kind} {function}({', '.join(f'{kind} {each}' for each in x)}) nobuiltin"

    def better(self, target: str, compare: str, kind: str, operands: Sequence[Operand]) -> Iterator[str]:
        """Say whether the first operand is chosen: it is larger, or smaller, or NaN."""
        x = [self.value(operand) for operand in operands]
        if any(isinstance(operand, Constant) and not np.isnan(operand.value) for operand in operands):
            mark = "o" if isinstance(operands[0], Constant) else "u"  # with a number, one comparison finds NaN, too
            yield f"  {target} = fcmp {mark}{compare} {kind} {x[0]}, {x[1]}"
            return
        better, nan = self.new(), self.new()
        yield f"  {better} = fcmp o{compare} {kind} {x[0]}, {x[1]}"
        yield f"  {nan} = fcmp uno {kind} {x[0]}, {x[0]}"
        yield f"  {target} = or i1 {better}, {nan}"

    def integers(self, target: str, op: str, dtype: str, x: list[str]) -> Iterator[str]:
        kind, bits = TYPES[dtype], int(TYPES[dtype][1:])
        if op in _INTEGER:
            yield f"  {target} = {op} {kind} {x[0]}, {x[1]}"
        elif op == "not":
            yield f"  {target} = xor {kind} {x[0]}, {'true' if kind == 'i1' else -1}"
        elif op == "neg":
            yield f"  {target} = sub {kind} 0, {x[0]}"
        elif op == "abs":
            negative, less = self.new(), self.new()
            yield f"  {negative} = sub {kind} 0, {x[0]}"
            yield f"  {less} = icmp slt {kind} {x[0]}, {0 if dtype.startswith('int') else x[0]}"
            yield f"  {target} = select i1 {less}, {kind} {negative}, {kind} {x[0]}"
        elif op in ("max", "min"):
            better = self.new()
            yield f"  {better} = icmp {self.sign('gt' if op == 'max' else 'lt', dtype)} {kind} {x[0]}, {x[1]}"
            yield f"  {target} = select i1 {better}, {kind} {x[0]}, {kind} {x[1]}"
        elif op == "bit_count":
            function = self.module.declare(kind, f"llvm.ctpop.{kind}", kind)
            yield f"  {target} = call {kind} {function}({kind} {x[0]})"
        else:
            name = self.helper_of(op, dtype, kind, bits)
            yield f"  {target} = call {kind} {name}({kind} {x[0]}, {kind} {x[1]})"

    def helper_of(self, op: str, dtype: str, kind: str, bits: int) -> str:
        signed = "s" if dtype.startswith("int") else "u"
        if op == "mul_high":
            assert bits == 32  # LLVM takes a call of other types than those of the function, which has no meaning
            sign = "s" if signed == "s" else "z"
            return self.module.helper("mulh", f"be.{sign}mulh.i32", s=sign)
        shifts = {"shift_left": "shl", "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr"}
        helper = shifts.get(op) or f"{signed}{op}"
        return self.module.helper(helper, f"be.{helper}.{kind}", t=kind, bits=bits, last=bits - 1)

    def flush(self, target: str, x: str) -> str:
        return f"  {target} = call float {self.module.helper('flush', 'be.flush')}(float {x})"

    def converted(self, target: str, dtype: str, given: str, x: str) -> Iterator[str]:
        kind, of = TYPES[dtype], TYPES[given]
        if dtype == "bool":
            compare = "fcmp une" if given in FLOATS else "icmp ne"
            yield f"  {target} = {compare} {of} {x}, {'0.0' if given in FLOATS else 0}"
        elif given in FLOATS and dtype not in FLOATS:
            yield f"  {target} = call {kind} {self.to_integer(dtype, given)}({of} {x})"
        elif (given, dtype) == ("float64", "float32"):
            short = self.new()
            yield f"  {short} = fptrunc double {x} to float"
            yield self.flush(target, short)
        elif kind == of:
            yield f"  {target} = bitcast {kind} {x} to {kind}"
        elif given in FLOATS:
            yield f"  {target} = fpext float {x} to double"
        elif dtype in FLOATS:
            yield f"  {target} = {'s' if given.startswith('int') else 'u'}itofp {of} {x} to {kind}"
        elif int(kind[1:]) < int(of[1:]):
            yield f"  {target} = trunc {of} {x} to {kind}"
        else:
            yield f"  {target} = {'sext' if given.startswith('int') else 'zext'} {of} {x} to {kind}"

    def to_integer(self, dtype: str, given: str) -> str:
        kind, of, short = TYPES[dtype], TYPES[given], "f32" if given == "float32" else "f64"
        bits = int(kind[1:])
        words: dict[str, Any] = {"t": kind, "f": of, "k": short}
        if not dtype.startswith("int"):
            return self.module.helper("to_uint", f"be.to_uint.{kind}.{of}", end=f"{float(2**bits)!r}", **words)
        self.module.declare(of, f"llvm.fabs.{short}", of)
        words |= {"end": f"{float(2 ** (bits - 1))!r}", "smallest": -(2 ** (bits - 1)), "largest": 2 ** (bits - 1) - 1}
        return self.module.helper("to_int", f"be.to_int.{kind}.{of}", **words)

    def bitcast(self, target: str, dtype: str, given: str, x: str) -> Iterator[str]:
        kind, of = TYPES[dtype], TYPES[given]
        if given == "float32":
            yield f"  {target} = call i32 {self.module.helper('bits', 'be.bits')}(float {x})"
        elif dtype == "float32":
            bits = self.new()
            yield f"  {bits} = bitcast {of} {x} to float"
            yield self.flush(target, bits)
        else:
            yield f"  {target} = bitcast {of} {x} to {kind}"


def _literal(operand: Constant) -> str:
    value: Any = operand.value
    if operand.dtype == "bool":
        return "true" if value else "false"
    if operand.dtype in FLOATS:  # both kinds are written as bits of 64
        return f"0x{struct.pack('>d', np.nan if np.isnan(value) else float(value)).hex().upper()}"
    return str(int(value))
