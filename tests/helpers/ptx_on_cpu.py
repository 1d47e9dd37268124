# SPDX-License-Identifier: Apache-2.0
"""Inline assembly of loops as C++, for a pretended GPU: the instructions of PTX that kernels of tests consist of."""

import ast
import re

HEAD = r"""
#include <type_traits>
template <class To, class From> static To same_bits(From x) {
    To to{};
    std::memcpy(&to, &x, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
    return to;
}
template <class To, class From> static To register_of(From x) {  // smaller integers are extended, by their sign
    if constexpr (std::is_integral_v<From> && sizeof(From) < sizeof(To)) {
        return same_bits<To>((std::conditional_t<std::is_signed_v<From>, int64_t, uint64_t>)x);
    }
    return same_bits<To>(x);
}
"""
_ASSEMBLY = re.compile(r'asm volatile\(\s*(.*?)\s*:: (.*?) : "memory"\);', re.DOTALL)
_OPERAND = re.compile(r'"([lr])"\(((?:[^()]|\([^()]*\))*)\)')
_STATEMENT = re.compile(r"(?:@(!?)(\w+)\s+)?([a-z][\w.:]*)\s*(.*);")
_KINDS = {
    "pred": "bool", "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t", "b16": "uint16_t", "u16": "uint16_t",
    "s16": "int16_t", "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t", "b64": "uint64_t", "u64": "uint64_t",
    "s64": "int64_t", "f32": "float", "f64": "double",
}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNORDERED = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<", "neu": "=="}  # true for NaN
_COMPUTED = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^"}
_SHIFTED, _ALONE = {"shl": "<<", "shr": ">>"}, {"neg": "-", "not": "~"}
_WIDE = {"uint32_t": "uint64_t", "int32_t": "int64_t", "uint16_t": "uint32_t", "int16_t": "int32_t"}


def translated(text):
    """Return the text with its inline assembly as C++."""
    return _ASSEMBLY.sub(lambda match: _block(match[1], match[2]), text)


def _block(strings, operands):
    body = "".join(ast.literal_eval(line) for line in strings.splitlines())
    given = _OPERAND.findall(operands)
    assert len(given) == operands.count('"') // 2
    kinds = {"l": "uint64_t", "r": "uint32_t"}
    taken = [f"const {kinds[kind]} given{k} = ({kinds[kind]})({text});" for k, (kind, text) in enumerate(given)]
    body = re.sub(r"(?<!%)%(\d+)", r"given\1", body)
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    declared = [line for line in lines if line.startswith(".reg")]
    code = [*map(_declared, declared), *(_line(line) for line in lines if line not in declared)]
    return "\n".join(["{", *taken, *code, "}"])


def _declared(line):
    kind, name, count = re.fullmatch(r"\.reg\s+\.(\w+)\s+(\w+)(?:<(\d+)>)?;", line).groups()
    names = [name] if count is None else [f"{name}{k}" for k in range(int(count))]
    return f"{_KINDS[kind]} {', '.join(names)};"


def _line(line):
    if line in ("{", "}") or re.fullmatch(r"\w+:", line):
        return line.replace(":", ":;")
    negated, guard, code, operands = _STATEMENT.fullmatch(line).groups()
    done = _done(*code.split("."), operands=re.split(r"\s*,\s*(?![^{\[]*[}\]])", operands.strip()))
    return f"if ({'!' * bool(negated)}{guard}) {{ {done} }}" if guard else done


def _value(text, kind):
    """Return an operand as a value of a type: a register, a float by its bits, or a number."""
    if match := re.fullmatch(r"0[fd]([0-9A-F]+)", text):
        word = "uint32_t" if len(match[1]) == 8 else "uint64_t"
        return f"same_bits<{kind}>(({word})0x{match[1]}ull)"
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
        return f"same_bits<{kind}>((uint64_t){text}ull)"
    return f"same_bits<{kind}>({text})"


def _place(text, kind):
    register, offset = re.fullmatch(r"\[\s*(\w+)\s*(?:\+\s*(-?\d+))?\s*\]", text).groups()
    return f"*({kind}*)({register} + {offset or 0})"


def _done(name, *how, operands):
    """Return one instruction."""
    if name == "bra":
        return f"goto {operands[0]};"
    if name == "barrier":
        return f"meet_block<{operands[1]}>();"
    kind = _KINDS[how[-1]]
    to, rest = operands[0], operands[1:]
    if name == "st":
        return f"{_place(to, kind)} = {_value(rest[0], kind)};"
    if name == "setp":
        x, y = (_value(text, kind) for text in rest)
        if how[0] in _UNORDERED:
            return f"{to} = !({x} {_UNORDERED[how[0]]} {y});"
        assert how[0] != "ne" or how[-1][0] != "f", "it is false for NaN"
        return f"{to} = {x} {_COMPARED[how[0]]} {y};"
    return f"{to} = register_of<decltype({to})>({_result(name, how, kind, rest)});"


def _result(name, how, kind, rest):
    """Return what an instruction puts into a register."""
    if name == "ld":
        return _place(rest[0], kind)
    if name == "atom" and how[-2] == "add":
        return f"atomicAdd(({kind}*)({rest[0].strip('[]')}), {_value(rest[1], kind)})"
    if name == "selp":
        return f"({rest[2]} ? {_value(rest[0], kind)} : {_value(rest[1], kind)})"
    if name in _SHIFTED:
        return f"({kind})({_value(rest[0], kind)} {_SHIFTED[name]} {rest[1]})"
    x = [_value(text, kind) for text in rest]
    if name == "cvt":
        return f"({_KINDS[how[-2]]}){x[0]}"
    return f"({_WIDE[kind] if how[0] == 'wide' else kind})({_computed(name, how, kind, x)})"


def _computed(name, how, kind, x):
    """Return what an instruction computes, which knows these words and no others."""
    if name in ("mov", "cvta"):
        return x[0]
    if name in _ALONE:
        return _ALONE[name] + x[0]
    rounding = ("rn",) if kind in ("float", "double") else ("lo",) if name in ("mul", "mad") else ()
    if name == "mul" and how[0] == "wide":
        return f"({_WIDE[kind]}){x[0]} * {x[1]}"
    if name == "mul" and how[0] == "hi":
        return f"({'' if kind.startswith('int') else 'unsigned '}__int128){x[0]} * {x[1]} >> {kind.strip('uint_')}"
    assert how[:-1] == rounding, (name, how)
    if name == "fma":
        return f"__builtin_fma{'f' if kind == 'float' else ''}({', '.join(x)})"
    if name in ("min", "max") and not rounding:
        return f"{x[0]} {'<' if name == 'min' else '>'} {x[1]} ? {x[0]} : {x[1]}"
    if name == "mad":
        return f"{x[0]} * {x[1]} + {x[2]}"
    return f"{x[0]} {_COMPUTED[name]} {x[1]}"
