# SPDX-License-Identifier: Apache-2.0
"""The declaration of an entry point by tokens and by C++ parameters, and whether both agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from ..errors import KernelError, did_you_mean
from .parameters import INTEGERS, KEYWORDS, CppParameter

__all__ = [
    "ATTRIBUTE_TYPES",
    "FunctionSpec",
    "Parameter",
    "Signature",
    "checked_name",
    "described",
    "inferred",
    "normalize_tokens",
    "strings",
]

ATTRIBUTE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "bool": "bool",
        **{name: f"{name}_t" for name in INTEGERS},
        "float16": "uint16_t",  # half precision is passed as its bits
        "bfloat16": "uint16_t",
        "float32": "float",
        "float64": "double",
    }
)

_ALIASES = {"args": "arg", "rets": "ret", "ctx.stream": "stream"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry point; an attribute has the name by which it is passed, and a type."""

    kind: Literal["arg", "ret", "stream", "attr"]
    name: str = ""
    type: str = ""

    @property
    def token(self) -> str:
        """The canonical token, such as "attr.scale:float32"."""
        return f"attr.{self.name}:{self.type}" if self.kind == "attr" else self.kind


_PLAIN: dict[str, Parameter] = {"arg": Parameter("arg"), "ret": Parameter("ret"), "stream": Parameter("stream")}


@dataclass(frozen=True)
class FunctionSpec:
    """An entry point: its parameters are in the order of C++."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def operands(self) -> tuple[Parameter, ...]:
        """The tensors that it reads."""
        return tuple(parameter for parameter in self.parameters if parameter.kind == "arg")

    @property
    def results(self) -> tuple[Parameter, ...]:
        """The tensors that it writes."""
        return tuple(parameter for parameter in self.parameters if parameter.kind == "ret")

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """The scalars that are given by name."""
        return tuple(parameter for parameter in self.parameters if parameter.kind == "attr")

    @property
    def tokens(self) -> tuple[str, ...]:
        """The canonical tokens, one per parameter."""
        return tuple(parameter.token for parameter in self.parameters)


def checked_name(name: str, what: str, at: str) -> str:
    """Return a name that is safe to write into C++."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise KernelError(f"{at}: {what} {name!r} is not an ASCII C identifier; use letters, digits and underscores")
    if name in KEYWORDS.split():
        raise KernelError(f"{at}: {what} {name!r} is a keyword of C++; choose another name")
    return name


def strings(words: object, what: str, at: str) -> list[str]:
    """Return a user's list of strings, or raise."""
    if isinstance(words, str):
        raise KernelError(f"{at}: {what} is the string {words!r}; pass a list: {words.replace(',', ' ').split()}")
    if not isinstance(words, Sequence):
        raise KernelError(f"{at}: {what} is {words!r}, of type {type(words).__name__}; pass a list of strings")
    for word in words:
        if not isinstance(word, str):
            raise KernelError(f"{at}: {what} has {word!r}, of type {type(word).__name__}; pass strings only")
    return list(words)


def normalize_tokens(tokens: Sequence[str]) -> list[str]:
    """Replace aliases in the tokens that declare an entry point; other words stay as they are.

    Args:
        tokens: Words such as "arg", "args", "ret" and "attrs.n:int32".

    Returns:
        The words, such as "arg", "arg", "ret" and "attr.n:int32".

    Raises:
        KernelError: If `tokens` is a string, or holds anything but strings.

    Examples:
        >>> import brainevent
        >>> brainevent.normalize_tokens(["args", "rets", "attrs.n:int32"])
        ['arg', 'ret', 'attr.n:int32']
    """
    return [_normalize(token) for token in strings(tokens, "tokens", "normalize_tokens")]


def _normalize(token: str) -> str:
    """Replace an alias."""
    return f"attr.{token.removeprefix('attrs.')}" if token.startswith("attrs.") else _ALIASES.get(token, token)


def _read_token(token: str, function: str, at: str) -> Parameter:
    """Read a token; the type of an attribute is empty where the token leaves it to the signature."""
    plain = _normalize(token)
    if plain in _PLAIN:
        return _PLAIN[plain]
    kind, dot, rest = plain.partition(".")
    invalid = f"Invalid arg_spec token {token!r} of {function!r}"
    if not dot or kind != "attr":
        hint = did_you_mean(token, ["arg", "ret", "stream", *([f"attr.{rest}"] if dot else [])])
        raise KernelError(
            f"{at}: {invalid}{hint}; valid tokens: 'arg', 'ret', 'stream', 'attr.<name>:<type>', 'attr.<name>'"
        )
    name, colon, number = rest.partition(":")
    checked_name(name, f"{invalid}: the attribute's name", at)
    if colon and number not in ATTRIBUTE_TYPES:
        hint = did_you_mean(number, ATTRIBUTE_TYPES)
        raise KernelError(f"{at}: {invalid}: no type {number!r}{hint}; valid types: {', '.join(ATTRIBUTE_TYPES)}")
    return Parameter("attr", name, number)


def _fits(token: Parameter, cpp: CppParameter) -> bool:
    """Return whether a token matches a C++ parameter; names of unknown types are left to the compiler."""
    if cpp.kind in ("alias", "other"):
        return cpp.kind == "alias"
    if token.kind == "arg":
        return cpp.kind in ("arg", "ret")
    if token.kind == "stream":
        return cpp.kind == "stream" or cpp.type == "int64"
    if token.kind == "ret" or not cpp.type:
        return cpp.kind == token.kind
    return ATTRIBUTE_TYPES[token.type] == ATTRIBUTE_TYPES[cpp.type]


class Signature(NamedTuple):
    """The parameters of a function, and their line: "line 3", or "kernels_1.cpp:3"."""

    place: str
    parameters: tuple[CppParameter, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))})"


def described(name: str, tokens: list[str], signature: Signature | None, at: str) -> tuple[Parameter, ...]:
    """Read the tokens of an entry point, and check them against its signature, if there is one."""
    parameters = [_typed(_read_token(token, name, at), name, signature, at) for token in tokens]
    _require_unique(name, parameters, at)
    if not any(parameter.kind == "ret" for parameter in parameters):
        raise KernelError(f"{at}: {name!r} has no 'ret' among its tokens {tokens}; it needs a tensor to write to")
    return tuple(_agreed(name, parameters, signature, at) if signature else parameters)


def _require_unique(name: str, parameters: list[Parameter], at: str) -> None:
    seen = set()
    for parameter in parameters:
        if parameter.kind == "attr" and parameter.name == "outs":
            raise KernelError(f"{at}: {name!r} has an attribute 'outs', which is taken; choose another name")
        if parameter.kind in ("attr", "stream") and (parameter.kind, parameter.name) in seen:
            raise KernelError(f"{at}: Duplicate {parameter.kind} {parameter.name!r} of {name!r}; keep one")
        seen.add((parameter.kind, parameter.name))


def _typed(parameter: Parameter, function: str, signature: Signature | None, at: str) -> Parameter:
    """Look up the type of an attribute that has none."""
    if parameter.kind != "attr" or parameter.type:
        return parameter
    advice = f"give the type: 'attr.{parameter.name}:<type>'"
    if not signature:
        raise KernelError(f"{at}: the type of {parameter.token[:-1]!r} is unknown: no 'void {function}(...)'; {advice}")
    for cpp in signature.parameters:
        if cpp.name == parameter.name:
            if not cpp.type:
                raise _unmappable(function, cpp, signature, at)
            return Parameter("attr", cpp.name, cpp.type)
    hint = did_you_mean(parameter.name, [cpp.name for cpp in signature.parameters])
    raise KernelError(
        f"{at}: attribute {parameter.name!r} not found in signature {function}{signature} "
        f"of {signature.place}{hint}; use the name of a parameter"
    )


def _agreed(name: str, parameters: list[Parameter], signature: Signature, at: str) -> list[Parameter]:
    """Return the parameters with the names of C++, after a check that both match."""
    both = f"tokens: {' '.join(p.token for p in parameters)}; C++, {signature.place}: void {name}{signature}"
    if len(parameters) != len(signature.parameters):
        count = f"{len(parameters)} tokens for {len(signature.parameters)} parameters"
        raise KernelError(f"{at}: {name!r} has {count}; {both}; give one token per parameter")
    elsewhere = {cpp.name for cpp in signature.parameters}
    for number, (parameter, cpp) in enumerate(zip(parameters, signature.parameters, strict=True), 1):
        if cpp.kind == "other":
            raise _unmappable(name, cpp, signature, at)
        swapped = parameter.kind == "attr" and parameter.name != cpp.name and parameter.name in elsewhere
        if swapped or not _fits(parameter, cpp):
            mismatch = f"parameter {number} is '{cpp}', but its token is {parameter.token!r}"
            raise KernelError(f"{at}: the tokens of {name!r} do not fit: {mismatch}; {both}; make them agree")
    return [_named(*pair) for pair in zip(parameters, signature.parameters, strict=True)]


def _named(parameter: Parameter, cpp: CppParameter) -> Parameter:
    """Use the name of C++, unless an attribute has its own."""
    return parameter if parameter.kind == "attr" or not cpp.name.isascii() else replace(parameter, name=cpp.name)


def inferred(name: str, signature: Signature, at: str) -> tuple[Parameter, ...]:
    """Describe an entry point by its signature."""
    parameters = []
    for number, cpp in enumerate(signature.parameters, 1):
        if cpp.kind in ("alias", "other"):
            raise _unmappable(name, cpp, signature, at)
        if cpp.kind != "attr":
            parameters.append(_named(_PLAIN[cpp.kind], cpp))
            continue
        if not cpp.name:
            unnamed = f"parameter {number} of {name}{signature}, {signature.place}, has no name"
            raise KernelError(f"{at}: {unnamed}; name it: attributes are passed by name")
        checked_name(cpp.name, f"{name}{signature}, {signature.place}: the attribute's name", at)
        parameters.append(Parameter("attr", cpp.name, cpp.type))
    text = f"void {name}{signature} of {signature.place}"
    kinds = {cpp.kind for cpp in parameters}
    if not kinds & {"arg", "ret"}:
        raise KernelError(f"{at}: No Tensor parameters found in {text}; take arrays as BE::Tensor")
    if "ret" not in kinds:
        raise KernelError(f"{at}: No non-const Tensor output found in {text}; declare each output as BE::Tensor")
    _require_unique(name, parameters, at)
    return tuple(parameters)


def _unmappable(name: str, cpp: CppParameter, signature: Signature, at: str) -> KernelError:
    what = f"Cannot map C++ type {cpp.declared!r} of parameter {cpp.name!r} of {name!r}, {signature.place}"
    if all(other.kind not in ("arg", "ret") for other in signature.parameters):
        what += "; No Tensor parameters found"
    known = ["BE::Tensor", *ATTRIBUTE_TYPES.values(), "int", "size_t"] if cpp.kind == "alias" else []
    advice = "take arrays as (const) BE::Tensor and numbers by value, such as float, int64_t, or uint16_t for half"
    return KernelError(f"{at}: {what}{did_you_mean(cpp.declared, known)}; {advice}")
