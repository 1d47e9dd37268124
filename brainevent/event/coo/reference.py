# SPDX-License-Identifier: Apache-2.0
"""What products with a matrix in coordinates are, in `jax.numpy`; duplicates add up.

Element i is `data[i]`, or the one weight of all, in row `row[i]` and column `col[i]`, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..precision import precise

__all__ = ["per_element", "product"]


def product(
    data: Any, row: Any, col: Any, x: Any, *, shape: tuple[int, int], transpose: bool, event: bool
) -> jax.Array:
    """Return `A @ x`, or `A.T @ x`, of a matrix A and a vector or matrix x."""
    into, out_of, size = (col, row, shape[1]) if transpose else (row, col, shape[0])
    sums = precise(data.dtype)
    each = data.reshape(()) if data.size == 1 else data
    each = jnp.broadcast_to(each.astype(sums), row.shape)
    each = jnp.expand_dims(each, range(1, x.ndim))
    terms = weighted(each, x[out_of]) if event else each * x[out_of].astype(sums)
    return jnp.zeros((size, *x.shape[1:]), sums).at[into].add(terms).astype(data.dtype)


def per_element(where: Sequence[Any], of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored element, the product of its row's and its column's values, summed over further axes."""
    row, col = where
    products = of_rows[row] * of_columns[col]
    return products.sum(range(1, products.ndim))
