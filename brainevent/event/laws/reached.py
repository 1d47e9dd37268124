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
    return jnp.isfinite(x).all()


@all_finite.def_vmap
def _of_all_entries(axis_size: int, in_batched: Any, x: Any) -> tuple[jax.Array, bool]:
    return all_finite(x), False


def without_unreached(cotangent: jax.Array, reached: Callable[[], Any]) -> jax.Array:
    """Return a cotangent with zeros where nothing was reached: zero times NaN or infinity is not zero.

    `reached()` is computed only if a number is not finite.
    """
    chosen: jax.Array = jax.lax.cond(
        all_finite(jax.lax.stop_gradient(cotangent)),
        lambda cotangent: cotangent,
        lambda cotangent: jnp.where(reached(), cotangent, 0),
        cotangent,
    )
    return chosen
