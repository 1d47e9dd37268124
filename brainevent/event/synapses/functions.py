# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: a result for each stored element, in its order, and no sum.

`w` is any array with a value for each stored element: the weights, or an eligibility trace. A single number serves all.
The dtype of the result is the one to which JAX promotes both. Units: in compressed formats the result has that of w
alone, and that of y is dropped, as programs expect; with rows of equal length it has the product of both.
"""

from __future__ import annotations

import jax

from ..._documented import documented
from ...typing import ArrayLike, IndexLike
from .. import entries
from ..csr.format import CSR
from ..description import Description, Shape
from ..fixed.format import FIXED
from ..laws.values import VALUES
from ..structure import checked_shape
from .calls import values

__all__ = ["OF_VECTORS", "cscmm_dt2t", "cscmv_dt2t", "csrmm_dt2t", "csrmv_dt2t", "fcnmm_dt2t", "fcnmv_dt2t"]

OF_VECTORS, OF_BATCHES = (Description(CSR, VALUES, columns=columns) for columns in (False, True))


_ONE = {
    "y": "Real numbers: one for each row, (m,), or for each column, (k,), if `transpose`.",
    "w": "Floating values, (nse,), such as weights or eligibility traces. A single number serves all elements.",
    "transpose": "Whether `y` has a value for each column, and not for each row.",
}
_BATCH = _ONE | {
    "y": "Real numbers, (b, m), or (b, k) if `transpose`. A vector serves all entries of the batch.",
    "w": "Floating values, (b, nse), or (nse,) or a single number for all entries of the batch.",
}
_COLUMNS = {
    "indices": "The row of each stored element, int32 or int64, (nse,).",
    "indptr": "Where each column begins among the stored elements, int32 or int64, (k + 1,).",
}
_WRONG = {
    **entries.PRODUCTS,
    **entries.INDPTR,
    "TypeError": "If `w` is not floating, indices are not integers, or `y` is complex.",
}
_WRONG_BATCH = {**_WRONG, "MathError": "If neither `y` nor `w` has an axis for a batch."}
_PRODUCTS = (
    "The products, (nse,), in the order in which elements are stored, in the dtype to which JAX promotes both "
    "operands. The unit is that of `w`; a unit of `y` is dropped."
)
_PRODUCTS_BATCH = "The products, (b, nse), in the order in which elements are stored, in the unit of `w`."
_of_rows = documented(entries.COMPRESSED | _ONE, _WRONG, _PRODUCTS)
_of_columns = documented(entries.COMPRESSED | _COLUMNS | _ONE, _WRONG, _PRODUCTS)
_of_rows_in_batches = documented(entries.COMPRESSED | _BATCH, _WRONG_BATCH, _PRODUCTS_BATCH)
_of_columns_in_batches = documented(entries.COMPRESSED | _COLUMNS | _BATCH, _WRONG_BATCH, _PRODUCTS_BATCH)
_of_equal_rows = documented(
    entries.EQUAL | _ONE,
    {
        "TypeError": "If `weights` is not floating, indices are not integers, or `y` is complex.",
        **{name: entries.PRODUCTS[name] for name in ("ValueError", "ShapeError", "MathError")},
    },
)


@_of_rows
def csrmv_dt2t(
    y: ArrayLike,
    w: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply each stored value of a matrix in compressed sparse rows with the value of its row or column.

    There is a result for each stored element, and no sum.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.csrmv_dt2t(jnp.array([10.0, 100.0]), jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
        Array([ 10.,  20., 400.], dtype=float32)
    """
    names = "csrmv_dt2t", "csrmm_dt2t"
    return values(OF_VECTORS, names, y, w, (indices, indptr), shape, transpose, backend)


@_of_columns
def cscmv_dt2t(
    y: ArrayLike,
    w: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply each stored value of a matrix in compressed sparse columns with the value of its row or column.

    There is a result for each stored element, and no sum.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> brainevent.cscmv_dt2t(jnp.array([1.0, 2.0, 3.0]), jnp.ones(1), indices, indptr, shape=(3, 2))
        Array([1., 3., 3.], dtype=float32)
    """
    names, turned = ("cscmv_dt2t", "cscmm_dt2t"), checked_shape("cscmv_dt2t", shape)[::-1]
    return values(OF_VECTORS, names, y, w, (indices, indptr), turned, not transpose, backend)


@_of_rows_in_batches
def csrmm_dt2t(
    y: ArrayLike,
    w: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply stored values with those of rows or columns, for each entry of a batch.

    Each entry is treated as by `csrmv_dt2t`. At least one of `y` and `w` has the leading axis of the batch.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> y = jnp.array([[10.0, 100.0], [1.0, 2.0]])
        >>> brainevent.csrmm_dt2t(y, jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
        Array([[ 10.,  20., 400.],
               [  1.,   2.,   8.]], dtype=float32)
    """
    names = "csrmm_dt2t", "csrmv_dt2t"
    return values(OF_BATCHES, names, y, w, (indices, indptr), shape, transpose, backend)


@_of_columns_in_batches
def cscmm_dt2t(
    y: ArrayLike,
    w: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    *,
    shape: Shape,
    transpose: bool = False,
    backend: str | None = None,
) -> jax.Array:
    """Multiply stored values with those of rows or columns, for each entry of a batch, in compressed sparse columns.

    Each entry is treated as by `cscmv_dt2t`. At least one of `y` and `w` has the leading axis of the batch.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> y = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        >>> brainevent.cscmm_dt2t(y, jnp.ones(1), indices, indptr, shape=(3, 2))
        Array([[1., 3., 3.],
               [4., 6., 6.]], dtype=float32)
    """
    names, turned = ("cscmm_dt2t", "cscmv_dt2t"), checked_shape("cscmm_dt2t", shape)[::-1]
    return values(OF_BATCHES, names, y, w, (indices, indptr), turned, not transpose, backend)


@_of_equal_rows
def fcnmv_dt2t(weights: ArrayLike, indices: IndexLike, y: ArrayLike, *, shape: Shape, transpose: bool) -> jax.Array:
    """Multiply each weight of a matrix with rows of equal length with the value of its row or column.

    There is a result for each stored element, and no sum. Row i stores `weights[i]` in the columns `indices[i]`.

    Returns:
        The products, (m, c), in the dtype to which JAX promotes both operands, and in the product of their units.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, weights = jnp.array([[0, 2], [1, 2]]), jnp.array([[1.0, 2.0], [4.0, 8.0]])
        >>> brainevent.fcnmv_dt2t(weights, indices, jnp.array([1.0, 10.0, 100.0]), shape=(2, 3), transpose=True)
        Array([[  1., 200.],
               [ 40., 800.]], dtype=float32)
    """
    names, of = ("fcnmv_dt2t", "fcnmm_dt2t"), Description(FIXED, VALUES, columns=False)
    return values(of, names, y, weights, (indices,), shape, transpose, named="weights", unit_of_y=True)


@_of_equal_rows
def fcnmm_dt2t(weights: ArrayLike, indices: IndexLike, y: ArrayLike, *, shape: Shape, transpose: bool) -> jax.Array:
    """Multiply weights with the values of rows or columns, for each entry of a batch, with rows of equal length.

    Each entry is treated as by `fcnmv_dt2t`. At least one of `y` and `weights` has the leading axis of the batch.

    Args:
        weights: Floating weights, (b, m, c), or (m, c) or a single number for all entries of the batch.
        y: Real numbers, (b, m), or (b, k) if `transpose`. A vector serves all entries of the batch.

    Returns:
        The products, (b, m, c), in the dtype to which JAX promotes both operands, and in the product of their units.

    Raises:
        MathError: If neither `y` nor `weights` has an axis for a batch.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices = jnp.array([[0, 2], [1, 2]])
        >>> brainevent.fcnmm_dt2t(2.0, indices, jnp.array([[1.0, 10.0]]), shape=(2, 3), transpose=False)
        Array([[[ 2.,  2.],
                [20., 20.]]], dtype=float32)
    """
    names, of = ("fcnmm_dt2t", "fcnmv_dt2t"), Description(FIXED, VALUES, columns=True)
    return values(of, names, y, weights, (indices,), shape, transpose, named="weights", unit_of_y=True)
