# SPDX-License-Identifier: Apache-2.0
"""What products with a matrix of equally long rows are, in `jax.numpy`.

Row i stores the elements `weights[i]`, or one weight for all, in the columns `indices[i]`. Duplicates add up, and an
index that is out of range adds nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..operands import is_within
from ..precision import precise

__all__ = ["per_element", "product"]


def product(weights: Any, indices: Any, x: Any, *, shape: tuple[int, int], transpose: bool, event: bool) -> jax.Array:
    """Return `A @ x`, or `A.T @ x`, of a matrix A and a vector or matrix x."""
    sums, there = precise(weights.dtype), is_within(indices, shape[1])
    indices = jnp.where(there, indices, 0)
    each = weights.reshape(()) if weights.size == 1 else weights
    each = jnp.broadcast_to(each.astype(sums), indices.shape)
    each, there = (jnp.expand_dims(array, range(2, 1 + x.ndim)) for array in (each, there))
    values = x[:, None] if transpose else x[indices]
    terms = jnp.where(there, weighted(each, values) if event else each * values.astype(sums), 0)
    if not transpose:
        return terms.sum(1).astype(weights.dtype)
    terms = jnp.broadcast_to(terms, (*indices.shape, *x.shape[1:]))
    return jnp.zeros((shape[1], *x.shape[1:]), sums).at[indices].add(terms).astype(weights.dtype)


def per_element(indices: Any, of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored element, the product of its row's and its column's values, summed over further axes."""
    products = of_rows[:, None] * of_columns[indices[0]]
    return jnp.where(is_within(indices[0], of_columns.shape[0]), products.sum(range(2, products.ndim)), 0)
