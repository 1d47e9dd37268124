# SPDX-License-Identifier: Apache-2.0
"""Run a form with NumPy, for many neurons at once: slow, exact, and the oracle of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .form import Assign, Branch, Constant, Form, Line, Loop, Operand
from .primitives import applied, flushed

__all__ = ["interpret"]

Array = Any


def interpret(form: Form, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Return the outputs of a form: arrays of one dimension for arrays of the inputs' dtypes, or scalars."""
    given = [np.asarray(a, name.dtype) for a, name in zip(arguments, form.inputs, strict=True)]
    (size,) = np.broadcast_shapes(*(a.shape for a in given), (1,))
    whole = [np.ascontiguousarray(a if a.shape == (size,) else np.broadcast_to(a, size)) for a in given]
    with np.errstate(all="ignore"):
        return _Run(form, size).outputs([flushed(a) for a in whole], np.ones(size, bool))


class _Run:
    """One form over `size` neurons; `active` says which of them run a line, the others' values are not used."""

    def __init__(self, form: Form, size: int):
        self.form, self.size = form, size
        self.values: dict[str, Array] = {}
        self.constants: dict[Constant, Array] = {}
        self.functions = {function.name: function for function in form.functions}

    def outputs(self, arguments: Sequence[Array], active: Array) -> tuple[Array, ...]:
        self.values.update((name.text, a) for name, a in zip(self.form.inputs, arguments, strict=True))
        self.lines(self.form.lines, active)
        return tuple(self.read(operand) for operand in self.form.outputs)

    def read(self, operand: Operand) -> Array:
        if isinstance(operand, Constant):
            if operand not in self.constants:
                self.constants[operand] = np.full(self.size, operand.value)
            return self.constants[operand]
        return self.values[operand.text]

    def lines(self, lines: tuple[Line, ...], active: Array) -> None:
        for line in lines:
            if isinstance(line, Assign):
                self.values[line.target.text] = self.assigned(line, active)
            elif isinstance(line, Loop):
                self.loop(line, active)
            else:
                self.branch(line, active)

    def assigned(self, line: Assign, active: Array) -> Array:
        operands = tuple(self.read(operand) for operand in line.operands)
        function = self.functions.get(line.op)
        if function is None:
            return applied(line.op, line.target.dtype, operands)
        return _Run(function, self.size).outputs(operands, active)[0]

    def loop(self, loop: Loop, active: Array) -> None:
        carried = [self.read(start) for start in loop.starts]
        while True:
            self.values.update((name.text, value) for name, value in zip(loop.carries, carried, strict=True))
            self.lines(loop.head, active)
            active = active & self.read(loop.go)
            if not active.any():
                return
            self.lines(loop.body, active)
            results = [self.read(result) for result in loop.results]  # all of them before any is assigned
            carried = [np.where(active, new, old) for new, old in zip(results, carried, strict=True)]

    def branch(self, branch: Branch, active: Array) -> None:
        condition = self.read(branch.condition)
        self.lines(branch.then, active & condition)
        self.lines(branch.otherwise, active & ~condition)
        sides = zip(branch.targets, branch.then_results, branch.otherwise_results, strict=True)
        self.values.update((name.text, np.where(condition, self.read(a), self.read(b))) for name, a, b in sides)
