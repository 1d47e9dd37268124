# SPDX-License-Identifier: Apache-2.0
"""One step of a population: the user's own rule over its neurons, and spikes that have a derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..plan import PopulationPlan
from ..rule.margin import with_margin

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
    """Return the states after a step, and the spikes as float32: 1 or 0."""
    arguments = [
        *(states[name] for name in population.state),
        *(arriving[name] for name in population.quanta),
        *(params[name] for name in population.params),
    ]
    if population.rule.random:
        arguments += [jnp.arange(population.size, dtype=np.uint32), step, key[0], key[1]]
    over_neurons = [0 if jnp.ndim(argument) else None for argument in arguments]
    flat = population.rule.flat
    if surrogate is None:
        *new, spikes = jax.vmap(flat, over_neurons, axis_size=population.size)(*arguments)
        floats = spikes.astype(np.float32)
    else:
        rule = jax.vmap(with_margin(flat), over_neurons, axis_size=population.size)
        (*new, spikes), margin, gate = rule(*arguments)
        floats = _events(surrogate, spikes, margin, gate)
    return dict(zip(population.state, new, strict=True)), floats


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _events(surrogate: SurrogateLike, spikes: Array, margin: Array, gate: Array) -> Array:
    """Return spikes as float32; the derivative by the margin is the surrogate's where the gate is open."""
    return spikes.astype(np.float32)


@_events.defjvp
def _events_jvp(surrogate: SurrogateLike, primals: Any, tangents: Any) -> tuple[Array, Array]:
    spikes, margin, gate = primals
    slope = jax.lax.stop_gradient(surrogate(margin)) * gate
    return _events(surrogate, spikes, margin, gate), slope * tangents[1]
