# SPDX-License-Identifier: Apache-2.0
"""Types of C++ and dtypes of JAX: the arrays that a pointer accepts, and the names of dtypes in C++."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import KernelArgumentError
from ...toolchain.tokens import checked_name

__all__ = ["CppType", "definitions", "read_type"]

# As the compiler mangles types in names of symbols (Itanium ABI), on a machine whose `long` has 64 bits.
_BUILT_IN = {
    "b": "bool", "a": "int8", "c": "int8", "s": "int16", "i": "int32", "l": "int64", "x": "int64",
    "h": "uint8", "t": "uint16", "j": "uint32", "m": "uint64", "y": "uint64", "f": "float32", "d": "float64",
}  # fmt: skip
_HALVES = {"6__half": "float16", "13__nv_bfloat16": "bfloat16"}
_FLOAT8 = {"__nv_fp8_e4m3": ("float8_e4m3fn",), "__nv_fp8_e5m2": ("float8_e5m2",)}
_PAIRS = {"float2": ("complex64",), "double2": ("complex128",)}
_ELEMENTS = {
    "char": "int8", "short": "int16", "int": "int32", "long": "int64", "longlong": "int64", "float": "float32",
    "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "ulonglong": "uint64",
    "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16",
}  # fmt: skip
_VECTOR = re.compile(r"(__half|__nv_bfloat16|[a-z]+?)([1-4])")
_COMPLEX = re.compile(r"N(?:4cuda3std|6thrust)\w*7complexI([fd])EE")
_POINTER = re.compile(r"(P?)([rVK]*)(.+)", re.DOTALL)

# What `types` defines: the spelling, and the header that it needs.
_SPELLED = {
    "bool": ("bool", ""),
    "int8": ("signed char", ""),
    "int16": ("short", ""),
    "int32": ("int", ""),
    "int64": ("long long", ""),
    "uint8": ("unsigned char", ""),
    "uint16": ("unsigned short", ""),
    "uint32": ("unsigned int", ""),
    "uint64": ("unsigned long long", ""),
    "float16": ("__half", "cuda_fp16.h"),
    "bfloat16": ("__nv_bfloat16", "cuda_bf16.h"),
    "float32": ("float", ""),
    "float64": ("double", ""),
    "complex64": ("cuda::std::complex<float>", "cuda/std/complex"),
    "complex128": ("cuda::std::complex<double>", "cuda/std/complex"),
    "float8_e4m3fn": ("__nv_fp8_e4m3", "cuda_fp8.h"),
    "float8_e5m2": ("__nv_fp8_e5m2", "cuda_fp8.h"),
}


@dataclass(frozen=True)
class CppType:
    """The type of a parameter; a pointer without dtypes accepts any array, at multiples of `alignment`."""

    is_pointer: bool = False
    is_constant: bool = False
    is_number: bool = False
    dtypes: tuple[str, ...] = ()
    alignment: int = 1  # of vectors; the elements of arrays are always aligned


def read_type(mangled: str) -> CppType:
    """Read a mangled type: "PKf" is const float*."""
    match = _POINTER.fullmatch(mangled)
    assert match is not None, "a type has a name"
    star, qualifiers, rest = match.groups()
    if rest[0] in "PROF":  # a pointer to a pointer, a reference, a function
        return CppType()
    number = _BUILT_IN.get(rest) or _HALVES.get(rest)
    if number:
        return CppType(bool(star), "K" in qualifiers, not star, (number,))
    dtypes, alignment = _elements(rest)
    return CppType(bool(star), "K" in qualifiers, dtypes=dtypes, alignment=alignment)


def _elements(mangled: str) -> tuple[tuple[str, ...], int]:
    """Return the dtypes of arrays that a pointer to a class of CUDA accepts, and its alignment; none for others."""
    if match := _COMPLEX.fullmatch(mangled):
        return ("complex64" if match[1] == "f" else "complex128",), 1
    name = mangled.lstrip("0123456789")
    match = _VECTOR.fullmatch(name)
    if match is None or match[1] not in _ELEMENTS:
        return _FLOAT8.get(name, ()), 1
    element, count = _ELEMENTS[match[1]], int(match[2])
    alignment = min(16, count * jnp.dtype(element).itemsize) if count in (2, 4) else 1
    return (*_PAIRS.get(name, ()), element), alignment


def definitions(where: str, types: Mapping[str, Any] | None) -> str:
    """Return C++ that defines the names in `types`, such as {"T": jnp.float32}."""
    if not isinstance(types or {}, Mapping):
        raise KernelArgumentError(f"{where}: types is {types!r}; pass a dict, such as {{'T': jnp.float32}}")
    headers, lines = [], []
    for name, dtype in (types or {}).items():
        if not isinstance(name, str):
            raise KernelArgumentError(f"{where}: types has the key {name!r}; a name of C++ is a string, such as 'T'")
        checked_name(name, "types: the name", where)
        spelled, header = _SPELLED.get(_dtype_name(where, name, dtype), ("", ""))
        if not spelled:
            raise KernelArgumentError(
                f"{where}: types[{name!r}] is {dtype!r}, for which C++ has no type; supported: {', '.join(_SPELLED)}"
            )
        headers += [f"#include <{header}>\n"] if header else []
        lines.append(f"using {name} = {spelled};\n")
    return "".join([*dict.fromkeys(headers), *lines])


def _dtype_name(where: str, name: str, dtype: Any) -> str:
    try:
        return np.dtype(jax.dtypes.canonicalize_dtype(dtype)).name
    except TypeError:
        raise KernelArgumentError(
            f"{where}: types[{name!r}] is {dtype!r}, which is not a dtype; pass one, such as jnp.float32 or x.dtype"
        ) from None
