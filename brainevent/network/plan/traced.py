# SPDX-License-Identifier: Apache-2.0
"""Sums of a state that JAX traces: whether 32 bits hold them, and what stands in their place where they do not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .pending import into
from .plan import Plan
from .quantum import LARGEST_SUM

__all__ = ["NO_SUM", "beyond", "fit", "in_place_of", "room_by_row"]

Array = Any
NO_SUM = -(2**31)  # calls that get it raise, or return NaN


def room_by_row(plan: Plan, place: tuple[str, str]) -> Array:
    """Return how large |sums| of a state may be, int32 (rows, neurons); weights of longer delays do not count."""
    rows = np.zeros((plan.rows(*place), plan.population(place[0]).size))
    for s in into(plan, *place):
        delays, weights = (np.broadcast_to(x, s.targets.shape) for x in (s.delays, s.weights))
        for delay in np.unique(s.delays):
            chosen = delays == delay
            rows[delay:] += np.bincount(s.targets[chosen], np.abs(weights[chosen].astype(float)), rows.shape[1])
    return (LARGEST_SUM - rows).astype(np.int32)


def fit(sums: Array, room: Array) -> Array:
    """Say whether there is room for all sums of a state, which may be traced."""
    if len(room) == 1:  # XLA reduces rows much faster than all elements
        sums = jnp.stack([sums.min(0), sums.max(0)])
    return ~beyond(sums, room).any()


def beyond(sums: Array, room: Array) -> Array:
    """Return which sums of a state are larger than there is room for."""
    return (sums > room) | (sums < -room)


def in_place_of(fine: Array, tree: Any, integer: int | None = None) -> Any:
    """Return arrays; if not `fine`, NaN in place of floats, and of integers `integer` unless it is None."""

    def chosen(x: Array) -> Array:
        if jnp.issubdtype(x.dtype, np.floating):
            return jnp.where(fine, x, np.nan)
        return x if integer is None else jnp.where(fine, x, np.asarray(integer, x.dtype))

    return jax.tree.map(chosen, tree)
