# SPDX-License-Identifier: Apache-2.0
"""The text that NVRTC compiles: the user's, behind definitions, and before questions about a kernel's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import CompilationError, KernelArgumentError
from ...toolchain.flags import absolute_paths
from .cpp_types import definitions
from .declaration import Declaration, find_declaration

__all__ = ["VIRTUAL_HEADERS", "OwnText", "TranslationUnit", "translation_unit"]

_INTEGERS = {
    "int8_t": "signed char",
    "int16_t": "short",
    "int32_t": "int",
    "int64_t": "long long",  # as in CUDA's own <cuda/std/cstdint>
    "uint8_t": "unsigned char",
    "uint16_t": "unsigned short",
    "uint32_t": "unsigned int",
    "uint64_t": "unsigned long long",
}
VIRTUAL_HEADERS = dict.fromkeys(("stdint.h", "cstdint", "stddef.h", "cstddef"), "")  # their content is defined anyway

# The compiler puts the types of parameters into the names of symbols, also if a macro hides them in the text.
_QUESTIONS = """
#line 1 "brainevent"
struct brainevent_end {};
template <int, class> struct brainevent_parameter { using type = brainevent_end; };
template <class T, class... Rest> struct brainevent_parameter<0, void (*)(T, Rest...)> { using type = T; };
template <int n, class T, class... Rest> struct brainevent_parameter<n, void (*)(T, Rest...)>
    : brainevent_parameter<n - 1, void (*)(Rest...)> {};
template <int n> struct brainevent_parameter<n, void (*)()> { using type = brainevent_end; };
template <class T> __device__ char brainevent_type;
"""
_ANSWER = re.compile(r"_Z15brainevent_typeI(?P<type>.+)E", re.DOTALL)
_END = "14brainevent_end"
_FORBIDDEN = re.compile(
    r"(?:--gpu-architecture|-arch|--device-c|-dc|--relocatable-device-code|-rdc|--dlink.*|-dlto)(?:=.*)?"
)


@dataclass(frozen=True)
class TranslationUnit:
    """The text to compile, with options, without an architecture."""

    declaration: Declaration
    source: str
    text: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The kernel's name without its namespace."""
        return self.declaration.name.rpartition("::")[2]

    @property
    def expressions(self) -> tuple[str, ...]:
        """The expressions that the compiler must name: the kernel, its parameter types, and the end of the list."""
        entry, count = self.declaration.entry, len(self.declaration.parameters)
        asked = (f"&brainevent_type<brainevent_parameter<{i}, decltype(&{entry})>::type>" for i in range(count + 1))
        return (entry, *asked)

    def types(self, where: str, answers: Sequence[str]) -> tuple[str, ...]:
        """Read the compiler's answers."""
        found = [match["type"] for answer in answers if (match := _ANSWER.fullmatch(answer))]
        *types, end = found
        if len(found) != len(answers) or end != _END or _END in types:
            raise CompilationError(
                f"{where}: the parameters that the compiler sees differ from those in the source, "
                f"`{self.declaration}`; write them without macros"
            )
        return tuple(types)


@dataclass(frozen=True)
class OwnText:
    """A text of the package itself: its kernel has this name, and the types of its parameters are not needed."""

    name: str
    text: str
    options: tuple[str, ...]

    @property
    def source(self) -> str:
        """The same text."""
        return self.text

    @property
    def expressions(self) -> tuple[str, ...]:
        """The expressions that the compiler must name."""
        return (self.name,)

    def types(self, where: str, answers: Sequence[str]) -> tuple[str, ...]:
        """Return nothing, because there are no such expressions."""
        return ()


def translation_unit(
    where: str, source: Any, entry: Any, types: Mapping[str, Any] | None, options: Any
) -> TranslationUnit:
    """Check the user's arguments, and assemble the text."""
    for what, value in (("source", source), ("entry", entry)):
        if not isinstance(value, str):
            raise KernelArgumentError(f"{where}: {what} is of type {type(value).__name__}; pass a string")
    declaration = find_declaration(where, source, entry)
    missing = [
        name for name in _INTEGERS if not re.search(rf"\b(?:typedef\b[^;]*\b{name}\s*;|using\s+{name}\b)", source)
    ]
    integers = "".join(f"typedef {_INTEGERS[name]} {name};\n" for name in missing)
    title = declaration.name.rpartition("::")[2]
    text = f'{integers}{definitions(where, types)}#line 1 "{title}.cu"\n{source}\n{_QUESTIONS}'
    return TranslationUnit(declaration, source, text, _options(where, options))


def _options(where: str, options: Any) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Sequence) or not all(isinstance(o, str) for o in options):
        raise KernelArgumentError(f"{where}: options is {options!r}; pass a tuple of strings, such as ('-lineinfo',)")
    for option in options:
        if _FORBIDDEN.fullmatch(option):
            raise KernelArgumentError(
                f"{where}: the option {option!r} is not allowed: kernels are compiled completely, for the GPUs of "
                "this machine, or for those set with config.set_compute_capability"
            )
    standard = () if any(re.match(r"--?std\b", option) for option in options) else ("--std=c++17",)
    return (*standard, *absolute_paths(options))
