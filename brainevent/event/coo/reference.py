# SPDX-License-Identifier: Apache-2.0
"""What products with a matrix in coordinates are, in `jax.numpy`.

Element i is `data[i]`, or the one weight of all, in row `row[i]` and column `col[i]`, in any order. Duplicates add up,
and an index that is out of range adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..operands import is_within
from ..precision import precise

__all__ = ["per_element", "product"]


def product(
    data: Any, row: Any, col: Any, x: Any, *, shape: tuple[int, int], transpose: bool, event: bool
) -> jax.Array:
    """Return `A @ x`, or `A.T @ x`, of a matrix A and a vector or matrix x."""
    there = is_within(row, shape[0]) & is_within(col, shape[1])
    row, col = jnp.where(there, row, 0), jnp.where(there, col, 0)
    into, out_of, size = (col, row, shape[1]) if transpose else (row, col, shape[0])
    sums = precise(data.dtype)
    each = data.reshape(()) if data.size == 1 else data
    each = jnp.broadcast_to(each.astype(sums), row.shape)
    each, there = (jnp.expand_dims(array, range(1, x.ndim)) for array in (each, there))
    terms = weighted(each, x[out_of]) if event else each * x[out_of].astype(sums)
    return jnp.zeros((size, *x.shape[1:]), sums).at[into].add(jnp.where(there, terms, 0)).astype(data.dtype)


def per_element(where: Sequence[Any], of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored element, the product of its row's and its column's values, summed over further axes."""
    row, col = where
    there = is_within(row, of_rows.shape[0]) & is_within(col, of_columns.shape[0])
    products = of_rows[row] * of_columns[col]
    return jnp.where(there, products.sum(range(1, products.ndim)), 0)
