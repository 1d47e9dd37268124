# SPDX-License-Identifier: Apache-2.0
"""Functions of matrices in compressed sparse rows: products with events or numbers, dense rows, sampled products."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ... import _units as units
from ..._documented import documented
from ...errors import ShapeError
from ...typing import ArrayLike, EventLike, IndexLike, PyTree, Shape
from .. import entries
from ..calls import product, sliced_rows
from ..csr.format import CSR
from ..description import Description
from ..laws.copies import COPIED
from ..laws.products import EVENTS, NUMBERS, PAIRS
from ..structure import as_array, checked_shape
from ..table import apply, call_by, descriptions

__all__ = [
    "binary_csrmm",
    "binary_csrmm_indexed",
    "binary_csrmv",
    "binary_csrmv_indexed",
    "csr_slice_rows",
    "csrmm",
    "csrmm_indexed",
    "csrmv",
    "csrmv_indexed",
    "sddmm",
]

_LOOSE = {
    "data": "Floating weights, (nse,), in an order of their own, or one weight for all: a scalar or (1,).",
    "perm": "The place in `data` of the weight of each stored element, int32 or int64, (nse,).",
}
_EVENTS = {**entries.COMPRESSED, "workspace": "Ignored. Other releases take a buffer here."}
_WRONG = {
    **entries.PRODUCTS,
    "ValueError": "If concrete indices are out of range, `indptr` does not fit them, or `weighted` contradicts the "
    "form of the events.",
}
_of_events, _of_events_indexed = documented(_EVENTS, _WRONG), documented(_EVENTS | _LOOSE, _WRONG)
_of_numbers = documented(entries.COMPRESSED, entries.PRODUCTS | entries.INDPTR)
_of_numbers_indexed = documented(entries.COMPRESSED | _LOOSE, entries.PRODUCTS | entries.INDPTR)
_documented = documented(entries.COMPRESSED, entries.INDPTR | entries.CHECKED)

# ---- products with events

EVENT_MV, EVENT_MM, EVENT_MV_INDEXED, EVENT_MM_INDEXED = descriptions(CSR, EVENTS, indexed=True)


@_of_events
def binary_csrmv(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    v: EventLike,
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for a matrix in compressed sparse rows.

    Row i stores the elements `data[indptr[i]:indptr[i + 1]]` in the columns `indices[indptr[i]:indptr[i + 1]]`. Columns
    may come in any order, and duplicates add up. `transpose=True` is the fast direction: only the rows of neurons that
    spiked are read.

    A spike counts as one, whatever its value. The result is differentiable with respect to the weights, and with
    respect to the spikes as if each counted as its value. Concrete indices are validated once; under tracing,
    out-of-range indices are ignored.

    Args:
        v: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> weights = jnp.array([1.0, 2.0, 4.0])
        >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([True, True]), shape=(2, 3), transpose=True)
        Array([1., 0., 6.], dtype=float32)
        >>> brainevent.binary_csrmv(weights, indices, indptr, jnp.array([0.0, 1.0, 0.5]), shape=(2, 3))
        Array([2., 4.], dtype=float32)
    """
    return product(EVENT_MV, data, (indices, indptr), ("v", v), shape, transpose, backend, indices_sorted, weighted)


@_of_events
def binary_csrmm(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    B: EventLike,  # noqa: N803
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `v` of `binary_csrmv`.

    Args:
        B: The spikes, as in `binary_csrmv`, one vector a column, (k, n); (m, n) if `transpose`.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.binary_csrmm(jnp.ones(1), indices, indptr, jnp.eye(2), shape=(2, 3), transpose=True)
        Array([[1., 0.],
               [0., 0.],
               [1., 1.]], dtype=float32)
    """
    return product(EVENT_MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted, weighted)


@_of_events_indexed
def binary_csrmv_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    v: EventLike,
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights of the neurons that spiked, where stored element j has the weight `data[perm[j]]`.

    One array of weights can so serve a matrix cut into rows and the same matrix cut into columns, and products are fast
    in both directions. `csr_to_csc_index` returns `perm`.

    Args:
        v: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.

    Returns:
        The sums, (m,); (k,) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([0, 1, 2])
        >>> weights, spikes = jnp.array([1.0, 2.0, 4.0]), jnp.array([True, False, True])
        >>> brainevent.binary_csrmv_indexed(weights, indices, indptr, perm, spikes, shape=(3, 2), transpose=True)
        Array([3., 4.], dtype=float32)
    """
    return product(
        EVENT_MV_INDEXED, data, (indices, indptr, perm), ("v", v), shape, transpose, backend, indices_sorted, weighted
    )


@_of_events_indexed
def binary_csrmm_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    B: EventLike,  # noqa: N803
    *,
    shape: Shape,
    workspace: PyTree = None,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
    weighted: bool = False,
) -> jax.Array:
    """Sum the weights `data[perm[j]]` of the neurons that spiked, for each column of a matrix of spikes.

    Each column is treated as the vector `v` of `binary_csrmv_indexed`.

    Args:
        B: The spikes, as in `binary_csrmv`, one vector a column, (k, n); (m, n) if `transpose`.

    Returns:
        The sums, (m, n); (k, n) if `transpose`. The dtype is that of the weights. A quantity if an operand has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
        >>> weights, spikes = jnp.array([1.0, 2.0, 4.0]), jnp.array([[1, 0], [0, 1]])
        >>> brainevent.binary_csrmm_indexed(weights, indices, indptr, perm, spikes, shape=(3, 2))
        Array([[4., 0.],
               [0., 0.],
               [2., 1.]], dtype=float32)
    """
    return product(
        EVENT_MM_INDEXED, data, (indices, indptr, perm), ("B", B), shape, transpose, backend, indices_sorted, weighted
    )


call_by({EVENT_MV: binary_csrmv, EVENT_MM: binary_csrmm})
call_by({EVENT_MV_INDEXED: binary_csrmv_indexed, EVENT_MM_INDEXED: binary_csrmm_indexed})


# ---- products with numbers

MV, MM, MV_INDEXED, MM_INDEXED = descriptions(CSR, NUMBERS, indexed=True)


@_of_numbers
def csrmv(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    v: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in compressed sparse rows, or its transpose, with a vector of numbers.

    The matrix is stored as for `binary_csrmv`. The product is differentiable with respect to `data` and `v`.

    Args:
        v: Real numbers, (k,); (m,) if `transpose`.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csrmv(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.array([1.0, 5.0, 0.5]), shape=(2, 3))
        Array([2., 2.], dtype=float32)
    """
    return product(MV, data, (indices, indptr), ("v", v), shape, transpose, backend, indices_sorted)


@_of_numbers
def csrmm(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    B: ArrayLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix in compressed sparse rows, or its transpose, with a dense matrix of numbers.

    The matrix is stored as for `binary_csrmv`. The product is differentiable with respect to `data` and `B`.

    Args:
        B: Real numbers, (k, n); (m, n) if `transpose`.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csrmm(jnp.array([1.0, 2.0, 4.0]), indices, indptr, jnp.eye(3), shape=(2, 3))
        Array([[1., 0., 2.],
               [0., 0., 4.]], dtype=float32)
    """
    return product(MM, data, (indices, indptr), ("B", B), shape, transpose, backend, indices_sorted)


@_of_numbers_indexed
def csrmv_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    v: ArrayLike,
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix, whose stored element j has the weight `data[perm[j]]`, with a vector of numbers.

    All else is as in `csrmv`.

    Args:
        v: Real numbers, (k,); (m,) if `transpose`.

    Returns:
        The product, (m,); (k,) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one of
        them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
        >>> brainevent.csrmv_indexed(
        ...     jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.array([10.0, 1.0]), shape=(3, 2)
        ... )
        Array([40.,  0., 21.], dtype=float32)
    """
    return product(MV_INDEXED, data, (indices, indptr, perm), ("v", v), shape, transpose, backend, indices_sorted)


@_of_numbers_indexed
def csrmm_indexed(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    perm: IndexLike,
    B: ArrayLike,  # noqa: N803
    *,
    shape: Shape,
    transpose: bool = False,
    indices_sorted: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply a matrix, whose stored element j has the weight `data[perm[j]]`, with a dense matrix of numbers.

    All else is as in `csrmm`.

    Args:
        B: Real numbers, (k, n); (m, n) if `transpose`.

    Returns:
        The product, (m, n); (k, n) if `transpose`, in the dtype to which JAX promotes the operands. A quantity if one
        of them has a unit.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr, perm = jnp.array([0, 0, 1]), jnp.array([0, 1, 1, 3]), jnp.array([2, 1, 0])
        >>> brainevent.csrmm_indexed(jnp.array([1.0, 2.0, 4.0]), indices, indptr, perm, jnp.eye(2), shape=(3, 2))
        Array([[4., 0.],
               [0., 0.],
               [2., 1.]], dtype=float32)
    """
    return product(MM_INDEXED, data, (indices, indptr, perm), ("B", B), shape, transpose, backend, indices_sorted)


call_by({MV: csrmv, MM: csrmm, MV_INDEXED: csrmv_indexed, MM_INDEXED: csrmm_indexed})


# ---- dense rows

COPY = Description(CSR, COPIED)


@_documented
def csr_slice_rows(
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    row_indices: IndexLike,
    *,
    shape: Shape,
    backend: str | None = None,
) -> jax.Array:
    """Return chosen rows of a matrix in compressed sparse rows, as a dense array.

    Rows that are out of range are zero. The result is differentiable with respect to `data`.

    Args:
        row_indices: The rows to return, int32 or int64, (r,), in any order and with repetitions, or a single number.

    Returns:
        The rows, (r, k), or (k,) for a single number. The dtype is that of the weights. A quantity if they have a unit.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csr_slice_rows(jnp.ones(1), indices, indptr, jnp.array([1, 0, 7]), shape=(2, 3))
        Array([[0., 0., 1.],
               [1., 0., 1.],
               [0., 0., 0.]], dtype=float32)
        >>> brainevent.csr_slice_rows(jnp.ones(1), indices, indptr, 0, shape=(2, 3))
        Array([1., 0., 1.], dtype=float32)
    """
    return sliced_rows(COPY, data, (indices, indptr), row_indices, shape, backend, None)


call_by({COPY: csr_slice_rows})


# ---- a product of dense matrices, where a sparse one has elements

_OF_PAIRS = Description(CSR, PAIRS)


@_documented
def sddmm(
    a: ArrayLike, b: ArrayLike, indices: IndexLike, indptr: IndexLike, *, shape: Shape, backend: str | None = None
) -> jax.Array:
    """Return the elements of `a @ b` at the places that a sparse matrix stores.

    Time and memory grow with the number of stored elements, and not with the size of the product.

    Args:
        a: Floating numbers, (m, n).
        b: Floating numbers, (n, k).
        shape: The shape of the product, (m, k).

    Returns:
        The elements of the product, (nse,), in the order in which they are stored. A quantity if an operand has a unit.

    Raises:
        TypeError: If neither operand is floating, or indices are not integers.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> a, b = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[1.0, 0.0, 10.0], [0.0, 1.0, 100.0]])
        >>> brainevent.sddmm(a, b, jnp.array([0, 2, 1]), jnp.array([0, 2, 3]), shape=(2, 3))
        Array([  1., 210.,   4.], dtype=float32)
    """
    (a, unit), (b, unit_of_b) = units.split(a), units.split(b)
    shape, a, b = checked_shape("sddmm", shape), as_array(a), as_array(b)
    (columns, starts), _ = CSR.checked("sddmm", (indices, indptr), shape, None)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or (a.shape[0], b.shape[1]) != shape:
        raise ShapeError(f"sddmm: a has shape {a.shape} and b {b.shape}; their product must have the shape {shape}")
    dtype = jnp.result_type(a, b)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f'sddmm: a is {a.dtype} and b {b.dtype}; pass floating numbers (a.astype("float32"))')
    out = jax.ShapeDtypeStruct(columns.shape, dtype)
    sides = a.astype(dtype), b.astype(dtype).T
    (found,) = apply(_OF_PAIRS, columns, starts, *sides, outs=[out], backend=backend)
    return units.join(found, units.product(unit, unit_of_b))
