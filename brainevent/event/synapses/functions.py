# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: a result for each stored element, in its order, and no sum.

`w` is any array with a value for each stored element: the weights, or an eligibility trace. A single number serves all.
The type of the result is the one to which JAX promotes both. Units: in compressed formats the result has that of w
alone, and that of y is dropped, as programs expect; with rows of equal length it has the product of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import MathError, ShapeError
from .. import units
from ..csr.format import CSR
from ..description import Description, Shape
from ..fixed.format import FIXED
from ..laws.values import VALUES
from ..operands import promises
from ..structure import checked_shape
from ..table import apply

__all__ = ["OF_VECTORS", "cscmm_dt2t", "cscmv_dt2t", "csrmm_dt2t", "csrmv_dt2t", "fcnmm_dt2t", "fcnmv_dt2t", "values"]

OF_VECTORS, OF_BATCHES = (Description(CSR, VALUES, columns=columns) for columns in (False, True))


def csrmv_dt2t(
    y: Any, w: Any, indices: Any, indptr: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Multiply each stored value with the value of its row, or if `transpose` of its column; the unit is that of w.

    The matrix of `shape` (m, k) is in compressed sparse rows.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.csrmv_dt2t(jnp.array([10.0, 100.0]), jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
    Array([ 10.,  20., 400.], dtype=float32)
    """
    names = "csrmv_dt2t", "csrmm_dt2t"
    return values(OF_VECTORS, names, y, w, (indices, indptr), shape, transpose, backend)


def cscmv_dt2t(
    y: Any, w: Any, indices: Any, indptr: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Do what `csrmv_dt2t` does with a matrix of `shape` (m, k) in compressed sparse columns.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.cscmv_dt2t(jnp.array([1.0, 2.0, 3.0]), jnp.ones(1), indices, indptr, shape=(3, 2))
    Array([1., 3., 3.], dtype=float32)
    """
    names, turned = ("cscmv_dt2t", "cscmm_dt2t"), checked_shape("cscmv_dt2t", shape)[::-1]
    return values(OF_VECTORS, names, y, w, (indices, indptr), turned, not transpose, backend)


def csrmm_dt2t(
    y: Any, w: Any, indices: Any, indptr: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Do what `csrmv_dt2t` does for each entry of a batch: y and w have a leading axis for it, or serve all entries.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> y = jnp.array([[10.0, 100.0], [1.0, 2.0]])
    >>> brainevent.csrmm_dt2t(y, jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
    Array([[ 10.,  20., 400.],
           [  1.,   2.,   8.]], dtype=float32)
    """
    names = "csrmm_dt2t", "csrmv_dt2t"
    return values(OF_BATCHES, names, y, w, (indices, indptr), shape, transpose, backend)


def cscmm_dt2t(
    y: Any, w: Any, indices: Any, indptr: Any, *, shape: Shape, transpose: bool = False, backend: str | None = None
) -> Any:
    """Do what `csrmm_dt2t` does with a matrix of `shape` (m, k) in compressed sparse columns."""
    names, turned = ("cscmm_dt2t", "cscmv_dt2t"), checked_shape("cscmm_dt2t", shape)[::-1]
    return values(OF_BATCHES, names, y, w, (indices, indptr), turned, not transpose, backend)


def fcnmv_dt2t(weights: Any, indices: Any, y: Any, *, shape: Shape, transpose: bool) -> Any:
    """Multiply each value of `weights` with that of its row, or if `transpose` of its column; units are multiplied.

    The matrix of `shape` (m, k) has rows of equal length: row i stores `weights[i]`, or one number for all, in the
    columns `indices[i]`.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, weights = jnp.array([[0, 2], [1, 2]]), jnp.array([[1.0, 2.0], [4.0, 8.0]])
    >>> brainevent.fcnmv_dt2t(weights, indices, jnp.array([1.0, 10.0, 100.0]), shape=(2, 3), transpose=True)
    Array([[  1., 200.],
           [ 40., 800.]], dtype=float32)
    """
    names, of = ("fcnmv_dt2t", "fcnmm_dt2t"), Description(FIXED, VALUES, columns=False)
    return values(of, names, y, weights, (indices,), shape, transpose, named="weights", unit_of_y=True)


def fcnmm_dt2t(weights: Any, indices: Any, y: Any, *, shape: Shape, transpose: bool) -> Any:
    """Do what `fcnmv_dt2t` does for each entry of a batch: y and weights have a leading axis for it, or serve all.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmm_dt2t(2.0, indices, jnp.array([[1.0, 10.0]]), shape=(2, 3), transpose=False)
    Array([[[ 2.,  2.],
            [20., 20.]]], dtype=float32)
    """
    names, of = ("fcnmm_dt2t", "fcnmv_dt2t"), Description(FIXED, VALUES, columns=True)
    return values(of, names, y, weights, (indices,), shape, transpose, named="weights", unit_of_y=True)


def values(
    of: Description,
    names: tuple[str, str],
    y: Any,
    w: Any,
    structure: Sequence[Any],
    shape: Any,
    of_columns: bool,
    backend: str | None = None,
    *,
    within: bool | None = None,
    named: str = "w",
    unit_of_y: bool = False,
) -> Any:
    """Return values times those of rows or columns, in the unit of w, or of the product.

    `names` are those of the function that was called, for messages, and of the one for batches, or for vectors. Whether
    all indices are known to be `within` range is looked at if that is None.
    """
    where = names[0]
    (w, unit), (y, other_unit) = units.split(w), units.split(y)
    shape = checked_shape(where, shape)
    structure, within = of.format.checked(where, structure, shape, within)
    y, w = _promoted(where, y, w, named)
    _check_neurons(names, y, shape[of_columns], batched=of.columns)
    stored = of.format.stored(structure, shape)
    w = _for_each(where, w, stored, batched=of.columns, name=named)
    batch: tuple[int, ...] = ()
    if of.columns:
        batch = _batch(names, y, w, len(stored), named)
        y, w = jnp.atleast_2d(y), w if w.ndim > len(stored) else w[None]
    out = jax.ShapeDtypeStruct((*batch, *stored), w.dtype)
    how = {"transpose": bool(of_columns), "backend": backend, **promises(indices_within=within)}
    (found,) = apply(of, y, w, *structure, outs=[out], shape=shape, **how)
    return units.join(found, units.product(unit, other_unit if unit_of_y else None))


# ---- what they share


def _promoted(where: str, y: Any, w: Any, name: str) -> tuple[jax.Array, jax.Array]:
    """Return both as arrays of the type to which JAX promotes them; w is floating."""
    y, w = jnp.asarray(y), jnp.asarray(w)
    if not jnp.issubdtype(w.dtype, jnp.floating):
        raise TypeError(f'{where}: {name} is {w.dtype}; pass floating values ({name}.astype("float32"))')
    if jnp.issubdtype(y.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: y is {y.dtype}; pass booleans, integers or real numbers")
    dtype = jnp.result_type(y, w)
    return y.astype(dtype), w.astype(dtype)


def _check_neurons(names: tuple[str, str], y: jax.Array, size: int, *, batched: bool) -> None:
    where, other = names
    if y.ndim not in ((1, 2) if batched else (1,)):
        advice = f"; call {other}" if y.ndim == 2 else ""
        raise MathError(f"{where}: y has shape {y.shape}; its rank must be {'1 or 2' if batched else 1}{advice}")
    if y.shape[-1] != size:
        raise ShapeError(f"{where}: y has shape {y.shape}; pass one value for each of {size}")


def _for_each(where: str, w: jax.Array, stored: tuple[int, ...], *, batched: bool, name: str) -> jax.Array:
    """Return a value for each stored element, and for each entry of a batch if there is an axis for it."""
    if w.size == 1:
        return jnp.broadcast_to(w.reshape(()), stored)
    if w.shape == stored or (batched and w.shape[1:] == stored):
        return w
    axis = ", with a leading axis for a batch or without" if batched else ""
    raise ShapeError(
        f"{where}: {name} has shape {w.shape}; pass one number, or one for each stored element, {stored}{axis}"
    )


def _batch(names: tuple[str, str], y: jax.Array, w: jax.Array, stored: int, name: str) -> tuple[int, ...]:
    """Return the size of the batch, if there is one; `stored` axes of w are those of the stored elements."""
    where, other = names
    given = {*y.shape[:-1], *w.shape[: w.ndim - stored]}
    sizes = given - {1} or given
    if len(sizes) == 1:
        return tuple(sizes)
    if not sizes:
        raise MathError(f"{where}: neither y nor {name} has an axis for a batch; call {other}")
    raise ShapeError(f"{where}: y has shape {y.shape} and {name} {w.shape}; pass batches of the same size")
