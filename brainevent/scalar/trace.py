# SPDX-License-Identifier: Apache-2.0
"""Trace the rule of one neuron with JAX, and check what it takes and returns."""

from __future__ import annotations

import inspect
import keyword
import pickle
import random
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _units as units
from ..errors import RuleError, UnknownNameError, did_you_mean
from .form import DTYPES, FLOATS, Form, Name, boxed, form_dtype
from .lines import needed, uses_of
from .lower import Lowering
from .random import Random
from .record import Record

__all__ = ["Checked", "Outcome", "Rule", "Told", "TracedRule", "flat_rule", "shown_result", "told_by", "trace"]

Rule = Callable[..., Any]
Range = tuple[float, float] | None
_NEEDS_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerBoolConversionError,
)
_RANDOM = tuple(Name(f"r_{key}", "uint32") for key in ("neuron", "step", "key0", "key1"))
SPIKE, VALUE = "spike", "value"  # what a rule may return beside its state; all else are other events
_RESERVED = ("spikes", "counts", "rate")  # of recordings
_LETTERS = {"state": "s", "params": "p", "synapse": "s", "pre": "pre", "post": "post"}  # of the arguments of a rule
_NOT_OF_USERS = (str(Path(jax.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class Told:
    """What a rule returns besides its state: events, bools by name, spike first; and whether spikes have a value."""

    events: tuple[str, ...] = (SPIKE,)
    value: bool = False


class Checked:
    """A rule as a function of flat scalars; `groups` are names and dtypes of states, what arrives, and parameters.

    `dtype` is that of its floats, of random numbers too. If the value of a spike is not in `value_range`, all float
    states become NaN, and the value 0.
    """

    of, instead = "neuron", "write rule(s, arriving, p, random), and use random.normal()"

    def __init__(
        self, name: str, rule: Rule, *groups: Mapping[str, str], dtype: str = "float32", value_range: Range = None
    ):
        self.name, self.rule, self.groups, self.dtype, self.value_range = name, rule, groups, dtype, value_range
        self.random = _RANDOM if _takes_random(name, rule) else ()
        self.returned: dict[str, str] = {}  # dtypes of the states that the rule returned
        self.read: set[str] = set()  # names of the parameters that the rule read
        self.used: set[str] = set()  # names of the states that the rule read or replaced
        self.told = Told()  # what the rule returned besides its state

    def jaxpr(self) -> Any:
        """Trace the rule; raise if it draws from a generator of Python or NumPy, which only tracing would do."""
        before = _global_random()
        found = self._jaxpr()
        if _global_random() != before and str(self._jaxpr()) != str(found):
            raise RuleError(
                f"rule {self.name}: draws from numpy.random or random, once, when the network is built: all "
                f"{self.of}s would have the same number in all steps; {self.instead}"
            )
        return found

    def _jaxpr(self) -> Any:
        dtypes = [dtype for group in self.groups for dtype in group.values()] + [name.dtype for name in self.random]
        try:
            return jax.make_jaxpr(self.flat)(*(jax.ShapeDtypeStruct((), dtype) for dtype in dtypes))
        except _NEEDS_VALUE as error:
            raise RuleError(
                f"rule {self.name}, {_line_of(error)}: Python needs the value of a number that is known only when the "
                "network runs; use jnp.where, jax.lax.cond or jax.lax.while_loop instead of if, and, or, while, int(), "
                "and jnp instead of np and math"
            ) from error
        except UnknownNameError as error:
            if isinstance(error.obj, Record) and error.obj._what in _LETTERS:
                how = f"reads {_LETTERS[error.obj._what]}.{error.name}, but " if error.name else ""
                error.args = (f"rule {self.name}, {_line_of(error)}: {how}{error}",)
            raise
        except Exception as error:
            if not units.is_about_units(error):
                raise
            said = " ".join(str(error).split())
            raise RuleError(
                f"rule {self.name}, {_line_of(error)}: computes with units, but its values are plain numbers, in ms, "
                f"mV, pA, nS and pF; write numbers without units, such as -60.0 instead of -60 * u.mV ({said})"
            ) from error

    def flat(self, *scalars: Any) -> list[Any]:
        """Return states, events and value that the rule returns for scalars of all groups, and keys if it draws."""
        rest = iter(scalars)
        kinds = (("state", self.used), ("arriving", None), ("params", self.read))
        records: list[Any] = [
            Record(kind, {key: next(rest) for key in group}, read)
            for (kind, read), group in zip(kinds, self.groups, strict=True)
        ]
        if self.random:
            neuron, step, key0, key1 = rest
            records = [*records, Random(neuron, step, key0, key1, self.dtype)]
        before = dict(records[0]._values)
        result = self.rule(*records)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Record)):
            raise RuleError(f"rule {self.name}: returns {shown_result(result)}; return (state.replace(...), spike)")
        new, told = result
        if list(new) != list(self.groups[0]):
            raise RuleError(
                f"rule {self.name}: returns {shown_result(new)}; return state.replace(...) of its own state"
            )
        self.used.update(key for key, value in before.items() if new._values[key] is not value)
        values = [self._state(key, new._values[key], dtype) for key, dtype in self.groups[0].items()]
        if not isinstance(told, Mapping):
            told = {SPIKE: told}
        self.told = told_by(f"rule {self.name}", told, self.groups[0])
        events = [self._event(name, told[name]) for name in self.told.events]
        if not self.told.value:
            return [*values, *events]
        values, value = self._in_range(values, events[0], self._value(told[VALUE]))
        return [*values, *events, value]

    def _in_range(self, states: list[Any], spike: Any, value: Any) -> tuple[list[Any], Any]:
        """Return float states that are NaN, and the value 0, where a spike has a value that is not in the range."""
        if self.value_range is None:
            return states, value
        low, high = (jnp.asarray(end, self.dtype) for end in self.value_range)
        wrong = spike & ~((value >= low) & (value <= high))
        nan = [jnp.where(wrong, jnp.nan, x).astype(x.dtype) if x.dtype in FLOATS else x for x in states]
        return nan, jnp.where(wrong, 0, value).astype(self.dtype)

    def _event(self, name: str, value: Any) -> Any:
        array = self._scalar(name if name == SPIKE else f"event {name}", value)
        if array.dtype != bool:
            how = did_you_mean(name, [VALUE]) if name != SPIKE else ""
            what = name if name == SPIKE else f"event {name!r}"
            raise RuleError(f"rule {self.name}: {what} is {array.dtype}{how}; return a bool, such as v >= threshold")
        return array

    def _value(self, value: Any) -> Any:
        array = self._scalar("the value of its spike", value)
        if type(value) not in (int, float) and array.dtype not in FLOATS:
            raise RuleError(
                f"rule {self.name}: the value of its spike is {array.dtype}; return a float, such as "
                f"x.astype({self.dtype!r})"
            )
        return array.astype(self.dtype)

    def _state(self, key: str, value: Any, dtype: str) -> Any:
        array = self._scalar(f"state {key}", value)
        if (type(value) is int and dtype in (*FLOATS, "uint32")) or (dtype, array.dtype) == ("float64", np.float32):
            array = array.astype(dtype)
        array = array.astype(form_dtype(array.dtype))
        self.returned[key] = str(array.dtype)
        return array

    def _scalar(self, what: str, value: Any) -> Any:
        if units.is_quantity(value):
            raise RuleError(
                f"rule {self.name}: {what} has the unit {value.unit}; compute with plain numbers: what a rule gets is "
                "in ms, mV, pA, nS and pF, without units"
            )
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError) as error:
            raise RuleError(f"rule {self.name}: {what} is {shown_result(value)}; return a scalar") from error
        if array.shape != ():
            raise RuleError(
                f"rule {self.name}: {what} has shape {array.shape}; a rule is of one {self.of}: return a scalar"
            )
        return array

    def check_dtypes(self) -> None:
        """Raise unless the rule returned each state in its dtype."""
        for key, dtype in self.groups[0].items():
            found = self.returned[key]
            if found != dtype:
                other = f", or begin with a value of {found}" if found in DTYPES else ""
                raise RuleError(
                    f"rule {self.name}: state {key} is {dtype} but the rule returns {found}; "
                    f"return .astype({dtype!r}){other}"
                )


def told_by(where: str, told: Mapping[Any, Any], states: Collection[str]) -> Told:
    """Return what a mapping beside a state says: spike, value, and other events in the order of their names."""
    if SPIKE not in told:
        names = ", ".join(repr(name) for name in told) or "nothing"
        guesses = [did_you_mean(SPIKE, [name]) for name in told if isinstance(name, str)]
        hint = "; rename it" if any(guesses) else ""
        raise RuleError(f"{where}: returns {names} beside its state, but no {SPIKE!r}{hint}; return {{{SPIKE!r}: ...}}")
    others = [name for name in told if name not in (SPIKE, VALUE)]
    for name in others:
        if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
            raise RuleError(
                f"{where}: the name of an event is {name!r}; pass letters, digits and _, beginning with a letter"
            )
        if name.startswith("_") or name in _RESERVED:
            raise RuleError(
                f"{where}: {name!r} is a reserved name{did_you_mean(name, [SPIKE])}; name the event otherwise"
            )
        if name in states:
            raise RuleError(f"{where}: {name!r} is a state and an event; name the event otherwise")
    return Told((SPIKE, *sorted(others)), VALUE in told)


def _global_random() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state(legacy=False)))


def shown_result(value: Any) -> str:
    """Return what a rule returned, in words."""
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(shown_result(part) for part in value) or 'nothing'}"
    if isinstance(value, jax.core.Tracer):
        return "a number"
    return f"a record of {', '.join(value) or 'nothing'}" if isinstance(value, Record) else type(value).__name__


def _takes_random(name: str, rule: Rule) -> bool:
    """Say whether a rule has a fourth argument; one with a default is it if its name is `random`."""
    kinds = inspect.Parameter
    try:
        signature = inspect.signature(rule)
    except ValueError:  # of a function that is not written in Python
        raise RuleError(f"rule {name}: {rule!r} is built in; write a function rule(s, arriving, p)") from None
    given = [p for p in signature.parameters.values() if p.kind is not kinds.VAR_KEYWORD]
    needed = [p for p in given if p.default is kinds.empty and p.kind is not kinds.VAR_POSITIONAL]
    places = [p for p in given if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    variable = any(p.kind is kinds.VAR_POSITIONAL for p in given)
    if len(needed) > min(4, len(places)) or (len(places) < 3 and not variable):
        shown = ", ".join(str(p) for p in given) or "nothing"
        raise RuleError(f"rule {name}: takes {shown}; write rule(s, arriving, p) or rule(s, arriving, p, random)")
    return len(places) > 3 and (places[3] in needed or places[3].name == "random")


def _line_of(error: BaseException) -> str:
    """Return file:line of the innermost line that is neither JAX's nor ours."""
    frames = traceback.extract_tb(error.__traceback__)
    others = (*_NOT_OF_USERS, *units.folders())
    lines = [f"{frame.filename}:{frame.lineno}" for frame in frames if not frame.filename.startswith(others)]
    return lines[-1] if lines else "unknown line"


@dataclass(frozen=True)
class TracedRule:
    """A rule as a form: its inputs are states, what arrives, parameters and keys.

    Its outputs are the states in their order, then `events`, bools of which the first is the spike and the others are
    in the order of their names, and then, if `value`, the value of a spike, a float of `dtype`.

    `states`, `arriving`, `params` and `random` are names and dtypes in the order of the form's inputs. `random` is
    empty if the rule takes no random numbers; else neuron, step, and the two keys of seed and population. `function`
    is what was traced, for the reference. `dtype` is that of floats. `read` are the parameters that the rule read,
    and `used` the states that it read or replaced.
    """

    name: str
    states: tuple[Name, ...]
    arriving: tuple[Name, ...]
    params: tuple[Name, ...]
    random: tuple[Name, ...]
    form: Form
    function: Rule | None = field(default=None, compare=False, repr=False)
    dtype: str = "float32"
    read: frozenset[str] = field(default=frozenset(), compare=False)
    used: frozenset[str] = field(default=frozenset(), compare=False)
    told: Told = Told()
    value_range: Range = None

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the events that the rule returns, the spike first."""
        return self.told.events

    @property
    def value(self) -> bool:
        """Whether spikes have a value."""
        return self.told.value

    @cached_property
    def as_floats(self) -> dict[str, str]:
        """The parameters that are integers, and that the rule reads only as floats: their dtypes by name."""
        uses = list(uses_of(self.form))
        found = {}
        for name in self.params:
            dtypes = [target if op == "convert" else "" for one, op, target in uses if one == name]
            if dtypes and name.dtype in ("int32", "uint32") and all(dtype in FLOATS for dtype in dtypes):
                found[name.text.removeprefix("p_")] = min(dtypes)  # float32, if some are
        return found

    def with_events(self, events: Collection[str]) -> Form:
        """Return the form without all events but the spike and some others."""
        left = [k for k, event in enumerate(self.events) if event != SPIKE and event not in events]
        if not left:
            return self.form
        drop = {len(self.states) + k for k in left}
        outputs = tuple(one for k, one in enumerate(self.form.outputs) if k not in drop)
        return replace(self.form, lines=tuple(needed(self.form.lines, outputs, ())), outputs=outputs)

    @cached_property
    def step(self) -> Form:
        """The form without events other than the spike: its outputs are states, the spike, and its value if any."""
        return self.with_events(())

    def outcome(self, outputs: Sequence[Any]) -> Outcome:
        """Return the outputs of the form by what they are."""
        states, events = len(self.states), len(self.events)
        named = dict(zip(self.events, outputs[states : states + events], strict=True))
        return Outcome(list(outputs[:states]), named[SPIKE], outputs[states + events] if self.value else None, named)


class Outcome(NamedTuple):
    """The outputs of a rule: states in their order, the spike, its value or None, and all events by name."""

    states: list[Any]
    spike: Any
    value: Any
    events: dict[str, Any]


def trace(
    rule: Rule,
    state: Mapping[str, Any],
    arriving: Iterable[str],
    params: Mapping[str, Any],
    *,
    prints: bool = False,
    dtype: str = "float32",
    value_range: Range = None,
) -> TracedRule:
    """Trace `rule(state, arriving, params) -> (state, spike)`, of which each value is a scalar.

    A rule with a fourth argument gets its random numbers as well: `rule(state, arriving, params, random)`. Instead of a
    bool a rule may return a mapping with "spike", a bool; "value", a float that travels with the spike; and other
    events, bools under names of their own.

    Args:
        rule: The function of one neuron, in `jax.numpy`, of three or four arguments.
        state: A value of each state, which says its dtype; an integer of Python becomes a float if the rule returns
            that.
        arriving: Names of what arrives: floats.
        params: A value of each parameter, which says its dtype.
        prints: Whether the rule may use `jax.debug.print`, which the form leaves out: the reference prints.
        dtype: Of floats: float32, or float64. What a rule itself makes float32 stays that.
        value_range: Between which the values of spikes are. A spike with another one makes the float states of its
            neuron NaN, and has the value 0.

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
    states = {key: _dtype(name, "state", key, value, dtype) for key, value in state.items()}
    others = (dict.fromkeys(arriving, dtype), {k: _dtype(name, "parameter", k, v, dtype) for k, v in params.items()})
    loose = {key for key, value in state.items() if type(value) is int}
    with jax.enable_x64(dtype == "float64"):
        while True:
            checked = Checked(name, rule, states, *others, dtype=dtype, value_range=value_range)
            jaxpr = checked.jaxpr()
            grown = {key for key in loose if states[key] == "int32" and checked.returned[key] == dtype}
            if not grown:
                break
            states |= dict.fromkeys(grown, dtype)
        checked.check_dtypes()
        lowered = _lowered(Lowering(name, prints=prints), jaxpr, checked.random, states, *others)
        read, used = frozenset(checked.read), frozenset(checked.used)
        found = replace(lowered, function=rule, dtype=dtype, read=read, used=used, told=checked.told)
        return replace(found, value_range=value_range)


def flat_rule(rule: Rule, traced: TracedRule, *, whole: bool = False) -> Callable[..., list[Any]]:
    """Return a rule as a function of scalars in plain JAX, for the reference.

    Args:
        rule: What was traced.
        traced: What `trace` returned: its names say what the scalars are.
        whole: Whether to return other events and the value of a spike, too.

    Returns:
        A function of scalars in the order of the form's inputs that returns the states, each in the dtype of its
        scalar, and the spike; or all outputs of the form. `jit`, `vmap`, `grad` and `scan` work, and `jax.debug.print`
        prints.

    Examples:
        >>> import jax.numpy as jnp
        >>> rule = lambda s, arriving, p: (s.replace(v=s.v * p.decay), s.v > 1)
        >>> flat = flat_rule(rule, trace(rule, {"v": 0.0}, [], {"decay": 0.5}))
        >>> [float(x) for x in flat(jnp.float32(3.0), jnp.float32(0.5))]
        [1.5, 1.0]
    """
    groups = ({n.text[2:]: n.dtype for n in names} for names in (traced.states, traced.arriving, traced.params))
    checked = Checked(traced.name, rule, *groups, dtype=traced.dtype, value_range=traced.value_range)

    def flat(*scalars: Any) -> list[Any]:
        found = checked.flat(*scalars)
        states, others = found[: len(traced.states)], found[len(traced.states) :]
        given = (jnp.asarray(scalar).dtype for scalar in scalars)
        changed = [state.astype(dtype) for state, dtype in zip(states, given, strict=False)]
        return [*changed, *(others if whole else others[:1])]

    flat.__name__ = traced.name
    return flat


def _dtype(rule: str, kind: str, key: str, value: Any, floats: str) -> str:
    """Return the dtype of the form that a value has: floats have one, and integers 32 bits."""
    dtype = np.asarray(value).dtype
    found = floats if str(dtype) in FLOATS else form_dtype(dtype)
    if found not in DTYPES:
        raise RuleError(f"rule {rule}: {kind} {key} is {dtype}; pass one of float32, int32, uint32, bool")
    return found


def _lowered(
    lowering: Lowering,
    jaxpr: Any,
    random: tuple[Name, ...],
    states: Mapping[str, str],
    arriving: Mapping[str, str],
    params: Mapping[str, str],
) -> TracedRule:
    groups = [_names("s", states), _names("a", arriving), _names("p", params)]
    inputs = (*groups[0], *groups[1], *groups[2], *random)
    outputs = tuple(value.item() for value in lowering.jaxpr(jaxpr, [boxed(i) for i in inputs]))
    writer = lowering.writer
    form = Form("rule", inputs, tuple(writer.lines), outputs, tuple(writer.functions.values()))
    return TracedRule(lowering.rule, groups[0], groups[1], groups[2], random, form)


def _names(prefix: str, dtypes: Mapping[str, str]) -> tuple[Name, ...]:
    return tuple(Name(f"{prefix}_{key}", dtype) for key, dtype in dtypes.items())
