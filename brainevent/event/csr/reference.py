# SPDX-License-Identifier: Apache-2.0
"""What products with a matrix in compressed sparse rows are, in `jax.numpy`.

Duplicates add up, and an index that is out of range adds nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..activity import weighted
from ..operands import is_within
from ..precision import precise

__all__ = ["per_element", "product", "row_of_each"]


def row_of_each(indptr: jax.Array, stored: int) -> jax.Array:
    """Return the row of each stored element; of those that come after all rows, the number of rows."""
    rows, lengths = jnp.arange(indptr.shape[0], dtype=indptr.dtype), jnp.diff(indptr)
    left = jnp.maximum(0, stored - lengths.sum(dtype=indptr.dtype))
    return jnp.repeat(rows, jnp.append(lengths, left), total_repeat_length=stored)


def product(
    data: Any, indices: Any, indptr: Any, x: Any, *, shape: tuple[int, int], transpose: bool, event: bool
) -> jax.Array:
    """Return `A @ x`, or `A.T @ x`, of a matrix A and a vector or matrix x."""
    rows = row_of_each(indptr, indices.shape[0])
    there = is_within(indices, shape[1]) & (rows < shape[0])
    columns = jnp.where(there, indices, 0)
    if transpose:
        rows, columns, shape = columns, rows, (shape[1], shape[0])
    sums = precise(data.dtype)
    weights = jnp.broadcast_to(data, indices.shape).astype(sums)
    weights, there = (jnp.expand_dims(each, range(1, x.ndim)) for each in (weights, there))
    terms = weighted(weights, x[columns]) if event else weights * x[columns].astype(sums)
    return jnp.zeros((shape[0], *x.shape[1:]), sums).at[rows].add(jnp.where(there, terms, 0)).astype(data.dtype)


def per_element(indices: Any, indptr: Any, of_rows: Any, of_columns: Any) -> jax.Array:
    """Return, for each stored element, the product of its row and its column in (m, n) and (k, n), summed over n."""
    sums, rows = precise(of_rows.dtype), row_of_each(indptr, indices.shape[0])
    found = (of_rows[rows].astype(sums) * of_columns[indices]).sum(1)
    there = is_within(indices, of_columns.shape[0]) & (rows < of_rows.shape[0])
    return jnp.where(there, found, 0).astype(of_rows.dtype)
