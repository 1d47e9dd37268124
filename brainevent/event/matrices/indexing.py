# SPDX-License-Identifier: Apache-2.0
"""The contents of the brackets of `matrix[rows, columns]` as indices that kernels take."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..structure import are_known, as_indices, known_on_host, narrow

__all__ = ["chosen_rows", "from_start"]


def from_start(kind: str, name: str, given: Any, size: int) -> jax.Array:
    """Return an index, or a vector of indices, counted from the start; `size` for those that are out of range."""
    where = f"{kind}[{name}]"
    index = as_indices(np.asarray(given) if isinstance(given, np.generic) else given)
    if index.dtype == bool:
        if index.shape != (size,):
            raise IndexError(f"{where}: the mask has shape {index.shape}; pass one boolean for each of {size}")
        index = known_on_host(where, index).nonzero()[0]
    if not jnp.issubdtype(index.dtype, jnp.integer) or index.ndim > 1:
        raise TypeError(f"{where}: {name} is {given!r}; pass an integer, a slice, a mask or a vector of integers")
    if isinstance(given, (int, np.integer)) and not -size <= given < size:
        raise IndexError(f"{kind}[{given}]: there are {size} {name}")
    chosen = narrow(kind, name, index, size + 1)
    chosen = jnp.where(chosen < 0, chosen + size, chosen)
    return jnp.where((chosen < 0) | (chosen > size), size, chosen)


def chosen_rows(where: str, rows: Any, size: int) -> jax.Array:
    """Return a vector of row numbers; out-of-range rows raise or, under tracing, are `size`."""
    if isinstance(rows, slice):
        return jnp.arange(*rows.indices(size), dtype=jnp.int32)
    chosen = from_start(where, "rows", rows, size).reshape(-1)
    if are_known(chosen) and (np.asarray(chosen) >= size).any():
        raise IndexError(f"{where}: the rows are {rows!r}; the matrix has {size}")
    return chosen
