# SPDX-License-Identifier: Apache-2.0
"""The one rule for what is an event: True, or a number that is not zero; it counts as one, whatever its value."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["as_events", "is_active", "weighted"]

_NATIVE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def is_active(x: Any) -> jax.Array:
    """Return which elements are events.

    >>> import jax.numpy as jnp
    >>> is_active(jnp.array([-1.0, 0.0, 0.5, 2.0]))
    Array([ True, False,  True,  True], dtype=bool)
    """
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"events are {x.dtype}; pass booleans, integers or real numbers")
    return x if x.dtype == bool else x != 0


def as_events(x: Any) -> jax.Array:
    """Return an array that every kernel language can ask whether `x != 0`: itself, unless its numbers have 16 bits."""
    x = jnp.asarray(x)
    return x if x.dtype.name in _NATIVE else is_active(x)


@jax.custom_jvp
def weighted(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Return the weights where `x` is an event, and zero elsewhere, even where a weight is NaN.

    Its derivatives are those of `weights * x`, of every order: straight through by `x`.
    """
    return jnp.where(is_active(x), weights, jnp.zeros_like(weights))


@weighted.defjvp
def _weighted_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    weights, x = primals
    by_weights, by_x = tangents
    straight = 0 if by_x.dtype == jax.dtypes.float0 else weights * by_x.astype(weights.dtype)
    # Multiplied, and not chosen: a choice by x, once it is transposed, would have no derivative by x.
    return weighted(weights, x), by_weights * weighted(jnp.ones(x.shape, weights.dtype), x) + straight
