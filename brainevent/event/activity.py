# SPDX-License-Identifier: Apache-2.0
"""The rule for what an event is: True, or a number that is not zero; an event counts as one, whatever its value."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["WORD", "as_events", "in_words", "is_active", "weighted"]

WORD = 32  # bits

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
    """Return an array for which every kernel language can compute `x != 0`: x itself, unless it has 16 bits."""
    x = jnp.asarray(x)
    return x if x.dtype.name in _NATIVE else is_active(x)


def in_words(active: jax.Array, axis: int) -> jax.Array:
    """Return booleans as bits along an axis: ceil(n / 32) words, uint32, with the first boolean in the lowest bit."""
    size = active.shape[axis]
    words = -(-size // WORD)
    padding = [(0, words * WORD - size if i == axis else 0) for i in range(active.ndim)]
    shape = (*active.shape[:axis], words, WORD, *active.shape[axis + 1 :])
    bits = jnp.pad(active, padding).reshape(shape).astype(jnp.uint32)
    places = jnp.arange(WORD, dtype=jnp.uint32).reshape(WORD, *[1] * (active.ndim - axis - 1))
    return (bits << places).sum(axis + 1, dtype=jnp.uint32)


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
    # A product, and not a choice: the transpose of a choice by x has no derivative with respect to x.
    return weighted(weights, x), by_weights * weighted(jnp.ones(x.shape, weights.dtype), x) + straight
