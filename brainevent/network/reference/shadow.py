# SPDX-License-Identifier: Apache-2.0
"""Shadows: rings of zeros beside rings of integers, with the derivatives that the same sums in floats have.

Their values are constants, so a run that is not differentiated computes nothing for them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from .delivery import Delivery
from .ring import emptied

__all__ = ["shadow_arrives", "shadow_sent"]

Array = Any


@jax.custom_jvp
def shadow_arrives(shadow: Array, turn: Array) -> tuple[Array, Array]:
    """Return what arrives in a turn, which is 0, and the shadow without it."""
    return jnp.zeros(shadow.shape[1:], shadow.dtype), shadow


@shadow_arrives.defjvp
def _arrives_jvp(primals: Any, tangents: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    return shadow_arrives(*primals), emptied(tangents[0], primals[1])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def shadow_sent(delivery: Delivery, shadow: Array, spikes: Array, weights: Array, turn: Array) -> Array:
    """Return the shadow after the spikes (sources,) of a turn, with weights in the dtype of the shadow."""
    return shadow


@shadow_sent.defjvp
def _sent_jvp(delivery: Delivery, primals: Any, tangents: Any) -> tuple[Array, Array]:
    shadow, spikes, weights, turn = primals

    def added(shadow: Array, spikes: Array) -> Array:
        return delivery.added(shadow, spikes, weights, turn)

    return shadow, jax.jvp(added, (shadow, spikes), tangents[:2])[1]
