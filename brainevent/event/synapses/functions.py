# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: a result for each stored element, in its order, and no sum.

`w` is any array with a value for each stored element: the weights, or an eligibility trace. A single number serves all.
The type of the result is the one to which JAX promotes both. Units: in compressed formats the result has that of w
alone, and that of y is dropped, as programs expect; with rows of equal length it has the product of both.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...errors import MathError, ShapeError
from .. import units
from ..csr.checked import checked_structure
from ..operands import checked_indices, promises
from ..structure import check_indices, check_once, checked_shape
from . import benchmark_data
from .operators import csrmm_dt2t_p, csrmv_dt2t_p
from .reference import times

__all__ = ["cscmm_dt2t", "cscmv_dt2t", "csrmm_dt2t", "csrmv_dt2t", "fcnmm_dt2t", "fcnmv_dt2t", "of_dense", "of_places"]


def csrmv_dt2t(
    y: Any,
    w: Any,
    indices: Any,
    indptr: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Multiply each stored value with the value of its row, or if `transpose` of its column; the unit is that of w.

    The matrix of `shape` (m, k) is in compressed sparse rows.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.csrmv_dt2t(jnp.array([10.0, 100.0]), jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
    Array([ 10.,  20., 400.], dtype=float32)
    """
    return _of_vectors("csrmv_dt2t", y, w, indices, indptr, checked_shape("csrmv_dt2t", shape), transpose, backend)


def cscmv_dt2t(
    y: Any,
    w: Any,
    indices: Any,
    indptr: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `csrmv_dt2t` does with a matrix of `shape` (m, k) in compressed sparse columns.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> brainevent.cscmv_dt2t(jnp.array([1.0, 2.0, 3.0]), jnp.ones(1), indices, indptr, shape=(3, 2))
    Array([1., 3., 3.], dtype=float32)
    """
    turned = checked_shape("cscmv_dt2t", shape)[::-1]
    return _of_vectors("cscmv_dt2t", y, w, indices, indptr, turned, not transpose, backend)


def csrmm_dt2t(
    y: Any,
    w: Any,
    indices: Any,
    indptr: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `csrmv_dt2t` does for each entry of a batch: y and w have a leading axis for it, or serve all entries.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> y = jnp.array([[10.0, 100.0], [1.0, 2.0]])
    >>> brainevent.csrmm_dt2t(y, jnp.array([1.0, 2.0, 4.0]), indices, indptr, shape=(2, 3))
    Array([[ 10.,  20., 400.],
           [  1.,   2.,   8.]], dtype=float32)
    """
    return _of_batches("csrmm_dt2t", y, w, indices, indptr, checked_shape("csrmm_dt2t", shape), transpose, backend)


def cscmm_dt2t(
    y: Any,
    w: Any,
    indices: Any,
    indptr: Any,
    *,
    shape: tuple[int, int],
    transpose: bool = False,
    backend: str | None = None,
) -> Any:
    """Do what `csrmm_dt2t` does with a matrix of `shape` (m, k) in compressed sparse columns."""
    turned = checked_shape("cscmm_dt2t", shape)[::-1]
    return _of_batches("cscmm_dt2t", y, w, indices, indptr, turned, not transpose, backend)


def fcnmv_dt2t(
    weights: Any,
    indices: Any,
    y: Any,
    *,
    shape: tuple[int, int],
    transpose: bool,
) -> Any:
    """Multiply each value of `weights` with that of its row, or if `transpose` of its column; units are multiplied.

    The matrix of `shape` (m, k) has rows of equal length: row i stores `weights[i]`, or one number for all, in the
    columns `indices[i]`.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, weights = jnp.array([[0, 2], [1, 2]]), jnp.array([[1.0, 2.0], [4.0, 8.0]])
    >>> brainevent.fcnmv_dt2t(weights, indices, jnp.array([1.0, 10.0, 100.0]), shape=(2, 3), transpose=True)
    Array([[  1., 200.],
           [ 40., 800.]], dtype=float32)
    """
    (y, unit_of_y), (weights, unit) = units.split(y), units.split(weights)
    found = _of_fixed("fcnmv_dt2t", y, weights, indices, shape, bool(transpose), batched=False)
    return units.join(found, units.product(unit, unit_of_y))


def fcnmm_dt2t(
    weights: Any,
    indices: Any,
    y: Any,
    *,
    shape: tuple[int, int],
    transpose: bool,
) -> Any:
    """Do what `fcnmv_dt2t` does for each entry of a batch: y and weights have a leading axis for it, or serve all.

    >>> import jax.numpy as jnp, brainevent
    >>> indices = jnp.array([[0, 2], [1, 2]])
    >>> brainevent.fcnmm_dt2t(2.0, indices, jnp.array([[1.0, 10.0]]), shape=(2, 3), transpose=False)
    Array([[[ 2.,  2.],
            [20., 20.]]], dtype=float32)
    """
    (y, unit_of_y), (weights, unit) = units.split(y), units.split(weights)
    found = _of_fixed("fcnmm_dt2t", y, weights, indices, shape, bool(transpose), batched=True)
    return units.join(found, units.product(unit, unit_of_y))


def of_places(where: str, y: Any, w: Any, places: Any, size: int) -> Any:
    """Multiply each value with the value of its place, in any order of them; the unit is that of w."""
    (w, unit), (y, _) = units.split(w), units.split(y)
    y, w = _promoted(where, y, w)
    _check_neurons(where, y, size, batched=False)
    return units.join(times(_for_each(where, w, places.shape, batched=False), y, places), unit)


def of_dense(where: str, y: Any, w: Any, shape: tuple[int, int], *, of_columns: bool) -> Any:
    """Multiply a value for each pair of neurons with the value of its row or column; the unit is that of w."""
    (w, unit), (y, _) = units.split(w), units.split(y)
    y, w = _promoted(where, y, w)
    _check_neurons(where, y, shape[of_columns], batched=False)
    return units.join(_for_each(where, w, shape, batched=False) * (y if of_columns else y[:, None]), unit)


# ---- what they share


def _of_vectors(
    where: str, y: Any, w: Any, indices: Any, indptr: Any, cut: tuple[int, int], of_columns: bool, backend: str | None
) -> Any:
    (w, unit), (y, _) = units.split(w), units.split(y)
    (indices, indptr), within = checked_structure(where, indices, indptr, cut)
    y, w = _promoted(where, y, w)
    _check_neurons(where, y, cut[of_columns], batched=False)
    w = _for_each(where, w, indices.shape, batched=False)
    out = jax.ShapeDtypeStruct(indices.shape, w.dtype)
    how = {"transpose": bool(of_columns), "backend": backend, **promises(indices_within=within)}
    (found,) = csrmv_dt2t_p(y, w, indices, indptr, outs=[out], shape=cut, **how)
    return units.join(found, unit)


def _of_batches(
    where: str, y: Any, w: Any, indices: Any, indptr: Any, cut: tuple[int, int], of_columns: bool, backend: str | None
) -> Any:
    (w, unit), (y, _) = units.split(w), units.split(y)
    (indices, indptr), within = checked_structure(where, indices, indptr, cut)
    y, w = _promoted(where, y, w)
    _check_neurons(where, y, cut[of_columns], batched=True)
    w = _for_each(where, w, indices.shape, batched=True)
    (batch,) = _batch(where, y, w, 1)
    y, w = jnp.atleast_2d(y), jnp.atleast_2d(w)
    out = jax.ShapeDtypeStruct((batch, *indices.shape), w.dtype)
    how = {"transpose": bool(of_columns), "backend": backend, **promises(indices_within=within)}
    (found,) = csrmm_dt2t_p(y, w, indices, indptr, outs=[out], shape=cut, **how)
    return units.join(found, unit)


def _of_fixed(where: str, y: Any, weights: Any, indices: Any, shape: Any, of_columns: bool, *, batched: bool) -> Any:
    shape = checked_shape(where, shape)
    indices = checked_indices(where, "indices", indices, 2)
    if indices.shape[0] != shape[0]:
        raise ShapeError(f"{where}: indices has shape {indices.shape}; pass one row for each of {shape[0]}")
    check_once(check_indices, where, "indices", indices, bound=shape[1], ndim=2)
    y, weights = _promoted(where, y, weights, "weights")
    _check_neurons(where, y, shape[of_columns], batched=batched)
    weights = _for_each(where, weights, indices.shape, batched=batched, name="weights")
    if batched:
        _batch(where, y, weights, 2, "weights")
    if not of_columns:
        return weights * y[..., None]
    return times(weights, y, indices)


def _promoted(where: str, y: Any, w: Any, name: str = "w") -> tuple[jax.Array, jax.Array]:
    """Return both as arrays of the type to which JAX promotes them; w is floating."""
    y, w = jnp.asarray(y), jnp.asarray(w)
    if not jnp.issubdtype(w.dtype, jnp.floating):
        raise TypeError(f'{where}: {name} is {w.dtype}; pass floating values ({name}.astype("float32"))')
    if jnp.issubdtype(y.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: y is {y.dtype}; pass booleans, integers or real numbers")
    dtype = jnp.result_type(y, w)
    return y.astype(dtype), w.astype(dtype)


def _check_neurons(where: str, y: jax.Array, size: int, *, batched: bool) -> None:
    if y.ndim not in ((1, 2) if batched else (1,)):
        advice = f"; call {where.replace('mv_', 'mm_')}" if y.ndim == 2 else ""
        raise MathError(f"{where}: y has shape {y.shape}; its rank must be {'1 or 2' if batched else 1}{advice}")
    if y.shape[-1] != size:
        raise ShapeError(f"{where}: y has shape {y.shape}; pass one value for each of {size}")


def _for_each(where: str, w: jax.Array, stored: tuple[int, ...], *, batched: bool, name: str = "w") -> jax.Array:
    """Return a value for each stored element, and for each entry of a batch if there is an axis for it."""
    if w.size == 1:
        return jnp.broadcast_to(w.reshape(()), stored)
    if w.shape == stored or (batched and w.shape[1:] == stored):
        return w
    axis = ", with a leading axis for a batch or without" if batched else ""
    raise ShapeError(
        f"{where}: {name} has shape {w.shape}; pass one number, or one for each stored element, {stored}{axis}"
    )


def _batch(where: str, y: jax.Array, w: jax.Array, stored: int, name: str = "w") -> tuple[int, ...]:
    """Return the size of the batch, if there is one; `stored` axes of w are those of the stored elements."""
    given = {*y.shape[:-1], *w.shape[: w.ndim - stored]}
    sizes = given - {1} or given
    if len(sizes) == 1:
        return tuple(sizes)
    if not sizes:
        raise MathError(f"{where}: neither y nor {name} has an axis for a batch; call {where.replace('mm_', 'mv_')}")
    raise ShapeError(f"{where}: y has shape {y.shape} and {name} {w.shape}; pass batches of the same size")


def _called(operator: Any) -> Any:
    """Return a function that calls an operator by its operands, its shape and its direction alone."""

    def call(*operands: Any, shape: tuple[int, int], transpose: bool = False, backend: str | None = None) -> Any:
        return operator(*operands, shape=shape, transpose=transpose, backend=backend)

    return call


for _operator in (csrmv_dt2t_p, csrmm_dt2t_p):
    _operator.def_call(_called(_operator))
    _operator.def_benchmark_data(benchmark_data.of(batched=_operator is csrmm_dt2t_p))
