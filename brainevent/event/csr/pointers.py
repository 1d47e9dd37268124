# SPDX-License-Identifier: Apache-2.0
"""Rows of elements from row pointers, in `jax.numpy`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["row_of_each"]


def row_of_each(indptr: jax.Array, stored: int) -> jax.Array:
    """Return the row of each stored element; the number of rows for elements behind the last row."""
    rows, lengths = jnp.arange(indptr.shape[0], dtype=indptr.dtype), jnp.diff(indptr)
    left = jnp.maximum(0, stored - lengths.sum(dtype=indptr.dtype))
    return jnp.repeat(rows, jnp.append(lengths, left), total_repeat_length=stored)
