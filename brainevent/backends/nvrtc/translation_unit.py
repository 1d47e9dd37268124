# SPDX-License-Identifier: Apache-2.0
"""The text that NVRTC compiles: the user's, behind definitions, and before questions about a kernel's parameters."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import CompilationError, KernelArgumentError, did_you_mean
from ...toolchain.flags import absolute_paths
from ...toolchain.parameters import CppParameter, read_parameters
from ...toolchain.scan import scan
from ...toolchain.signature import Declarator, declarators
from .cpp_types import definitions

__all__ = ["VIRTUAL_HEADERS", "OwnText", "TranslationUnit", "find_declaration", "translation_unit"]

_ENTRY = re.compile(
    r"(?:::)?(?P<path>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(?P<arguments><[\w\s:,<>*&.+()-]*>)?", re.ASCII
)
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
class Declaration:
    """A kernel as its source declares it; `entry` is its name as C++ takes it, such as "scale<float>"."""

    entry: str
    name: str
    parameters: tuple[CppParameter, ...]

    def __str__(self) -> str:
        return f"__global__ void {self.name}({', '.join(map(str, self.parameters))})"


@functools.lru_cache(maxsize=256)
def find_declaration(where: str, source: str, entry: str) -> Declaration:
    """Return the declaration of the kernel that `entry` names, or raise."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise KernelArgumentError(
            f"{where}: entry is {entry!r}; pass the name of a kernel, such as 'add', or of an instance of a template, "
            "such as 'scale<float>'"
        )
    kernels: dict[str, list[Declarator]] = {}
    for found in declarators(scan(source).code):
        if "__global__" in found.marks and not found.name.startswith("__"):  # __launch_bounds__(256) is not a kernel
            kernels.setdefault("::".join(filter(None, (found.namespace, found.name))), []).append(found)
    path = match["path"]
    ends = [name for name in kernels if path == name or path.endswith(f"::{name}")]
    name = max(ends, key=len, default=None)
    if name is None:
        raise KernelArgumentError(_not_found(where, path, list(kernels)))
    _check_template(where, name, bool(match["arguments"]), kernels[name])
    return Declaration(entry.strip(), name, _parameters(where, name, kernels[name]))


def _parameters(where: str, name: str, found: list[Declarator]) -> tuple[CppParameter, ...]:
    """Read the parameters of a kernel, which may be declared before it is defined."""
    lists = [read_parameters(each.words) for each in found]
    if pack := next((str(each) for parameters in lists for each in parameters if "..." in each.declared), None):
        raise KernelArgumentError(
            f"{where}: the parameter `{pack}` of {name!r} is a parameter pack; declare each parameter separately"
        )
    counts = sorted({len(parameters) for parameters in lists})
    if len(counts) > 1:
        raise KernelArgumentError(
            f"{where}: there are several kernels {name!r}, with {' and '.join(map(str, counts))} parameters (all "
            "branches of an #if count); give each its own name"
        )
    places = [sorted(place, key=lambda each: not each.name) for place in zip(*lists, strict=True)]
    for place in places:
        if len(names := dict.fromkeys(each.name for each in place if each.name)) > 1:
            raise KernelArgumentError(
                f"{where}: the kernel {name!r} is declared several times, with different names for one parameter: "
                f"{' and '.join(map(repr, names))}; use one name"
            )
    return tuple(place[0] for place in places)


def _not_found(where: str, path: str, kernels: list[str]) -> str:
    known = f"it has: {', '.join(kernels)}" if kernels else "it has none"
    return (
        f"{where}: the source has no kernel {path!r}{did_you_mean(path, kernels)}; {known}. Write `__global__ void "
        f"{path.rpartition('::')[2]}(...)`, outside of macros"
    )


def _check_template(where: str, name: str, has_arguments: bool, found: list[Declarator]) -> None:
    is_template = any("template" in each.marks for each in found)
    if is_template and not has_arguments:
        raise KernelArgumentError(f"{where}: {name!r} is a template; name an instance, such as entry='{name}<float>'")
    if has_arguments and not is_template:
        raise KernelArgumentError(f"{where}: {name!r} is not a template; name it without <...>")


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
