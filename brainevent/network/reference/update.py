# SPDX-License-Identifier: Apache-2.0
"""One step of all neurons of a population: the rule of one neuron, and the derivative of its spike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import RuleError
from ...scalar.margin import as_events, with_margin
from ...scalar.trace import flat_rule
from ..plan.plan import PopulationPlan
from ..surrogate import SpikeTimes
from .spike_times import ECHO, timed

__all__ = ["updated"]

Array = Any
SurrogateLike = Callable[[Array], Array]


def updated(
    population: PopulationPlan,
    states: Mapping[str, Array],
    arriving: Mapping[str, Array],
    params: Mapping[str, Array],
    step: Array,
    key: Array,
    surrogate: SurrogateLike | None,
) -> tuple[dict[str, Array], Array]:
    """Return the states after a step, and the spikes as floats: 1 or 0."""
    arguments = [
        *(states[name] for name in population.state),
        *(arriving[name] for name in population.quanta),
        *(params[name] for name in population.params),
    ]
    if population.rule.random:
        arguments += [jnp.arange(population.size, dtype=np.uint32), step, key[0], key[1]]
    new, spikes, decided = _spiked(population, arguments, surrogate is not None)
    if isinstance(surrogate, SpikeTimes) and ECHO in states:
        return timed(population, states, arguments, new, spikes, decided)
    dtype = population.rule.dtype
    floats = spikes.astype(dtype)
    if decided is not None and surrogate is not None and not isinstance(surrogate, SpikeTimes):
        floats = as_events(surrogate, spikes, *decided)
    return dict(zip(population.state, new, strict=True)), floats


def _spiked(
    population: PopulationPlan, arguments: list[Array], with_margins: bool
) -> tuple[list[Array], Array, tuple[Array, Array] | None]:
    """Run the rule over all neurons: new states, spikes, and margin and gate if they are asked for and exist."""
    over_neurons = [0 if jnp.ndim(argument) else None for argument in arguments]
    rule = population.rule
    assert rule.function is not None
    flat = flat_rule(rule.function, rule)
    if with_margins:
        try:
            (*new, spikes), *decided = jax.vmap(with_margin(flat), over_neurons, axis_size=population.size)(*arguments)
            return new, spikes, (decided[0].astype(rule.dtype), decided[1])
        except RuleError:  # no comparison decides: spikes are drawn at random, and have no derivative
            pass
    *new, spikes = jax.vmap(flat, over_neurons, axis_size=population.size)(*arguments)
    return new, spikes, None
