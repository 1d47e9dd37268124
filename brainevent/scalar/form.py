# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a rule: typed scalar lines, loops and branches, as frozen values; `Writer` collects them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .primitives import apply, flush, result_dtype

__all__ = [
    "DTYPES",
    "FLOATS",
    "HALVES",
    "WIDE_INTEGERS",
    "Assign",
    "Branch",
    "Constant",
    "Form",
    "Line",
    "Loop",
    "Name",
    "Operand",
    "Writer",
    "boxed",
    "constant",
    "form_dtype",
    "held_dtype",
]

FLOATS = ("float32", "float64")
DTYPES = (*FLOATS, "int32", "uint32", "bool")
WIDE_INTEGERS = ("int64", "uint64")  # which loops compute with, and rules do not
HALVES = ("float16", "bfloat16")  # likewise: held as float32, and rounded after each operation
_NARROW = {"int64": "int32", "uint64": "uint32"}
_WIDE = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
_BITS = {"float32": "uint32", "float64": "uint64", "int32": "uint32", "uint32": "uint32", "bool": "uint8"}
_BITS |= {f"{sign}int{bits}": f"uint{bits}" for sign in ("", "u") for bits in (8, 16, 64)}  # of loops, not of rules


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


Values = Any  # an object array of operands, in the shape of the array of JAX that it stands for


def boxed(operands: Any, shape: tuple[int, ...] = ()) -> Values:
    """Return operands as an object array of a shape; one operand fills a scalar."""
    result = np.empty(shape, object)
    if shape == () and isinstance(operands, Name | Constant):
        result[()] = operands
    else:
        result.reshape(-1)[:] = list(operands)
    return result


class Writer:
    """The form that is being written."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.functions: dict[str, Form] = {}
        self.source = ""  # of the lines that follow
        self.depth = self.repeated = 0  # how many blocks, and how many bodies of loops, are open
        self._count = 0

    def name(self, dtype: str) -> Name:
        """Return a new name."""
        self._count += 1
        return Name(f"t{self._count}", dtype)

    @contextmanager
    def block(self, *, repeats: bool = False) -> Iterator[list[Line]]:
        """Collect the lines of a block apart; one that repeats is of a loop."""
        outer, self.lines = self.lines, []
        self.depth, self.repeated = self.depth + 1, self.repeated + repeats
        try:
            yield self.lines
        finally:
            self.lines = outer
            self.depth, self.repeated = self.depth - 1, self.repeated - repeats

    def emit(self, op: str, *operands: Operand, dtype: str = "") -> Operand:
        """Write `op(operands)` and return its result: a constant if all operands are."""
        dtype = dtype or result_dtype(op, tuple(operand.dtype for operand in operands))
        if op == "select" and isinstance(operands[0], Constant):
            return operands[1] if operands[0].value else operands[2]
        if all(isinstance(operand, Constant) for operand in operands):
            known = [np.full(1, operand.value) for operand in operands if isinstance(operand, Constant)]
            return constant(apply(op, dtype, tuple(known))[0], dtype)
        return self._assign(op, dtype, operands)

    def call(self, function: Form, *operands: Operand) -> Operand:
        """Write a call of a form with one output."""
        for form in (*function.functions, function):
            self.functions.setdefault(form.name, form)
        return self._assign(function.name, function.outputs[0].dtype, operands)

    def _assign(self, op: str, dtype: str, operands: tuple[Operand, ...]) -> Name:
        target = self.name(dtype)
        self.lines.append(Assign(target, op, operands, self.source))
        return target
