# SPDX-License-Identifier: Apache-2.0
"""A diagonal added to a matrix in compressed sparse rows, whose rows are then sorted by column."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import ShapeError
from ..csr.conversions import row_of_each
from ..structure import are_known, checked_indptr

__all__ = ["Positions", "Sum", "checked_diagonal", "positions_with_diagonal", "with_diagonal"]


class Sum(NamedTuple):
    """The parts of a matrix to which a diagonal was added."""

    data: Any
    indices: jax.Array
    indptr: jax.Array


class Positions(NamedTuple):
    """The structure of a matrix with its whole diagonal, and where stored and diagonal elements are in it."""

    indptr: jax.Array
    indices: jax.Array
    stored: np.ndarray
    diagonal: np.ndarray


def checked_diagonal(where: str, diagonal: Any, shape: tuple[int, int]) -> Any:
    """Return a diagonal, a number or a vector; raise if it does not fit the shape."""
    length, given = min(shape), np.shape(units.split(diagonal)[0])
    if given not in ((), (1,), (length,)):
        raise ShapeError(f"{where}: the diagonal has shape {given}; pass a number, or an array ({length},)")
    return diagonal


def with_diagonal(
    data: Any, indices: Any, indptr: Any, shape: tuple[int, int], diagonal: Any, *, in_order: bool
) -> Sum:
    """Add a diagonal; elements are inserted where none is stored, and under tracing for the whole diagonal.

    `in_order` says that the columns of each row are known to ascend.
    """
    if are_known(indices, indptr):
        found, pointers = np.asarray(indices), np.asarray(indptr)
        if pointers[0] == 0 and pointers[-1] == found.size and (np.diff(pointers) >= 0).all():
            place = positions_with_diagonal(found, pointers, shape, in_order=in_order)
            added = _added(data, place.stored, diagonal, place.diagonal, place.indices.shape[0])
            return Sum(added, place.indices, place.indptr)
    return _with_all(data, indices, indptr, shape, diagonal)


def positions_with_diagonal(
    indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], *, in_order: bool
) -> Positions:
    """Return the structure of a sum with a diagonal: missing elements are inserted where columns ascend."""
    rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
    order = np.arange(indices.size) if in_order else np.lexsort((indices, rows))  # rows stay where they are
    indices = indices[order]
    present, first = np.unique(rows[on := np.flatnonzero(rows == indices)], return_index=True)
    missing = np.setdiff1d(np.arange(min(shape)), present)
    left = np.concatenate([[0], np.cumsum(indices < rows)])
    behind = indptr[missing] + left[indptr[missing + 1]] - left[indptr[missing]]
    old = np.arange(indices.size) + np.searchsorted(behind, np.arange(indices.size), side="right")
    new = behind + np.arange(missing.size)
    size, diagonal, stored = indices.size + missing.size, np.empty(min(shape), np.int64), np.empty_like(old)
    diagonal[present], diagonal[missing], stored[order] = old[on[first]], new, old
    columns = np.empty(size, indices.dtype)
    columns[old], columns[new] = indices, missing
    pointers = indptr.astype(np.int64) + np.searchsorted(missing, np.arange(shape[0] + 1))
    with jax.ensure_compile_time_eval():  # it stays known in a trace
        return Positions(checked_indptr("CSR.diag_add", pointers, size), jnp.asarray(columns), stored, diagonal)


def _with_all(data: Any, indices: jax.Array, indptr: jax.Array, shape: tuple[int, int], diagonal: Any) -> Sum:
    """Add it under tracing: an element with weight zero is inserted where one is stored already."""
    stored, length = indices.shape[0], min(shape)
    size, along = stored + length, jnp.arange(length, dtype=indices.dtype)
    indptr = checked_indptr("CSR.diag_add", indptr, size)
    rows = row_of_each(indptr, stored).astype(indices.dtype)
    places = jnp.arange(stored, dtype=indptr.dtype)
    here = jnp.where(rows == indices, rows, length)
    first = jnp.full(length, stored, indptr.dtype).at[here].min(places, mode="drop")
    where = jnp.where(first < stored, first, stored + jnp.arange(length, dtype=indptr.dtype))
    all_rows, all_columns = jnp.append(rows, along), jnp.append(indices, along)
    order = jnp.lexsort((all_columns, all_rows))  # elements of no row come last
    counts = jnp.zeros(shape[0] + 1, indptr.dtype).at[all_rows + 1].add(1, mode="drop")
    pointers = jnp.cumsum(counts, dtype=indptr.dtype)
    return Sum(_added(data, places, diagonal, where, size)[order], all_columns[order], pointers)


def _added(data: Any, places: Any, diagonal: Any, where: Any, size: int) -> Any:
    dtype = data.dtype
    return _spread(data, places, size, dtype) + _spread(diagonal, where, size, dtype)


def _spread(values: Any, places: Any, size: int, dtype: Any) -> Any:
    """Return zeros with values at some places."""
    numbers, unit = units.split(values)
    return units.join(jnp.zeros(size, dtype).at[places].add(jnp.asarray(numbers, dtype)), unit)
