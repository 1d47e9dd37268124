# SPDX-License-Identifier: Apache-2.0
"""Trace the rule of one synapse with JAX; the forms of traces of spikes, and of the delivery of a weight."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import RuleError, UnknownNameError
from .form import Assign, Branch, Form, Loop, Name, Operand, boxed
from .lower import Lowering, form_of
from .record import Record
from .trace import Checked, shown_result

__all__ = [
    "DECAYED",
    "DELIVERED",
    "FACTOR",
    "GRADED",
    "KINDS",
    "SCALED",
    "SPIKED",
    "TracedSynapseRule",
    "decayed",
    "delivered",
]
__all__ += ["forms_of_synapses", "graded", "synapse_function", "trace_synapse"]

Rule = Callable[..., Any]
Groups = Mapping[str, Mapping[str, str]]
KINDS = ("synapse", "pre", "post", "params")  # the records that a rule takes
_PREFIXES = dict(zip(KINDS, ("s_", "pre_", "post_", "p_"), strict=True))
_DECLARED = {
    "synapse": "declare states of the synapse in state=",
    "pre": "declare traces and states of the source in pre=",
    "post": "declare traces of the target in post=, and states in its population",
    "params": "declare parameters in params=",
}
DECAYED, SPIKED, DELIVERED, FACTOR, SCALED = "decayed", "spiked", "delivered", "factor", "scaled"
GRADED = "graded"


def factor(steps: Any, rate: Any) -> Any:
    """Return by which factor a trace decays in a number of steps; `rate` is dt / tau."""
    return jnp.exp(-(steps.astype(rate.dtype) * rate))


def scaled(value: Any, by: Any) -> Any:
    """Return a trace that has decayed by a factor."""
    return value * by


def decayed(value: Any, last: Any, now: Any, rate: Any) -> Any:
    """Return a trace in step `now` that had a value after its last spike, in step `last`; `rate` is dt / tau."""
    return scaled(value, factor(now - last, rate))


def spiked(value: Any, last: Any, now: Any, rate: Any, add: Any) -> Any:
    """Return a trace after a spike in step `now`."""
    return decayed(value, last, now, rate) + add


def delivered(w: Any, per_unit: Any) -> Any:
    """Return how many quanta a weight is, as a whole number; `per_unit` is 1 / quantum."""
    return lax.round(w * per_unit, lax.RoundingMethod.TO_NEAREST_EVEN).astype(np.int32)


def graded(w: Any, value: Any, per_unit: Any) -> Any:
    """Return how many quanta a weight times the value of a spike is."""
    return delivered(w * value, per_unit)


@functools.cache
def forms_of_synapses(dtype: str = "float32") -> Mapping[str, Form]:
    """Return the forms of traces and of the delivery of a weight, by their names, whose floats are of a dtype."""
    step = ("uint32", "uint32")
    return {
        DECAYED: form_of(DECAYED, decayed, (dtype, *step, dtype)),
        SPIKED: form_of(SPIKED, spiked, (dtype, *step, dtype, dtype)),
        DELIVERED: form_of(DELIVERED, delivered, (dtype, dtype)),
        GRADED: form_of(GRADED, graded, (dtype, dtype, dtype)),
        FACTOR: form_of(FACTOR, factor, ("uint32", dtype)),
        SCALED: form_of(SCALED, scaled, (dtype, dtype)),
    }


@dataclass(frozen=True)
class TracedSynapseRule:
    """A rule of a synapse as a form.

    Its inputs are `w`, the states of the synapse as `s_NAME`, and of `pre_NAME`, `post_NAME` and `p_NAME` those that
    it needs. Its outputs are the new weight, clipped, and the new states, in their order. `function` is what was
    traced. `read` are the names that the rule read, by record, and `changed` the states that it replaced.
    """

    name: str = field(compare=False)
    form: Form
    groups: Groups = field(compare=False)
    bounds: tuple[float, float] = field(compare=False)
    function: Rule = field(compare=False, repr=False)
    dtype: str = "float32"
    read: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)
    changed: frozenset[str] = field(default=frozenset(), compare=False)


class _CheckedSynapse(Checked):
    """A rule of a synapse as a function of flat scalars; `hints` say what to do about names that are missing."""

    of, instead = "synapse", "draw initial states instead, by values such as uniform(0, 1)"

    def __init__(
        self,
        name: str,
        rule: Rule,
        groups: Groups,
        bounds: tuple[float, float],
        dtype: str,
        hints: Mapping[tuple[str, str], str],
    ):
        self.name, self.rule, self.dtype, self.random = name, rule, dtype, ()
        self.groups = ({"w": dtype}, *(groups[kind] for kind in KINDS))
        self.low, self.high = (np.dtype(dtype).type(bound) for bound in bounds)
        self.hints = hints
        self.reads: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.changed: set[str] = set()
        _check_signature(name, rule)

    def _jaxpr(self) -> Any:
        try:
            return super()._jaxpr()
        except UnknownNameError as error:
            if isinstance(error.obj, Record):
                what = error.obj._what
                hint = self.hints.get((what, str(error.name)), _DECLARED.get(what, ""))
                error.args = (f"{error}; {hint}",) if hint else error.args
            raise

    def flat(self, *scalars: Any) -> list[Any]:
        """Return the clipped weight and the states that the rule returns for scalars of all groups."""
        w, *others = scalars
        rest = iter(others)
        records = [
            Record(kind, {key: next(rest) for key in group}, self.reads[kind])
            for kind, group in zip(KINDS, self.groups[1:], strict=True)
        ]
        before = dict(records[0]._values)
        result = self.rule(w, *records)
        w, new = result if isinstance(result, tuple) and len(result) == 2 else (result, records[0])
        if isinstance(w, (tuple, Record)) or not isinstance(new, Record) or list(new) != list(before):
            raise RuleError(f"rule {self.name}: returns {shown_result(result)}; return w, or (w, s.replace(...))")
        self.changed |= {key for key, value in before.items() if new._values[key] is not value}
        w = self._float("w", w)
        w = jnp.where(w > self.high, self.high, jnp.where(w < self.low, self.low, w))
        return [w, *(self._float(f"state {key}", value) for key, value in new._values.items())]

    def _float(self, what: str, value: Any) -> Any:
        array = self._scalar(what, value)
        if not (jnp.issubdtype(array.dtype, np.floating) or jnp.issubdtype(array.dtype, np.integer)):
            raise RuleError(f"rule {self.name}: {what} is {array.dtype}; return a float")
        return array.astype(self.dtype)


def _check_signature(name: str, rule: Rule) -> None:
    """Raise unless a rule takes five arguments."""
    try:
        inspect.signature(rule).bind(*range(5))
    except (TypeError, ValueError):
        try:
            shown = str(inspect.signature(rule))
        except ValueError:  # of a function that is not written in Python
            shown = "what only its author knows"
        raise RuleError(f"rule {name}: takes {shown}; write rule(w, s, pre, post, p)") from None


def trace_synapse(
    rule: Rule,
    groups: Groups,
    bounds: tuple[float, float],
    *,
    dtype: str = "float32",
    hints: Mapping[tuple[str, str], str] | None = None,
) -> TracedSynapseRule:
    """Trace `rule(w, s, pre, post, p)`, which returns the new weight, or the new weight and states of a synapse.

    Args:
        rule: The function of one synapse, in `jax.numpy`.
        groups: Names and dtypes of what the records have: "synapse", "pre", "post" and "params".
        bounds: The smallest and the largest weight: what the rule returns is clipped to them; NaN stays NaN.
        dtype: That of weights and states of synapses.
        hints: What to do about a name that a record does not have, by record and name.

    Returns:
        The rule as a form.

    Raises:
        RuleError: The rule returns something else, needs the value of a traced number, or uses what no engine has.

    Examples:
        >>> groups = {"synapse": {}, "pre": {"x": "float32"}, "post": {"v": "float32"}, "params": {}}
        >>> traced = trace_synapse(lambda w, s, pre, post, p: w + 0.01 * pre.x, groups, (0.0, 1.0))
        >>> [name.text for name in traced.form.inputs]
        ['w', 'pre_x']
    """
    name = getattr(rule, "__name__", type(rule).__name__)
    with jax.enable_x64(dtype == "float64"):
        checked = _CheckedSynapse(name, rule, groups, bounds, dtype, hints or {})
        jaxpr = checked.jaxpr()
        names = [Name("w", dtype)]
        names += [Name(_PREFIXES[kind] + key, of) for kind in KINDS for key, of in groups[kind].items()]
        lowering = Lowering(name)
        outputs = tuple(value.item() for value in lowering.jaxpr(jaxpr, [boxed(one) for one in names]))
    writer = lowering.writer
    form = Form("rule", tuple(names), tuple(writer.lines), outputs, tuple(writer.functions.values()))
    read = {kind: frozenset(found) for kind, found in checked.reads.items()}
    return TracedSynapseRule(
        name, _pruned(form, 1 + len(groups["synapse"])), groups, bounds, rule, dtype, read, frozenset(checked.changed)
    )


def synapse_function(traced: TracedSynapseRule) -> Callable[..., list[Any]]:
    """Return a rule as a function of scalars in plain JAX, for the reference.

    Args:
        traced: What `trace_synapse` returned.

    Returns:
        A function of the weight and of all names of all groups, in their order, that returns the weight, clipped, and
        the states.
    """
    return _CheckedSynapse(traced.name, traced.function, traced.groups, traced.bounds, traced.dtype, {}).flat


def _pruned(form: Form, kept: int) -> Form:
    """Return a form without the inputs that it does not need, but for the first ones."""
    needed = {operand.text for operand in form.outputs if isinstance(operand, Name)}
    for line in form.all_lines():
        needed |= {operand.text for operand in _operands(line) if isinstance(operand, Name)}
    return replace(form, inputs=(*form.inputs[:kept], *(one for one in form.inputs[kept:] if one.text in needed)))


def _operands(line: Any) -> tuple[Operand, ...]:
    """Return what a line reads, without what is within it."""
    if isinstance(line, Assign):
        return line.operands
    if isinstance(line, Loop):
        return (*line.starts, line.go, *line.results)
    assert isinstance(line, Branch)
    return (line.condition, *line.then_results, *line.otherwise_results)
