# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which tensor cores take them: as whole numbers of a quantum forward, in 16 bits backward."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .shape import Shape

__all__ = ["LARGEST", "backward_weights", "forward_weights", "power_of_two", "product", "quantum_of"]

Array = Any

_BITS = 14  # of the magnitude of a weight, in quanta
_LOW = 7  # of them in the lower plane
LARGEST = 2**_BITS - 1  # in quanta
_SMALLEST = 2.0**-100


def power_of_two(x: Array) -> Array:
    """Return the power of two above a number: NaN for NaN and infinity, 1 for 0."""
    exponent = jnp.frexp(jnp.maximum(x, _SMALLEST))[1]
    return jnp.where(jnp.isfinite(x), jnp.where(x > 0, jnp.ldexp(jnp.float32(1), exponent), 1), jnp.nan)


def quantum_of(weights: Array) -> Array:
    """Return the smallest power of two of which all weights are at most 16383: float32, NaN if any is not finite."""
    largest = jnp.max(jnp.abs(weights))
    quantum = power_of_two(largest) * 2.0**-_BITS
    return jnp.where(jnp.round(largest / quantum) <= LARGEST, quantum, 2 * quantum)


def _padded(weights: Array, shape: Shape) -> Array:
    rest = shape.wide - weights.shape[0]
    return jnp.pad(weights, ((0, rest), (0, rest)))


def forward_weights(weights: Array, quantum: Array, shape: Shape) -> Array:
    """Return weights (source, target) as two planes: int8 [block, warp, step, tile, plane, lane, byte].

    Rows are targets. The bits of a word of spikes, of which lane q takes every fourth, say which byte is which source.
    """
    across = shape.own // 32
    whole = _padded(jnp.round(weights / quantum).astype(jnp.int32), shape)
    sources, targets = (shape.parts, -1, 4, 2, 4), (shape.blocks, across, 2, 2, 8)
    ordered = whole.reshape(*sources, *targets)  # part, step, byte, high, lane; block, across, tile, row, lane
    ordered = ordered.transpose(5, 0, 6, 1, 7, 9, 4, 3, 8, 2)
    planes = [ordered >> _LOW, ordered & (2**_LOW - 1)]
    return jnp.stack(planes, 5).astype(jnp.int8)


def backward_weights(weights: Array, quantum: Array, scale: Array, shape: Shape) -> Array:
    """Return the weights of the forward step, times a scale, as float16 [block, warp, step, tile, lane, element].

    Rows are sources.
    """
    across = shape.own // 32
    exact = _padded(jnp.round(weights / quantum) * quantum * scale, shape)
    sources, targets = (shape.blocks, across, 2, 2, 8), (shape.parts, -1, 2, 4, 2)
    ordered = exact.reshape(*sources, *targets)  # block, across, tile, row, lane; part, step, high, lane, element
    return ordered.transpose(0, 5, 1, 6, 2, 4, 8, 7, 3, 9).astype(np.float16)


def product(before: Array, after: Array) -> Array:
    """Return the sum over samples and steps of products: (B, T, M) and (B, T, N) to float32 (M, N)."""
    return jax.lax.dot_general(before, after, (((0, 1), (0, 1)), ((), ())), preferred_element_type=jnp.float32)
