# SPDX-License-Identifier: Apache-2.0
"""One step of all neurons of a population: the rule of one neuron, what it sends, and the derivative of its spike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import RuleError
from ...scalar.margin import as_events, with_margin
from ...scalar.trace import TracedRule, flat_rule
from ..plan.plan import PopulationPlan
from ..surrogate import SpikeTimes
from .spike_times import ECHO, timed

__all__ = ["Updated", "updated"]

Array = Any
SurrogateLike = Callable[[Array], Array]


class Updated(NamedTuple):
    """A population after a step: states by name; spikes, floats of 1 or 0; and spikes times their values, if any."""

    states: dict[str, Array]
    spikes: Array
    sent: Array


def updated(
    population: PopulationPlan,
    states: Mapping[str, Array],
    arriving: Mapping[str, Array],
    params: Mapping[str, Array],
    step: Array,
    key: Array,
    surrogate: SurrogateLike | None,
) -> Updated:
    """Return the states after a step, and the spikes."""
    arguments = [
        *(states[name] for name in population.state),
        *(arriving[name] for name in population.quanta),
        *(params[name] for name in population.params),
    ]
    if population.rule.random:
        arguments += [jnp.arange(population.size, dtype=np.uint32), step, key[0], key[1]]
    new, spikes, decided = _spiked(population, arguments, surrogate is not None)
    if isinstance(surrogate, SpikeTimes) and ECHO in states:
        after, floats = timed(population, states, arguments, new, spikes, decided)
        return Updated(after, floats, floats)
    dtype = population.rule.dtype
    floats = spikes.astype(dtype)
    if decided is not None and surrogate is not None and not isinstance(surrogate, SpikeTimes):
        floats = as_events(surrogate, spikes, *decided)
    after = dict(zip(population.state, new, strict=False))
    return Updated(after, floats, floats * _in_range(population.rule, new[-1]) if population.rule.value else floats)


def _in_range(rule: TracedRule, values: Array) -> Array:
    """Return values in the range of a rule; others, which no spike has, are 0: derivatives of spikes read them."""
    assert rule.value_range is not None
    low, high = rule.value_range
    return jnp.where((values >= low) & (values <= high), values, 0)


def _spiked(
    population: PopulationPlan, arguments: list[Array], with_margins: bool
) -> tuple[list[Array], Array, tuple[Array, Array] | None]:
    """Run the rule over all neurons: new states, spikes, and margin and gate if they are asked for and exist.

    If spikes have values, these follow the states.
    """
    over_neurons = [0 if jnp.ndim(argument) else None for argument in arguments]
    rule = population.rule
    assert rule.function is not None
    flat = (
        _with_values(flat_rule(rule.function, rule, whole=True), rule) if rule.value else flat_rule(rule.function, rule)
    )
    if with_margins:
        try:
            (*new, spikes), *decided = jax.vmap(with_margin(flat), over_neurons, axis_size=population.size)(*arguments)
            return new, spikes, (decided[0].astype(rule.dtype), decided[1])
        except RuleError:  # no comparison decides: spikes are drawn at random, and have no derivative
            pass
    *new, spikes = jax.vmap(flat, over_neurons, axis_size=population.size)(*arguments)
    return new, spikes, None


def _with_values(whole: Callable[..., list[Array]], rule: TracedRule) -> Callable[..., list[Array]]:
    """Return a rule of scalars that returns states, the value of the spike, and the spike."""

    def flat(*scalars: Array) -> list[Array]:
        found = rule.outcome(whole(*scalars))
        return [*found.states, found.value, found.spike]

    flat.__name__ = rule.name
    return flat
