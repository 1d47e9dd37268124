# SPDX-License-Identifier: Apache-2.0
"""Cotangents of results to which nothing was added: they must not count, even if they are NaN or infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["all_finite", "without_unreached"]


@jax.custom_batching.custom_vmap
def all_finite(x: Any) -> jax.Array:
    """Say whether all numbers are finite; in a batch, whether those of all entries are, so that a branch stays one."""
    return jnp.isfinite(x).astype("uint8").min(initial=1) != 0  # bytes are compared as vectors


@all_finite.def_vmap
def _of_all_entries(axis_size: int, in_batched: Any, x: Any) -> tuple[jax.Array, bool]:
    return all_finite(x), False


def without_unreached(cotangent: jax.Array, sums: jax.Array, reached: Callable[[], Any]) -> jax.Array:
    """Return a cotangent with zeros where nothing was reached: zero times NaN or infinity is not zero.

    `sums` are those of the values that reached a place, so they may be zero there, too; then it does not matter whether
    a finite cotangent counts. `reached()` is computed only if one is not finite where the sum is zero.
    """
    zeros_count = all_finite(jax.lax.stop_gradient(jnp.where(sums != 0, 0, cotangent)))
    chosen: jax.Array = jax.lax.cond(
        zeros_count,
        lambda cotangent: jnp.where(sums != 0, cotangent, 0),
        lambda cotangent: jnp.where(reached(), cotangent, 0),
        cotangent,
    )
    return chosen
