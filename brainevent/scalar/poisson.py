# SPDX-License-Identifier: Apache-2.0
"""Numbers of events from uniform numbers, by a sum of probabilities that every engine adds in the same order.

`poisson_of(u, mean)` counts the c_k with u >= c_k, where p_0 = exp(-mean), c_0 = p_0, p_k = p_(k-1) (mean / k) and
c_k = c_(k-1) + p_k in float32, until c_k no longer grows. Means above 64 are split into equal parts of at most 64:
`poisson_of` is one of them, and `poisson_more` the sum of the others.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .elementary import F, where
from .threefry import be_bits, part_key, unit

__all__ = ["LARGEST_MEAN", "be_poisson_more", "be_poisson_of", "next_probability", "poisson_start"]

LARGEST_MEAN = F(2**20)  # larger ones count as this one, so that a rate that diverges ends
_LARGEST_PART = F(64)

Scalar = Any


def _parts(mean: Scalar) -> tuple[Scalar, Scalar]:
    """Return how many parts a mean has, and the mean of each: 0 of NaN and of negative numbers."""
    whole = where(mean > F(0), lax.min(mean, LARGEST_MEAN), F(0))
    count = lax.max(lax.ceil(whole * (F(1) / _LARGEST_PART)), F(1))
    return count, whole / count


def poisson_start(mean: Scalar) -> tuple[Scalar, Scalar]:
    """Return the mean of one part, and the probability of no event."""
    part = _parts(mean)[1]
    return part, lax.exp(-part)


def next_probability(part: Scalar, k: Scalar, p: Scalar, c: Scalar) -> tuple[Scalar, Scalar]:
    """Return the probability of k events, from that of k - 1, and the sum of all up to it."""
    p = p * (part / k)
    return p, c + p


@jax.jit
def be_poisson_of(u: Scalar, mean: Scalar) -> Scalar:
    """Return the number of events (int32) of one part of a mean, for a uniform number u."""
    part, p = poisson_start(mean)

    def more(carry: tuple[Scalar, ...]) -> Scalar:
        _, _, c, grew = carry
        return grew & (u >= c)

    def counted(carry: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        k, p, c, _ = carry
        k = k + F(1)
        p, total = next_probability(part, k, p, c)
        return k, p, total, total > c

    k, _, _, _ = lax.while_loop(more, counted, (jnp.zeros_like(p), p, p, u >= F(0)))
    return lax.convert_element_type(k, np.int32)


@jax.jit
def be_poisson_more(neuron: Scalar, step: Scalar, key0: Scalar, key1: Scalar, mean: Scalar) -> Scalar:
    """Return the sum (int32) of all parts of a mean but the first: 0 of means up to 64."""
    count = lax.convert_element_type(_parts(mean)[0], np.int32)

    def added(carry: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        part, total = carry
        key = part_key(key0, lax.convert_element_type(part, np.uint32))
        return part + np.int32(1), total + be_poisson_of(unit(be_bits(neuron, step, key, key1)), mean)

    one = jnp.ones_like(count)
    return lax.while_loop(lambda carry: carry[0] < count, added, (one, one - one))[1]
