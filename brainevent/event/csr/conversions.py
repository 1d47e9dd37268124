# SPDX-License-Identifier: Apache-2.0
"""Indices of a sparse matrix in one format as indices in another; concrete arrays are sorted on the host.

Within a row or column, elements keep their order. Under tracing the same is done by `jax.numpy`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ShapeError
from ...typing import IndexLike, Shape
from ..operands import checked_indices
from ..remembered import Remembered
from ..room import check_room
from ..structure import check_compressed, check_indices, checked_shape

__all__ = [
    "coo2csr",
    "coo_to_csc_index",
    "csc_to_csr_index",
    "csr_to_coo_index",
    "csr_to_csc_index",
    "row_of_each",
    "turned_once",
]

_INT32 = 2**31  # the first number of elements whose places do not fit int32
_METHODS = ("coo", "numpy", "gpu_column_block")  # names that some programs pass


def csr_to_coo_index(indptr: IndexLike, indices: IndexLike) -> tuple[jax.Array, jax.Array]:
    """Return the row and the column of each stored element of a matrix in compressed sparse rows.

    Args:
        indptr: Where each row begins among the stored elements, int32 or int64, (m + 1,).
        indices: The column of each stored element, int32 or int64, (nse,).

    Returns:
        The rows and the columns, (nse,) each.

    Raises:
        TypeError: If an array does not hold int32 or int64.
        ValueError: If `indptr` decreases.
        ShapeError: If `indptr` does not end with the number of elements.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.csr_to_coo_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]))
        (Array([0, 0, 1], dtype=int32), Array([0, 2, 2], dtype=int32))
    """
    where = "csr_to_coo_index"
    indptr, indices = checked_indices(where, "indptr", indptr, 1), checked_indices(where, "indices", indices, 1)
    if indptr.shape[0] == 0:
        raise ShapeError(f"{where}: indptr is empty; pass [0] for a matrix without rows")
    if _known(indptr):
        pointers = np.asarray(indptr)
        lengths = np.diff(pointers)
        if (lengths < 0).any():
            raise ValueError(f"{where}: indptr decreases after position {int(np.argmax(lengths < 0))}; it must not")
        rows = np.repeat(np.arange(lengths.size, dtype=indices.dtype), lengths)
        if rows.size != indices.shape[0]:
            raise ShapeError(
                f"{where}: indptr ends with {pointers[-1]}; it must end with {indices.shape[0]}, the number of indices"
            )
        return jnp.asarray(rows), indices
    return row_of_each(indptr, indices.shape[0]).astype(indices.dtype), indices


def coo2csr(row_ids: IndexLike, col_ids: IndexLike, *, shape: Shape) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort elements in coordinates by row; elements of a row keep their order.

    Args:
        row_ids: The row of each element, int32 or int64, (nse,).
        col_ids: The column of each element, int32 or int64, (nse,).
        shape: The shape of the matrix, (m, k).

    Returns:
        `indptr`, (m + 1,), `indices`, (nse,), and `order`, (nse,): the weights in the new order are `data[order]`.

    Raises:
        TypeError: If an array does not hold integers.
        ValueError: If concrete indices are out of range.
        ShapeError: If there are not as many rows as columns.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.coo2csr(jnp.array([1, 0, 1]), jnp.array([2, 0, 1]), shape=(2, 3))
        (Array([0, 1, 3], dtype=int32), Array([0, 2, 1], dtype=int32), Array([1, 0, 2], dtype=int32))
    """
    return _sorted("coo2csr", ("row_ids", row_ids), ("col_ids", col_ids), checked_shape("coo2csr", shape))


def coo_to_csc_index(pre_ids: IndexLike, indices: IndexLike, *, shape: Shape) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort elements in coordinates by column; elements of a column keep their order.

    Args:
        pre_ids: The row of each element, int32 or int64, (nse,).
        indices: The column of each element, int32 or int64, (nse,).
        shape: The shape of the matrix, (m, k).

    Returns:
        `indptr`, (k + 1,), the row of each element, (nse,), and `order`, (nse,): the weights in the new order are
        `data[order]`.

    Raises:
        TypeError: If an array does not hold integers.
        ValueError: If concrete indices are out of range.
        ShapeError: If there are not as many rows as columns.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.coo_to_csc_index(jnp.array([1, 0, 1]), jnp.array([2, 0, 1]), shape=(2, 3))
        (Array([0, 1, 2, 3], dtype=int32), Array([0, 1, 1], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    turned = checked_shape("coo_to_csc_index", shape)[::-1]
    return _sorted("coo_to_csc_index", ("indices", indices), ("pre_ids", pre_ids), turned)


def csr_to_csc_index(
    indptr: IndexLike | None = None,
    indices: IndexLike | None = None,
    *,
    shape: Shape,
    include_perm: bool = True,
    method: str = "coo",
    column_block_size: int = 4096,
    csr_indptr: IndexLike | None = None,
    csr_indices: IndexLike | None = None,
) -> tuple[jax.Array, jax.Array, Any]:
    """Turn the indices of compressed sparse rows into those of compressed sparse columns.

    Args:
        indptr: Where each row begins among the elements, int32 or int64, (m + 1,).
        indices: The column of each element, int32 or int64, (nse,).
        shape: The shape of the matrix, (m, k).
        include_perm: Whether to return `perm`, and not None in its place.
        method: Accepted for programs that pass "coo", "numpy" or "gpu_column_block"; all give the same result.
        column_block_size: Ignored.
        csr_indptr: Another name of `indptr`.
        csr_indices: Another name of `indices`.

    Returns:
        `indptr` of the columns, (k + 1,), the row of each element, (nse,), and `perm`, (nse,): the weights in the new
        order are `data[perm]`.

    Raises:
        TypeError: If an array is missing or given twice, or does not hold int32 or int64.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.csr_to_csc_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]), shape=(2, 3))
        (Array([0, 1, 1, 3], dtype=int32), Array([0, 0, 1], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    where = "csr_to_csc_index"
    _check_method(where, method)
    indptr = _either(where, "indptr", indptr, "csr_indptr", csr_indptr)
    indices = _either(where, "indices", indices, "csr_indices", csr_indices)
    return _turned(where, indptr, indices, checked_shape(where, shape), include_perm)


_Turned = tuple[jax.Array, jax.Array, jax.Array]
_turned_before = Remembered[_Turned]()


def turned_once(indptr: Any, indices: Any, shape: tuple[int, int]) -> _Turned:
    """Return indices, pointers and places of weights cut along the other axis; concrete arrays are sorted once."""
    known = isinstance(indptr, jax.Array) and isinstance(indices, jax.Array) and _known(indptr) and _known(indices)
    if known and (before := _turned_before.find((indptr, indices), shape)) is not None:
        return before
    pointers, rows, places = _turned("csr_to_csc_index", indptr, indices, shape, include_perm=True)
    found = rows, pointers, places
    return _turned_before.keep(found, (indptr, indices), shape) if known else found


def csc_to_csr_index(
    indptr: IndexLike | None = None,
    indices: IndexLike | None = None,
    *,
    shape: Shape,
    include_perm: bool = True,
    method: str = "coo",
    column_block_size: int = 4096,
    csc_indptr: IndexLike | None = None,
    csc_indices: IndexLike | None = None,
) -> tuple[jax.Array, jax.Array, Any]:
    """Turn the indices of compressed sparse columns into those of compressed sparse rows.

    Args:
        indptr: Where each column begins among the elements, int32 or int64, (k + 1,).
        indices: The row of each element, int32 or int64, (nse,).
        shape: The shape of the matrix, (m, k).
        include_perm: Whether to return `perm`, and not None in its place.
        method: Accepted for programs that pass "coo", "numpy" or "gpu_column_block"; all give the same result.
        column_block_size: Ignored.
        csc_indptr: Another name of `indptr`.
        csc_indices: Another name of `indices`.

    Returns:
        `indptr` of the rows, (m + 1,), the column of each element, (nse,), and `perm`, (nse,): the weights in the new
        order are `data[perm]`.

    Raises:
        TypeError: If an array is missing or given twice, or does not hold int32 or int64.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.csc_to_csr_index(jnp.array([0, 1, 1, 3]), jnp.array([0, 0, 1]), shape=(2, 3))
        (Array([0, 2, 3], dtype=int32), Array([0, 2, 2], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    where = "csc_to_csr_index"
    _check_method(where, method)
    indptr = _either(where, "indptr", indptr, "csc_indptr", csc_indptr)
    indices = _either(where, "indices", indices, "csc_indices", csc_indices)
    return _turned(where, indptr, indices, checked_shape(where, shape)[::-1], include_perm)


def _either(where: str, name: str, given: Any, other: str, of_other: Any) -> Any:
    """Return an argument that has two names; raise if both or neither are passed."""
    if (given is None) == (of_other is None):
        raise TypeError(
            f"{where}: pass {name}, or {other}, which is the same; found {'neither' if given is None else 'both'}"
        )
    return of_other if given is None else given


def _check_method(where: str, method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"{where}: method is {method!r}; pass one of {', '.join(map(repr, _METHODS))}")


def _turned(where: str, indptr: Any, indices: Any, shape: tuple[int, int], include_perm: bool) -> Any:
    indptr, indices = checked_indices(where, "indptr", indptr, 1), checked_indices(where, "indices", indices, 1)
    check_compressed(where, indices, indptr, slices=shape[0], bound=shape[1])
    if _known(indptr) and _known(indices):
        from .on_cpu_sorting import sort_by_column

        starts, rows, order = _room(where, indices, shape[1])
        sort_by_column(np.asarray(indices), np.asarray(indptr), starts, rows, order)
        found = tuple(map(jnp.asarray, (starts, rows, order)))
    else:
        rows = row_of_each(indptr, indices.shape[0]).astype(indices.dtype)
        found = _sorted_in_trace(indices, rows, shape[1])
    return found if include_perm else (*found[:2], None)


def _sorted(where: str, named_keys: Any, named_others: Any, shape: tuple[int, int]) -> Any:
    """Sort elements by the first coordinate, which is below `shape[0]`."""
    pairs = (named_keys, named_others)
    keys, others = (checked_indices(where, name, x, 1) for name, x in pairs)
    if keys.shape != others.shape:
        names = " and ".join(name for name, _ in pairs)
        raise ShapeError(f"{where}: {names} have shapes {keys.shape} and {others.shape}; pass one of each per element")
    for (name, _), x, bound in zip(pairs, (keys, others), shape, strict=True):
        check_indices(where, name, x, bound)
    if not (_known(keys) and _known(others)):
        return _sorted_in_trace(keys, others, shape[0])
    from .on_cpu_sorting import sort_by_key

    starts, sorted_others, order = _room(where, others, shape[0])
    sort_by_key(np.asarray(keys), np.asarray(others), starts, sorted_others, order)
    return tuple(map(jnp.asarray, (starts, sorted_others, order)))


def _known(x: Any) -> bool:
    return not isinstance(x, jax.core.Tracer)


def _room(where: str, indices: jax.Array, slices: int) -> tuple[Any, Any, Any]:
    """Return memory for pointers, indices and their order; places need int64 if there are many elements."""
    places = np.int32 if indices.shape[0] < _INT32 else np.int64
    each = np.dtype(places).itemsize
    size = (slices + 1) * each + indices.size * (indices.dtype.itemsize + each)
    check_room(where, f"pointers of {slices} slices, and {indices.size} indices,", size, on_host=True)
    return np.empty(slices + 1, places), np.empty(indices.shape, indices.dtype), np.empty(indices.shape, places)


def _sorted_in_trace(keys: jax.Array, others: jax.Array, slices: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    places = jnp.int32 if keys.shape[0] < _INT32 else jnp.int64
    keys = jnp.where(keys < 0, slices, keys)  # out of range, as indices that are too large: they come last
    order = jnp.argsort(keys, stable=True).astype(places)
    starts = jnp.zeros(slices + 1, places).at[keys + 1].add(1, mode="drop")
    return jnp.cumsum(starts, dtype=places), others[order], order


def row_of_each(indptr: jax.Array, stored: int) -> jax.Array:
    """Return the row of each stored element; the number of rows for elements behind the last row."""
    rows, lengths = jnp.arange(indptr.shape[0], dtype=indptr.dtype), jnp.diff(indptr)
    left = jnp.maximum(0, stored - lengths.sum(dtype=indptr.dtype))
    return jnp.repeat(rows, jnp.append(lengths, left), total_repeat_length=stored)
