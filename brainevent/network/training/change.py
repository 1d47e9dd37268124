# SPDX-License-Identifier: Apache-2.0
"""`Change`: how numbers of synapses change in some steps, linearly and by the spikes that arrive; and this in JAX."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..reference.products import Product

__all__ = ["Change", "changed", "sent"]

Array = Any
_HIGHEST = jax.lax.Precision.HIGHEST


@dataclass(frozen=True, eq=False)
class Change:
    """How values of the synapses into a receptor change in some steps.

    Value q of a synapse from i to j, with the delay of number d, becomes the sum of `maps[q, r, j]` times value r
    before, of which there may be more or fewer, of `factors[q, l, j] * terms[l, d, i]`, and of `rows[q, t, j]` over the
    steps t in which a spike arrives.

    Values are in three groups: the first one, the next `outer`, and the rest. Those of a group depend on values of
    their own group and of later ones; all other maps are zeros.

    Attributes:
        maps: (values, values before, neurons).
        factors: (values, terms, neurons).
        terms: (terms, delays, sources).
        rows: (values, steps, neurons).
        outer: How many values the second group has.
    """

    maps: Array
    factors: Array
    terms: Array
    rows: Array
    outer: int

    def first_for(self, value: int) -> int:
        """Return the first value on which a value may depend."""
        return 0 if value == 0 else 1 if value <= self.outer else 1 + self.outer

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return int(self.rows.shape[1])


def sent(spikes: Array, delay: int, steps: int) -> Array:
    """Return the spikes that arrive in the last steps, (steps, sources), of those in these and earlier ones."""
    first = len(spikes) - steps - delay
    return spikes[first : first + steps]


def changed(one: Product, values: Array, change: Change, spikes: Array) -> Array:
    """Return the values of synapses after some steps, in JAX; see `Engine.along_synapses`."""
    if one.dense:
        after = _linear(change, change.maps, values, change.terms[..., None], change.factors)
        came = [sent(spikes, delay, change.steps).astype(values.dtype) for delay in one.delays]
        added = [jnp.einsum("ti,qtj->qij", x, change.rows, precision=_HIGHEST) for x in came]
        return after + jnp.stack(added, 1)
    targets = one.synapses.targets.astype(np.int32)
    sources = np.repeat(np.arange(one.sources, dtype=np.int32), np.diff(one.starts))
    firsts = (len(spikes) - change.steps - np.array(one.delays, np.int32))[one.which]
    terms = change.terms[:, one.which, sources]
    after = _linear(change, change.maps[:, :, targets], values, terms, change.factors[:, :, targets])

    def step(after: Array, turn: Array) -> tuple[Array, None]:
        return after + jnp.where(spikes[turn + firsts, sources], change.rows[:, turn, targets], 0), None

    return jax.lax.scan(step, after, jnp.arange(change.steps, dtype=np.int32))[0]


def _linear(change: Change, maps: Array, values: Array, terms: Array, factors: Array) -> Array:
    """Return the sums of values and of terms, each times its factor, in a form that XLA fuses."""
    after = []
    for q in range(len(maps)):
        parts = [maps[q, r] * values[r] for r in range(change.first_for(q), len(values))]
        parts += [factors[q, k] * terms[k] for k in range(len(terms))]
        after.append(functools.reduce(jnp.add, parts, jnp.zeros(jnp.shape(values)[1:], values.dtype)))
    return jnp.stack(after)
