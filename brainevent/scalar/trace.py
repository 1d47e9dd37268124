# SPDX-License-Identifier: Apache-2.0
"""Trace the rule of one neuron with JAX, and check what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import RuleError
from .checked import Checked, Rule
from .form import DTYPES, FLOATS, Form, Name, form_dtype
from .lower import Lowering
from .writer import boxed

__all__ = ["TracedRule", "flat_rule", "trace"]


@dataclass(frozen=True)
class TracedRule:
    """A rule as a form: its inputs are states, what arrives, parameters and keys; its outputs states and spike.

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


def trace(
    rule: Rule,
    state: Mapping[str, Any],
    arriving: Iterable[str],
    params: Mapping[str, Any],
    *,
    prints: bool = False,
    dtype: str = "float32",
) -> TracedRule:
    """Trace `rule(state, arriving, params) -> (state, spike)`, of which each value is a scalar.

    A rule with a fourth argument gets its random numbers as well: `rule(state, arriving, params, random)`.

    Args:
        rule: The function of one neuron, in `jax.numpy`, of three or four arguments.
        state: A value of each state, which says its dtype; an integer of Python becomes a float if the rule returns
            that.
        arriving: Names of what arrives: floats.
        params: A value of each parameter, which says its dtype.
        prints: Whether the rule may use `jax.debug.print`, which the form leaves out: the reference prints.
        dtype: Of floats: float32, or float64. What a rule itself makes float32 stays that.

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
            checked = Checked(name, rule, states, *others, dtype=dtype)
            jaxpr = checked.jaxpr()
            grown = {key for key in loose if states[key] == "int32" and checked.returned[key] == dtype}
            if not grown:
                break
            states |= dict.fromkeys(grown, dtype)
        checked.check_dtypes()
        lowered = _lowered(Lowering(name, prints=prints), jaxpr, checked.random, states, *others)
        read, used = frozenset(checked.read), frozenset(checked.used)
        return replace(lowered, function=rule, dtype=dtype, read=read, used=used)


def flat_rule(rule: Rule, traced: TracedRule) -> Callable[..., list[Any]]:
    """Return a rule as a function of scalars in plain JAX, for the reference.

    Args:
        rule: What was traced.
        traced: What `trace` returned: its names say what the scalars are.

    Returns:
        A function of scalars in the order of the form's inputs that returns the states, each in the dtype of its
        scalar, and the spike. `jit`, `vmap`, `grad` and `scan` work, and `jax.debug.print` prints.

    Examples:
        >>> import jax.numpy as jnp
        >>> rule = lambda s, arriving, p: (s.replace(v=s.v * p.decay), s.v > 1)
        >>> flat = flat_rule(rule, trace(rule, {"v": 0.0}, [], {"decay": 0.5}))
        >>> [float(x) for x in flat(jnp.float32(3.0), jnp.float32(0.5))]
        [1.5, 1.0]
    """
    groups = ({n.text[2:]: n.dtype for n in names} for names in (traced.states, traced.arriving, traced.params))
    checked = Checked(traced.name, rule, *groups, dtype=traced.dtype)

    def flat(*scalars: Any) -> list[Any]:
        *states, spike = checked.flat(*scalars)
        given = (jnp.asarray(scalar).dtype for scalar in scalars)
        return [*(state.astype(dtype) for state, dtype in zip(states, given, strict=False)), spike]

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
