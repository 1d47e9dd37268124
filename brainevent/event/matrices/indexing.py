# SPDX-License-Identifier: Apache-2.0
"""Dense rows and elements of a matrix, by `matrix[rows]` and `matrix[rows, columns]`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..structure import are_known, as_indices, known_on_host, narrow

__all__ = ["chosen_rows", "rows_or_elements"]


def rows_or_elements(matrix: Any, rows: Any) -> Any:
    """Return dense rows: one for a number, several for a slice, a mask or a vector; or elements for a pair."""
    if isinstance(rows, tuple):
        return _elements(matrix, *rows)
    if isinstance(rows, slice):
        return matrix._rows(jnp.arange(*rows.indices(matrix.shape[0]), dtype=jnp.int32))
    chosen = _from_start(type(matrix).__name__, "rows", rows, matrix.shape[0])
    found = matrix._rows(chosen.reshape(-1))
    return found[0] if chosen.ndim == 0 else found


def _elements(matrix: Any, rows: Any, columns: Any = None, *more: Any) -> Any:
    """Return the elements of rows and columns; zeros for those that are out of range."""
    if columns is None or more:
        raise IndexError(f"{type(matrix).__name__}: a matrix has rows and columns; pass matrix[rows, columns]")
    found = matrix[rows]
    if isinstance(columns, slice):
        return found[..., columns]
    chosen = _from_start(type(matrix).__name__, "columns", columns, matrix.shape[1])
    pairs = chosen.ndim == 1 and found.ndim == 2 and not isinstance(rows, slice)
    numbers, unit = units.split(found)
    places = (jnp.arange(found.shape[0]), chosen) if pairs else (..., chosen)
    return units.join(numbers.at[places].get(mode="fill", fill_value=0), unit)


def _from_start(kind: str, name: str, given: Any, size: int) -> jax.Array:
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
    chosen = _from_start(where, "rows", rows, size).reshape(-1)
    if are_known(chosen) and (np.asarray(chosen) >= size).any():
        raise IndexError(f"{where}: the rows are {rows!r}; the matrix has {size}")
    return chosen
