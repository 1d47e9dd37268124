# SPDX-License-Identifier: Apache-2.0
"""Trace the rule of one neuron with JAX, and check what it returns."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import RuleError
from .form import DTYPES, Form, Name
from .lower import Lowering
from .random import Random
from .record import Record
from .writer import boxed

__all__ = ["TracedRule", "trace"]

Rule = Callable[..., Any]
_NEEDS_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerBoolConversionError,
)
_RANDOM = tuple(Name(f"r_{key}", "uint32") for key in ("neuron", "step", "key0", "key1"))
_NOT_OF_USERS = (str(Path(jax.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class TracedRule:
    """A rule as a form: its inputs are states, what arrives, parameters and keys; its outputs states and spike.

    `states`, `arriving`, `params` and `random` are names and dtypes in the order of the form's inputs. `random` is
    empty if the rule takes no random numbers; else neuron, step, and the two keys of seed and population.
    """

    name: str
    states: tuple[Name, ...]
    arriving: tuple[Name, ...]
    params: tuple[Name, ...]
    random: tuple[Name, ...]
    form: Form


def trace(rule: Rule, state: Mapping[str, Any], arriving: Iterable[str], params: Mapping[str, Any]) -> TracedRule:
    """Trace `rule(state, arriving, params) -> (state, spike)`, of which each value is a scalar.

    A rule with a fourth argument gets its random numbers as well: `rule(state, arriving, params, random)`.

    Args:
        rule: The function of one neuron, in `jax.numpy`, of three or four arguments.
        state: A value of each state, which says its dtype; an integer of Python becomes float32 if the rule returns
            that.
        arriving: Names of what arrives: float32.
        params: A value of each parameter, which says its dtype.

    Returns:
        The rule as a form, for `interpret` and for the printers.

    Raises:
        RuleError: The rule returns something else than its state and whether it spiked, needs the value of a traced
            number, draws one random number several times, or uses what no engine has. The message names the line.

    Examples:
        >>> import jax.numpy as jnp
        >>> def leak(s, arriving, p):
        ...     v = s.v * p.decay + arriving.syn
        ...     return s.replace(v=v), v > 1
        >>> traced = trace(leak, {"v": 0}, ["syn"], {"decay": 0.9})
        >>> [line.op for line in traced.form.lines]
        ['mul', 'add', 'gt']
    """
    name = getattr(rule, "__name__", type(rule).__name__)
    states = {key: _dtype(name, "state", key, value) for key, value in state.items()}
    others = (dict.fromkeys(arriving, "float32"), {k: _dtype(name, "parameter", k, v) for k, v in params.items()})
    loose = {key for key, value in state.items() if type(value) is int}
    with jax.enable_x64(False):
        while True:
            checked = _Checked(name, rule, states, *others)
            jaxpr = checked.jaxpr()
            grown = {key for key in loose if states[key] == "int32" and checked.returned[key] == "float32"}
            if not grown:
                break
            states |= dict.fromkeys(grown, "float32")
        checked.check_dtypes()
        return _lowered(name, jaxpr, checked.random, states, *others)


def _takes_random(name: str, rule: Rule) -> bool:
    """Say whether a rule has a fourth argument; one with a default is it if its name is `random`."""
    kinds = inspect.Parameter
    given = [p for p in inspect.signature(rule).parameters.values() if p.kind is not kinds.VAR_KEYWORD]
    needed = [p for p in given if p.default is kinds.empty and p.kind is not kinds.VAR_POSITIONAL]
    places = [p for p in given if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    variable = any(p.kind is kinds.VAR_POSITIONAL for p in given)
    if len(needed) > min(4, len(places)) or (len(places) < 3 and not variable):
        shown = ", ".join(str(p) for p in given) or "nothing"
        raise RuleError(f"rule {name}: takes {shown}; write rule(s, arriving, p) or rule(s, arriving, p, random)")
    return len(places) > 3 and (places[3] in needed or places[3].name == "random")


def _dtype(rule: str, kind: str, key: str, value: Any) -> str:
    """Return the dtype of the form that a value has: 64 bits become 32."""
    dtype = np.asarray(value).dtype
    found = {"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(str(dtype), str(dtype))
    if found not in DTYPES:
        raise RuleError(f"rule {rule}: {kind} {key} is {dtype}; pass one of {', '.join(DTYPES)}")
    return found


def _lowered(
    name: str,
    jaxpr: Any,
    random: tuple[Name, ...],
    states: Mapping[str, str],
    arriving: Mapping[str, str],
    params: Mapping[str, str],
) -> TracedRule:
    groups = [_names("s", states), _names("a", arriving), _names("p", params)]
    inputs = (*groups[0], *groups[1], *groups[2], *random)
    lowering = Lowering(name)
    outputs = tuple(value.item() for value in lowering.jaxpr(jaxpr, [boxed(i) for i in inputs]))
    writer = lowering.writer
    form = Form("rule", inputs, tuple(writer.lines), outputs, tuple(writer.functions.values()))
    return TracedRule(name, groups[0], groups[1], groups[2], random, form)


def _names(prefix: str, dtypes: Mapping[str, str]) -> tuple[Name, ...]:
    return tuple(Name(f"{prefix}_{key}", dtype) for key, dtype in dtypes.items())


class _Checked:
    """A rule as a function of flat scalars that checks what the rule returns."""

    def __init__(self, name: str, rule: Rule, *groups: Mapping[str, str]):
        self.name, self.rule, self.groups = name, rule, groups
        self.random = _RANDOM if _takes_random(name, rule) else ()
        self.returned: dict[str, str] = {}  # dtypes of the states that the rule returned

    def jaxpr(self) -> Any:
        dtypes = [dtype for group in self.groups for dtype in group.values()] + [name.dtype for name in self.random]
        try:
            return jax.make_jaxpr(self._flat)(*(jax.ShapeDtypeStruct((), dtype) for dtype in dtypes))
        except _NEEDS_VALUE as error:
            raise RuleError(
                f"rule {self.name}, {_line_of(error)}: Python needs the value of a number that is known only when the "
                "network runs; use jnp.where, jax.lax.cond or jax.lax.while_loop instead of if, and, or, while, int()"
            ) from error

    def _flat(self, *scalars: Any) -> list[Any]:
        rest = iter(scalars)
        kinds = ("state", "arriving", "params")
        records = [
            Record(kind, {key: next(rest) for key in group}) for kind, group in zip(kinds, self.groups, strict=True)
        ]
        result = self.rule(*records, Random(*rest)) if self.random else self.rule(*records)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Record)):
            raise RuleError(f"rule {self.name}: returns {_shown(result)}; return (state.replace(...), spike)")
        new, spike = result
        if list(new) != list(self.groups[0]):
            raise RuleError(f"rule {self.name}: returns {_shown(new)}; return state.replace(...) of its own state")
        values = [self._state(key, getattr(new, key), dtype) for key, dtype in self.groups[0].items()]
        spike = self._scalar("spike", spike)
        if spike.dtype != bool:
            raise RuleError(f"rule {self.name}: spike is {spike.dtype}; return a bool, such as v >= threshold")
        return [*values, spike]

    def _state(self, key: str, value: Any, dtype: str) -> Any:
        array = self._scalar(f"state {key}", value)
        if type(value) is int and dtype in ("float32", "uint32"):
            array = array.astype(dtype)
        self.returned[key] = str(array.dtype)
        return array

    def _scalar(self, what: str, value: Any) -> Any:
        try:
            array = jnp.asarray(value)
        except TypeError as error:
            raise RuleError(f"rule {self.name}: {what} is {_shown(value)}; return a scalar") from error
        if array.shape != ():
            raise RuleError(
                f"rule {self.name}: {what} has shape {array.shape}; a rule is of one neuron: return a scalar"
            )
        return array

    def check_dtypes(self) -> None:
        for key, dtype in self.groups[0].items():
            found = self.returned[key]
            if found != dtype:
                other = f", or begin with a value of {found}" if found in DTYPES else ""
                raise RuleError(
                    f"rule {self.name}: state {key} is {dtype} but the rule returns {found}; "
                    f"return .astype({dtype!r}){other}"
                )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(_shown(part) for part in value) or 'nothing'}"
    return f"a record of {', '.join(value)}" if isinstance(value, Record) else type(value).__name__


def _line_of(error: BaseException) -> str:
    """Return file:line of the innermost line that is neither JAX's nor ours."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno}" for frame in frames if not frame.filename.startswith(_NOT_OF_USERS)]
    return lines[-1] if lines else "unknown line"
