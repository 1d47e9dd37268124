# SPDX-License-Identifier: Apache-2.0
"""Take the Poisson numbers of one mean out of a rule, so that they are counted in a table for many neurons at once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .form import Assign, Form, Line, Name, Operand, constant
from .interpret import interpret
from .lines import defined
from .lower import form_of
from .poisson import next_probability, poisson_start

__all__ = ["PoissonDraw", "poisson_table", "sliced", "split"]


@functools.cache
def _forms() -> tuple[Form, Form]:
    start = form_of("poisson_start", poisson_start, ["float32"])
    return start, form_of("next_probability", next_probability, ["float32"] * 4)


def poisson_table(mean: float) -> Any:
    """Return c_0 < c_1 < ... such that `poisson_of(u, mean)` is the number of those that are at most u.

    Args:
        mean: Mean. Above 64 the table is that of one part, as `poisson_of` is.

    Returns:
        float32 array of one dimension; its first number is 1 where there is never an event.

    Examples:
        >>> poisson_table(1.0)[:2].round(3)
        array([0.368, 0.736], dtype=float32)
    """
    start, step = _forms()
    part, p = (values[0] for values in interpret(start, [np.float32(mean)]))
    sums = [p]
    while True:
        p, total = (values[0] for values in interpret(step, [part, np.float32(len(sums)), p, sums[-1]]))
        if not total > sums[-1]:
            return np.array(sums, np.float32)
        sums.append(total)


_LARGEST_PART = 64  # the largest mean that `poisson_of` draws alone, without `poisson_more`


@dataclass(frozen=True)
class PoissonDraw:
    """A Poisson number whose mean follows from parameters that all neurons share.

    `uniform` is the uniform number that it is made of, `mean` a form of parameters, and `result` the input of the rest
    of the rule that stands for it. Where `alone` holds, the mean must be at most 64.
    """

    uniform: Form
    mean: Form
    result: Name
    alone: bool

    def mean_of(self, params: Mapping[str, Any]) -> float:
        """Return the mean for parameters, by the names of the form."""
        return float(interpret(self.mean, [params[name.text] for name in self.mean.inputs])[0][0])

    def table(self, params: Mapping[str, Any]) -> Any:
        """Return the numbers of which those are counted that are at most `uniform`."""
        return poisson_table(self.mean_of(params))

    def serves(self, params: Mapping[str, Any]) -> bool:
        """Say whether the rest of the rule is right for these parameters as well."""
        return self.alone == (not self.mean_of(params) > _LARGEST_PART)


def split(form: Form, scalars: Mapping[str, Any]) -> tuple[Form, tuple[PoissonDraw, ...]]:
    """Return the rest of a rule, and the Poisson numbers taken out of it; `scalars` are parameters that all share."""
    drawn: list[PoissonDraw] = []
    means: dict[Operand, bool] = {}  # of all draws, whether one part is all
    lines: list[Line] = []
    for line in form.lines:
        found = _drawn(form, line, scalars, len(drawn))
        if found is None:
            lines.append(line)
        else:
            drawn.append(found)
            means[line.operands[1]] = found.alone  # type: ignore[union-attr]
    without = [_without_more(line, means) for line in lines]
    inputs = (*form.inputs, *(one.result for one in drawn))
    return sliced(replace(form, inputs=inputs, lines=tuple(without)), form.name, form.outputs, inputs), tuple(drawn)


def _drawn(form: Form, line: Line, scalars: Mapping[str, Any], place: int) -> PoissonDraw | None:
    """Return the Poisson number that a line draws, if its mean follows from scalars."""
    if not (isinstance(line, Assign) and line.op == "poisson_of"):
        return None
    uniform, mean = line.operands
    of_mean = sliced(form, "mean", (mean,))
    if not all(name.text in scalars for name in of_mean.inputs):
        return None
    found = PoissonDraw(sliced(form, f"uniform{place}", (uniform,)), of_mean, line.target, alone=True)
    return replace(found, alone=found.serves(scalars))


def _without_more(line: Line, means: Mapping[Operand, bool]) -> Line:
    """Return a line; 0 instead of the further parts of a mean that has none."""
    if isinstance(line, Assign) and line.op == "poisson_more" and means.get(line.operands[-1]):
        none = constant(0, "int32")
        return Assign(line.target, "add", (none, none), line.source)
    return line


def sliced(form: Form, name: str, outputs: Sequence[Operand], inputs: Sequence[Name] | None = None) -> Form:
    """Return the part of a form that some operands need: its lines, functions and, unless they are given, inputs."""
    needed, lines = _names(outputs), []
    for line in reversed(form.lines):
        if not needed.isdisjoint(defined(line)):
            lines.append(line)
            needed |= _names(vars(line).values())
    if inputs is None:
        inputs = [given for given in form.inputs if given in needed]
    whole = Form(name, tuple(inputs), tuple(reversed(lines)), tuple(outputs))
    called = _called(whole, {function.name: function for function in form.functions})
    return replace(whole, functions=tuple(function for function in form.functions if function.name in called))


def _names(values: Iterable[Any]) -> set[Name]:
    """Return all names within operands, lines and tuples of them."""
    found: set[Name] = set()
    for value in values:
        if isinstance(value, Name):
            found.add(value)
        elif isinstance(value, tuple):
            found |= _names(value)
        elif isinstance(value, Line):
            found |= _names(getattr(value, field.name) for field in fields(value))
    return found


def _called(form: Form, functions: Mapping[str, Form]) -> set[str]:
    """Return the names of all functions that a form calls, also by way of others."""
    direct = {line.op for line in form.all_lines() if isinstance(line, Assign)} & functions.keys()
    return direct.union(*(_called(functions[name], functions) for name in direct))
