# SPDX-License-Identifier: Apache-2.0
"""Derivatives by the times of spikes, as in EventProp: what a spike does to others, and its reset, move in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...scalar.forced import with_spike
from ...scalar.margin import with_margin
from ...scalar.trace import flat_rule
from ..plan.plan import PopulationPlan
from ..surrogate import SpikeTimes
from .products import along

__all__ = ["ECHO", "MARGIN", "at_first", "timed"]

# States beside those of the rule. A spike that moves by a part of a step is less in its step and more in the next one:
# ECHO is that more, which has a derivative and no value. MARGIN is that of the step before.
ECHO, MARGIN = " echo", " margin"

Array = Any


def at_first(population: PopulationPlan, surrogate: Any) -> dict[str, Array]:
    """Return these states before the first step, if the surrogate needs them: no margin is known."""
    if not (isinstance(surrogate, SpikeTimes) and population.state):
        return {}
    dtype = population.rule.dtype
    return {ECHO: jnp.zeros(population.size, dtype), MARGIN: jnp.full(population.size, np.nan, dtype)}


def timed(
    population: PopulationPlan,
    states: Mapping[str, Array],
    arguments: Sequence[Array],
    new: Sequence[Array],
    spikes: Array,
    decided: tuple[Array, Array] | None,
) -> tuple[dict[str, Array], Array]:
    """Return states and spikes as floats, with derivatives by spike times; `arguments` are those of the rule."""
    dtype, names = population.rule.dtype, list(population.state)
    if decided is None:  # spikes are drawn at random
        kept = {ECHO: jnp.zeros(population.size, dtype), MARGIN: states[MARGIN]}
        return dict(zip(names, new, strict=True)) | kept, spikes.astype(dtype)
    margin, gate = decided
    constant = [jax.lax.stop_gradient(x) for x in arguments]
    jumps, ahead = _jumps(population, constant, [jax.lax.stop_gradient(x) for x in new])
    # How fast the margin rises: since the step before, or, after a spike, what it would rise by in the next step.
    before = jax.lax.stop_gradient(margin) - states[MARGIN]
    rate = jnp.where(before > 0, before, ahead - jax.lax.stop_gradient(margin))
    moves = spikes & gate & (rate > 0)
    after, floats, echo = _moved(list(new), spikes.astype(dtype), states[ECHO], margin, (moves, rate, jumps))
    last = jnp.where(spikes, jnp.nan, jax.lax.stop_gradient(margin)).astype(dtype)
    return dict(zip(names, after, strict=True)) | {ECHO: echo, MARGIN: last}, floats


def _jumps(population: PopulationPlan, arguments: list[Array], new: list[Array]) -> tuple[list[Array], Array]:
    """Return by how much more each state changes in a step after the spike than it would have before its reset.

    That is the difference of two steps in which nothing arrives: of one from the states after the spike, and of one
    from those that the neuron had without it, reset at its end. The second result is the margin there.
    """
    rule, size, states = population.rule, population.size, len(population.state)
    assert rule.function is not None
    flat = flat_rule(rule.function, rule)
    silent, reset = with_spike(flat, False), with_spike(flat, True)
    silence = [jnp.zeros((), rule.dtype)] * len(population.quanta)
    rest = [*silence, *arguments[states + len(silence) :]]

    def over(function: Any, values: Sequence[Array]) -> Any:
        axes = [0 if jnp.ndim(x) else None for x in values]
        return jax.vmap(function, axes, axis_size=size)(*values)

    unreset = over(silent, arguments)
    from_reset, would_reset = over(silent, [*new, *rest]), over(reset, [*unreset, *rest])
    jumps = [
        a - b if jnp.issubdtype(a.dtype, jnp.floating) else a for a, b in zip(from_reset, would_reset, strict=True)
    ]
    return jumps, over(_margin_of(flat), [*unreset, *rest])


def _margin_of(flat: Any) -> Any:
    return lambda *scalars: with_margin(flat)(*scalars)[1]


@jax.custom_jvp
def _moved(new: list[Array], floats: Array, echo: Array, margin: Array, spike: Any) -> tuple[list[Array], Array, Array]:
    """Return states, spikes, and the echo, which is zero: derivatives alone differ."""
    return [along(x, margin) for x in new], along(floats, margin), along(jnp.zeros_like(echo), margin)


@_moved.defjvp
def _moved_jvp(primals: Any, tangents: Any) -> Any:
    new, (moves, rate, jumps) = primals[0], primals[4]
    d_new, _, d_echo, d_margin, _ = tangents
    earlier = jnp.where(moves, d_margin / jnp.where(moves, rate, 1), 0)  # by how many steps the spike comes earlier
    states = [
        d if x.dtype == bool or not jnp.issubdtype(x.dtype, jnp.floating) else d + jump * earlier
        for x, d, jump in zip(new, d_new, jumps, strict=True)
    ]
    return _moved(*primals), (states, earlier + d_echo, -earlier)
