# SPDX-License-Identifier: Apache-2.0
"""By how much a neuron spikes: the difference of the two floats whose comparison decides, for surrogate gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import bind_equation
from ..errors import RuleError
from .control import CALLS, inner_jaxpr

__all__ = ["as_events", "with_margin"]

Scalar = Any


@dataclass(frozen=True)
class _Bool:
    """A bool, and what decides it: where `gate` holds, it is true for a margin above zero and false below."""

    value: Scalar
    margin: Scalar = None  # None: no comparison of floats decides it
    gate: Scalar = None


def with_margin(flat: Callable[..., Sequence[Scalar]]) -> Callable[..., tuple[list[Scalar], Scalar, Scalar]]:
    """Return a function that gives the margin of the spike beside all results of a rule.

    The margin of `v >= th` is `v - th`; that of `v <= th` is `th - v`. Of two comparisons that must both hold it is
    the smaller one, and of two alternatives the larger one. A bool beside a comparison is a part of the gate.

    Args:
        flat: A function of scalars that returns states and, last, the spike: see `flat_rule`.

    Returns:
        A function of the same scalars that returns what `flat` returns; the margin: float32, or float64 if that is
        compared, differentiable by JAX; and the gate: bool, which holds where the spike is true for a margin above zero
        and false below, and does not hold where the spike does not depend on it. `vmap`, `grad`, `jit` and `scan` work.

    Raises:
        RuleError: When it is called or traced: no comparison of floats decides the spike.

    Examples:
        >>> import jax.numpy as jnp
        >>> both = with_margin(lambda v, pause: [v, (v >= 1.0) & (pause == 0)])
        >>> (_, spike), margin, gate = both(jnp.float32(3.0), jnp.int32(2))
        >>> bool(spike), float(margin), bool(gate)
        (False, 2.0, False)
    """
    name = getattr(flat, "__name__", "rule")

    def flat_with_margin(*scalars: Scalar) -> tuple[list[Scalar], Scalar, Scalar]:
        results = _evaluated(jax.make_jaxpr(flat)(*scalars), [_Bool(scalar) for scalar in scalars])
        spike = results[-1]
        if spike.margin is None:
            raise RuleError(
                f"rule {name}: no comparison of floats decides the spike, so it has no surrogate gradient; "
                "return one that is made of comparisons such as v >= threshold by &, |, ~ and jnp.where"
            )
        wide = jnp.result_type(spike.margin) == np.float64
        margin = spike.margin if wide else lax.convert_element_type(spike.margin, np.float32)
        return [result.value for result in results], margin, spike.gate

    return flat_with_margin


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def as_events(surrogate: Callable[[Scalar], Scalar], spikes: Scalar, margin: Scalar, gate: Scalar) -> Scalar:
    """Return spikes as floats; the derivative by the margin is the surrogate's where the gate is open."""
    return spikes.astype(margin.dtype)


@as_events.defjvp
def _as_events_jvp(surrogate: Callable[[Scalar], Scalar], primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    spikes, margin, gate = primals
    slope = jnp.where(gate, lax.stop_gradient(surrogate(margin)), 0)
    return as_events(surrogate, spikes, margin, gate), slope * tangents[1]


def _evaluated(closed: Any, arguments: Sequence[_Bool]) -> list[_Bool]:
    """Evaluate a closed jaxpr as JAX does, with the margins of bools."""
    known = dict(zip(closed.jaxpr.constvars, map(_Bool, closed.consts), strict=True))
    known.update(zip(closed.jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> _Bool:
        return _Bool(atom.val) if hasattr(atom, "val") else known[atom]

    for eqn in closed.jaxpr.eqns:
        known.update(zip(eqn.outvars, _equation(eqn, [read(atom) for atom in eqn.invars]), strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def _equation(eqn: Any, x: list[_Bool]) -> list[_Bool]:
    name, bools = eqn.primitive.name, [var.aval.dtype == bool for var in eqn.outvars if hasattr(var.aval, "dtype")]
    of_ours = str(eqn.params.get("name")).startswith("be_")  # whether a random number is below a probability
    if name in CALLS and any(bools) and not of_ours:
        return _evaluated(inner_jaxpr(eqn), x)
    values = bind_equation(eqn, [operand.value for operand in x])
    if name in _COMPARISONS and jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.floating):
        a, b = (operand.value for operand in x)
        margin = a - b if name in ("ge", "gt") else b - a
        return [_Bool(values[0], margin, jnp.ones_like(values[0]))]
    decided = any(operand.margin is not None for operand in x)
    if decided and bools == [True] and name in _LOGIC:
        return [_Bool(values[0], *_LOGIC[name](*x))]
    if decided and name in _MOVES and eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype:
        return [_Bool(values[0], *(bind_equation(eqn, [part])[0] for part in (x[0].margin, x[0].gate)))]
    return [_Bool(value) for value in values]


_COMPARISONS = ("ge", "gt", "le", "lt")
_MOVES = ("broadcast_in_dim", "copy", "copy_p", "reshape", "squeeze")

Decided = tuple[Scalar, Scalar]


def _not(a: _Bool) -> Decided:
    return -a.margin, a.gate


def _and(a: _Bool, b: _Bool) -> Decided:
    """Return the smaller margin where both decide; where one does, the other must hold."""
    if a.margin is None:
        a, b = b, a
    if b.margin is None:
        return a.margin, a.gate & b.value
    smaller = jnp.where(a.gate & b.gate, jnp.minimum(a.margin, b.margin), jnp.where(a.gate, a.margin, b.margin))
    return smaller, jnp.where(a.gate, b.gate | b.value, b.gate & a.value)


def _inverted(a: _Bool) -> _Bool:
    return _Bool(~a.value) if a.margin is None else _Bool(~a.value, *_not(a))


def _or(a: _Bool, b: _Bool) -> Decided:
    margin, gate = _and(_inverted(a), _inverted(b))
    return -margin, gate


def _differs(a: _Bool, b: _Bool) -> Decided:
    return _or(_Bool(a.value & ~b.value, *_and(a, _inverted(b))), _Bool(~a.value & b.value, *_and(_inverted(a), b)))


def _equals(a: _Bool, b: _Bool) -> Decided:
    margin, gate = _differs(a, b)
    return -margin, gate


def _select(which: _Bool, otherwise: _Bool, then: _Bool) -> Decided:
    """Return (which and then) or (not which and otherwise); without a margin of `which`, that of the side taken."""
    if which.margin is not None and then.margin is None and otherwise.margin is None:
        return jnp.where(then.value, which.margin, -which.margin), which.gate & (then.value ^ otherwise.value)
    if which.margin is not None:
        no = _inverted(which)
        taken = _Bool(which.value & then.value, *_and(which, then))
        return _or(taken, _Bool(no.value & otherwise.value, *_and(no, otherwise)))
    zero, closed = (np.float32(0), jnp.zeros_like(which.value))
    sides = [(side.margin, side.gate) if side.margin is not None else (zero, closed) for side in (then, otherwise)]
    return jnp.where(which.value, sides[0][0], sides[1][0]), jnp.where(which.value, sides[0][1], sides[1][1])


# By primitive of JAX, of bools: margin and gate of the result.
_LOGIC: dict[str, Callable[..., Decided]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "xor": _differs,
    "ne": _differs,
    "eq": _equals,
    "select_n": _select,
}
