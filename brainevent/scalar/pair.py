# SPDX-License-Identifier: Apache-2.0
"""Trace a function of two neurons with JAX: a probability, a weight or a delay by the attributes of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from ..errors import RuleError, UnknownNameError, did_you_mean
from .form import Form, Name, boxed
from .lines import read
from .lower import Lowering
from .record import Record
from .trace import Checked

__all__ = ["SIDES", "TracedPair", "trace_pair"]

SIDES = ("pre", "post")  # the records that a function takes

Function = Callable[..., Any]


@dataclass(frozen=True)
class TracedPair:
    """A function of two neurons as a form of which the inputs are the attributes that it needs, all float32.

    `names` are those of the inputs: the record and the attribute. The one output is float32.
    """

    name: str = field(compare=False)
    form: Form
    names: tuple[tuple[str, str], ...]


class _CheckedPair(Checked):
    """A function of two neurons as a function of flat scalars."""

    of, instead = "pair", "draw an attribute instead, by values such as uniform(0, 1)"

    def __init__(self, name: str, function: Function, groups: Mapping[str, Collection[str]], ends: tuple[str, str]):
        self.name, self.rule, self.dtype, self.random = name, function, "float32", ()
        self.groups = tuple(dict.fromkeys(groups[side], "float32") for side in SIDES)
        self.ends = ends

    def _jaxpr(self) -> Any:
        try:
            return super()._jaxpr()
        except UnknownNameError as error:
            if isinstance(error.obj, Record) and error.obj._what in SIDES:
                side = SIDES.index(error.obj._what)
                known = list(self.groups[side])
                text = (
                    f"{self.name}: reads {SIDES[side]}.{error.name}, but population {self.ends[side]} has no attribute "
                    f"{error.name!r}{did_you_mean(str(error.name), known)}; its attributes are "
                    f"{', '.join(known) or 'none'}; give it one, as in Population(..., at={{{error.name!r}: ...}})"
                )
                error.args = (text,)
            raise

    def flat(self, *scalars: Any) -> list[Any]:
        """Return the value for scalars of both groups."""
        rest = iter(scalars)
        records = [
            Record(side, {key: next(rest) for key in group}) for side, group in zip(SIDES, self.groups, strict=True)
        ]
        value = self._scalar("the value", self.rule(*records))
        if value.dtype.kind not in "biuf":
            raise RuleError(f"{self.name}: returns {value.dtype}; return a real number")
        return [value.astype(np.float32)]


def trace_pair(
    where: str, function: Function, groups: Mapping[str, Collection[str]], ends: tuple[str, str]
) -> TracedPair:
    """Trace `function(pre, post)`, which returns a number of two neurons.

    Args:
        where: What the function is for, in errors.
        function: The function, in `jax.numpy`, of records with the attributes of the source and of the target.
        groups: Names of the attributes of both, by "pre" and "post".
        ends: Names of the populations, in errors.

    Returns:
        The function as a form.

    Raises:
        RuleError: The function takes or returns something else, needs the value of a traced number, or uses what no
            engine has.

    Examples:
        >>> groups = {"pre": ["x", "y"], "post": ["x"]}
        >>> traced = trace_pair("delay", lambda pre, post: abs(pre.x - post.x), groups, ("exc", "exc"))
        >>> [name.text for name in traced.form.inputs]
        ['pre_x', 'post_x']
    """
    title = getattr(function, "__name__", type(function).__name__)
    name = where if title == "<lambda>" else f"{where}: {title}"
    try:
        inspect.signature(function).bind(*SIDES)
    except (TypeError, ValueError):
        raise RuleError(f"{name}: is no function of two neurons; write one as lambda pre, post: ...") from None
    names = [(side, key) for side in SIDES for key in groups[side]]
    inputs = [Name("_".join(one), "float32") for one in names]
    try:
        form = _lowered(_CheckedPair(name, function, groups, ends), inputs)
    except RuleError as error:  # which begins as one about the rule of a neuron
        error.args = (str(error.args[0]).removeprefix("rule "), *error.args[1:])
        raise
    outputs = form.outputs
    needed = {one.text for line in form.lines for one in read(line)} | {getattr(one, "text", "") for one in outputs}
    kept = [(one, of) for one, of in zip(inputs, names, strict=True) if one.text in needed]
    return TracedPair(title, replace(form, inputs=tuple(one for one, _ in kept)), tuple(of for _, of in kept))


def _lowered(checked: _CheckedPair, inputs: list[Name]) -> Form:
    with jax.enable_x64(False):
        lowering = Lowering(checked.name)
        outputs = tuple(value.item() for value in lowering.jaxpr(checked.jaxpr(), [boxed(one) for one in inputs]))
    writer = lowering.writer
    return Form("pair", tuple(inputs), tuple(writer.lines), outputs, tuple(writer.functions.values()))
