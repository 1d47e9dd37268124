# SPDX-License-Identifier: Apache-2.0
"""Read the parameter lists of C++ functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["INTEGERS", "KEYWORDS", "CppParameter", "read_parameters", "spelled"]

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]

KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""


@dataclass(frozen=True)
class CppParameter:
    """A parameter of a C++ declaration.

    Its kind is "alias" for a name of an unknown type, and "other" for a type that cannot be passed. An attribute has a
    type of `ATTRIBUTE_TYPES`, and so has a stream that is an integer.
    """

    kind: Literal["arg", "ret", "stream", "attr", "alias", "other"]
    name: str
    type: str
    declared: str

    def __str__(self) -> str:
        return spelled([self.declared, self.name]) if self.name else self.declared

    @property
    def identity(self) -> str:
        """The part that distinguishes two declarations, without names."""
        return self.type or (self.kind if self.kind in ("arg", "ret") else self.declared)


_BUILT_IN = frozenset({"bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"})
_BUILT_IN_TYPES = {
    "bool": "bool",
    "float": "float32",
    "double": "float64",
    **{f"{spelled}": f"int{bits}" for spelled, bits in (("char", 8), ("short", 16), ("int", 32), ("long", 64))},
    "long long": "int64",
}
_NAMED_TYPES = {**{f"{name}_t": name for name in INTEGERS}, "size_t": "uint64"}


def read_parameters(words: Sequence[str]) -> tuple[CppParameter, ...]:
    """Read a parameter list, from its lexemes without the parentheses."""
    parts = _split(words)
    return () if parts in ([[]], [["void"]]) else tuple(_read(part) for part in parts)


def _split(words: Sequence[str]) -> list[list[str]]:
    """Split at the commas between parameters, and omit default values."""
    parts: list[list[str]] = [[]]
    templates = _template_arguments(words)
    depth = angles = index = 0
    in_default = False
    while index < len(words):
        word = words[index]
        depth += (word in {"(", "[", "{"}) - (word in {")", "]", "}"})
        if word == "," and depth == 0 and angles <= 0:
            parts.append([])
            angles, in_default = 0, False
        else:
            in_default = in_default or (word == "=" and depth == 0)
            if in_default:
                index = templates.get(index, index)
            else:  # because `<` in a default may mean "less"
                angles += (word == "<") - (word == ">")
                parts[-1].append(word)
        index += 1
    return parts


def _template_arguments(words: Sequence[str]) -> dict[int, int]:
    """Return the index of the `>` for that of each `<` which cannot mean "less", as in `f<int, 3>()`."""
    opened: list[int] = []
    found = {}
    for index, word in enumerate(words):
        if word in {"(", "[", "{", "<"}:
            opened.append(index)
        elif word == ">" and opened and words[opened[-1]] == "<" and words[index - 1] != "-":
            start = opened.pop()
            if index + 1 == len(words) or words[index + 1] in {"(", "{", "::", ",", ">"}:
                found[start] = index
        elif word in {")", "]", "}", "=", ";"}:
            while opened and words[opened[-1]] == "<":
                opened.pop()
            if opened and word in {")", "]", "}"}:
                opened.pop()
    return found


def _read(words: list[str]) -> CppParameter:
    words = _without_attributes(words)
    bare = [word for word in words if word not in ("const", "&")]
    size = _type_length(bare)
    name = words.pop() if len(bare) > max(size, 1) and words[-1].isidentifier() else ""
    path = ("" if "::" in bare else " ").join(bare[:size] if len(bare) == size + bool(name) else [])
    kind, number = _kind(path, name, "const" in words, words.count("&"))
    return CppParameter(kind, name, number, spelled(words))


def _type_length(words: list[str]) -> int:
    """Return the number of words of the type: "unsigned int n" -> 2, "BE :: Tensor x" -> 3."""
    length = 0
    while length < len(words) and words[length] in _BUILT_IN:
        length += 1
    if length:
        return length
    length = int(words[:1] == ["::"])
    while words[length : length + 1] and words[length].isidentifier():
        length += 1
        if words[length : length + 1] != ["::"]:
            return length
        length += 1
    return 0


def _kind(
    path: str, name: str, constant: bool, references: int
) -> tuple[Literal["arg", "ret", "stream", "attr", "alias", "other"], str]:
    if path and path.rpartition("::")[2] == "Tensor" and references <= 1:
        return ("arg" if constant else "ret"), ""
    if not path or references:
        return "other", ""
    if path.removeprefix("::") == "cudaStream_t" and name == "stream":
        return "stream", ""
    number = _number(path)
    if number == "int64" and name == "stream":
        return "stream", number
    if number:
        return "attr", number
    return ("alias" if path.rpartition("::")[2] not in KEYWORDS.split() else "other"), ""


def _number(path: str) -> str:
    """Return the token type of a C++ type, or an empty string."""
    if path.removeprefix("::").removeprefix("std::") in _NAMED_TYPES:
        return _NAMED_TYPES[path.removeprefix("::").removeprefix("std::")]
    words = path.split()
    signs = [word for word in words if word in ("signed", "unsigned")]
    rest = sorted(word for word in words if word not in ("signed", "unsigned"))
    if "int" in rest and set(rest) & {"short", "long"}:
        rest.remove("int")
    number = _BUILT_IN_TYPES.get(" ".join(rest or ["int"] * len(signs)), "")
    if not signs:
        return number
    return "" if len(signs) > 1 or not number.startswith("int") else "u" * (signs == ["unsigned"]) + number


def _without_attributes(words: list[str]) -> list[str]:
    """Omit `[[maybe_unused]]`."""
    if words[:2] != ["[", "["] or "]" not in words:
        return words
    end = words.index("]")
    return words[end + 2 :] if words[end : end + 2] == ["]", "]"] else words


def spelled(words: Sequence[str]) -> str:
    """Return lexemes in the usual spelling: `const BE::Tensor& x`."""
    text: list[str] = []
    for word in words:
        apart = text and (word[0].isalnum() or word[0] == "_") and (text[-1][-1].isalnum() or text[-1][-1] in "_&*>,")
        text.append(f" {word}" if apart else word)
    return "".join(text)
