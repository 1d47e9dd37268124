# SPDX-License-Identifier: Apache-2.0
"""The ring: the pending input of each neuron, a row for each of the next steps, rotated by index."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

__all__ = ["as_ring", "emptied", "in_order"]

Array = Any


def emptied(ring: Array, turn: Array) -> tuple[Array, Array]:
    """Return what arrives in a turn, and the ring with that row emptied: it is the row of the largest delay now."""
    row = turn % ring.shape[0]
    return ring[row], ring.at[row].set(0)


def as_ring(sums: Array, dtype: str) -> Array:
    """Return sums (rows, neurons) of a state, in order of arrival, as the ring of turn 0, in a dtype."""
    return jnp.asarray(sums).astype(dtype)


def in_order(ring: Array, turn: Any, dtype: Any) -> Array:
    """Return the sums of a ring before a turn in order of arrival."""
    return jnp.roll(ring, -(turn % ring.shape[0]), axis=0).astype(dtype)
