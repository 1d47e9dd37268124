# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a rule: typed scalar lines, loops and branches, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .primitives import flush

__all__ = [
    "DTYPES",
    "FLOATS",
    "Assign",
    "Branch",
    "Constant",
    "Form",
    "Line",
    "Loop",
    "Name",
    "Operand",
    "constant",
    "form_dtype",
    "held_dtype",
]

FLOATS = ("float32", "float64")
DTYPES = (*FLOATS, "int32", "uint32", "bool")
_NARROW = {"int64": "int32", "uint64": "uint32"}
_WIDE = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
_BITS = {"float32": "uint32", "float64": "uint64", "int32": "uint32", "uint32": "uint32", "bool": "uint8"}


def form_dtype(dtype: Any) -> str:
    """Return the dtype of the form for one of JAX: integers have 32 bits, also where JAX counts with 64."""
    return _NARROW.get(str(dtype), str(dtype))


def held_dtype(dtype: Any) -> str:
    """Return the dtype of the form that holds values of one of JAX within a rule: see `narrow.py`."""
    return _WIDE.get(str(dtype), form_dtype(dtype))


@dataclass(frozen=True)
class Name:
    """A scalar that a line or an input defines."""

    text: str
    dtype: str


@dataclass(frozen=True)
class Constant:
    """A scalar known at tracing, as bits: so that NaN equals itself and -0.0 is not 0.0."""

    bits: int
    dtype: str

    @property
    def value(self) -> Any:
        """The scalar, with its NumPy dtype."""
        return np.array(self.bits, _BITS[self.dtype]).view(self.dtype)[()]


Operand = Name | Constant


def constant(value: Any, dtype: str) -> Constant:
    """Return a value as a constant of a dtype of the form; a denormal counts as zero, as an input does."""
    array = np.asarray(value, dtype)
    return Constant(int((flush(array) if dtype == "float32" else array).view(_BITS[dtype])), dtype)


@dataclass(frozen=True)
class Assign:
    """`target = op(operands)`: op is a primitive of `primitives.py`, or the name of a function of the form."""

    target: Name
    op: str
    operands: tuple[Operand, ...]
    source: str = field(default="", compare=False)  # file:line of the user's rule


@dataclass(frozen=True)
class Loop:
    """While `go` holds after `head`, run `body` and assign `results` to `carries`, all at once."""

    carries: tuple[Name, ...]
    starts: tuple[Operand, ...]
    head: tuple[Line, ...]
    go: Operand
    body: tuple[Line, ...]
    results: tuple[Operand, ...]


@dataclass(frozen=True)
class Branch:
    """Run the lines of one side, and assign its results to `targets`."""

    condition: Operand
    targets: tuple[Name, ...]
    then: tuple[Line, ...]
    then_results: tuple[Operand, ...]
    otherwise: tuple[Line, ...]
    otherwise_results: tuple[Operand, ...]


Line = Assign | Loop | Branch


@dataclass(frozen=True)
class Form:
    """A function of scalars; `functions` holds the forms that its lines call, callees first."""

    name: str
    inputs: tuple[Name, ...]
    lines: tuple[Line, ...]
    outputs: tuple[Operand, ...]
    functions: tuple[Form, ...] = ()

    def all_lines(self) -> Iterator[Line]:
        """Yield every line, those within loops and branches included."""
        waiting = list(reversed(self.lines))
        while waiting:
            line = waiting.pop()
            yield line
            if isinstance(line, Loop):
                waiting += reversed(line.head + line.body)
            elif isinstance(line, Branch):
                waiting += reversed(line.then + line.otherwise)
