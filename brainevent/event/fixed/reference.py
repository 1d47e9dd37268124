# SPDX-License-Identifier: Apache-2.0
"""What products with a matrix of equally long rows are, in `jax.numpy`; duplicates add up.

Row i stores the elements `weights[i]`, or one weight for all, in the columns `indices[i]`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..precision import precise

__all__ = ["per_element", "product"]


def product(weights: Any, indices: Any, x: Any, *, shape: tuple[int, int], transpose: bool, event: bool) -> jax.Array:
    """Return `A @ x`, or `A.T @ x`, of a matrix A and a vector or matrix x."""
    sums = precise(weights.dtype)
    each = weights.reshape(()) if weights.size == 1 else weights
    each = jnp.broadcast_to(each.astype(sums), indices.shape)
    each = jnp.expand_dims(each, range(2, 1 + x.ndim))
    values = x[:, None] if transpose else x[indices]
    terms = weighted(each, values) if event else each * values.astype(sums)
    if not transpose:
        return terms.sum(1).astype(weights.dtype)
    terms = jnp.broadcast_to(terms, (*indices.shape, *x.shape[1:]))
    return jnp.zeros((shape[1], *x.shape[1:]), sums).at[indices].add(terms).astype(weights.dtype)


def per_element(indices: Any, of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored element, the product of its row's and its column's values, summed over further axes."""
    products = of_rows[:, None] * of_columns[indices[0]]
    return products.sum(range(2, products.ndim))
