# SPDX-License-Identifier: Apache-2.0
"""Collect the lines of a form: new names, blocks within loops and branches, and what is known at tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .form import Assign, Constant, Form, Line, Name, Operand, constant
from .primitives import apply, result_dtype

__all__ = ["Writer", "boxed"]

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
