# SPDX-License-Identifier: Apache-2.0
"""A rule as if its neuron had spiked, or had not: how its states go on in either case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import bind_equation

__all__ = ["with_spike"]

Scalar = Any


def with_spike(flat: Callable[..., Sequence[Scalar]], spike: bool) -> Callable[..., list[Scalar]]:
    """Return a function that gives the states of a rule with its spike replaced by a given one, wherever it is used.

    Args:
        flat: A function of scalars that returns states and, last, the spike: see `flat_rule`.
        spike: Whether the neuron spikes.

    Returns:
        A function of the same scalars that returns the states.

    Examples:
        >>> import jax.numpy as jnp
        >>> def flat(v):
        ...     spike = v > 1.0
        ...     return [jnp.where(spike, 0.0, v), spike]
        >>> [float(with_spike(flat, spike)(jnp.float32(0.5))[0]) for spike in (False, True)]
        [0.5, 0.0]
    """

    def states(*scalars: Scalar) -> list[Scalar]:
        closed = jax.make_jaxpr(flat)(*scalars)
        jaxpr = closed.jaxpr
        same = _numbers(jaxpr)  # a rule may write its comparison twice
        decided = same.get(jaxpr.outvars[-1]) if not hasattr(jaxpr.outvars[-1], "val") else None
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *scalars], strict=True))
        for eqn in jaxpr.eqns:
            values = bind_equation(eqn, [atom.val if hasattr(atom, "val") else known[atom] for atom in eqn.invars])
            for var, value in zip(eqn.outvars, values, strict=True):
                known[var] = value if same[var] != decided else jnp.full_like(value, spike)
        return [atom.val if hasattr(atom, "val") else known[atom] for atom in jaxpr.outvars[:-1]]

    return states


def _numbers(jaxpr: Any) -> dict[Any, int]:
    """Return a number for each variable: the same for those that the same operations make of the same operands."""
    numbers: dict[Any, int] = {}
    of_content: dict[Any, int] = {}
    for var in [*jaxpr.constvars, *jaxpr.invars]:
        numbers[var] = len(numbers)
    for eqn in jaxpr.eqns:
        operands = [repr(atom.val) if hasattr(atom, "val") else numbers[atom] for atom in eqn.invars]
        for k, var in enumerate(eqn.outvars):
            content = eqn.primitive.name, str(eqn.params), str(var.aval), *operands, k
            numbers[var] = of_content.setdefault(content, len(numbers))
    return numbers
