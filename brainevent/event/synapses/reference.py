# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons in `jax.numpy`: by this, kernels are judged."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..operands import is_within

__all__ = ["times"]


def times(w: Any, y: Any, places: Any) -> jax.Array:
    """Return each value of w times what of the last axis of y is at its place; zero where there is no such place."""
    there = is_within(places, y.shape[-1])
    if not y.shape[-1]:
        y = jnp.zeros((*y.shape[:-1], 1), y.dtype)
    return jnp.where(there, w * y[..., jnp.where(there, places, 0)], jnp.zeros((), w.dtype))
