# SPDX-License-Identifier: Apache-2.0
"""Systems of linear equations: sparse ones by SciPy on the host, dense ones by JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import MathError, ShapeError
from ..structure import as_array

__all__ = ["solved", "solved_dense"]

_ORDERS = {0: "NATURAL", 1: "COLAMD", 2: "MMD_AT_PLUS_A"}


def solved(matrix: Any, b: Any, tol: Any, reorder: Any) -> Any:
    """Return the solution for a matrix in compressed rows or columns."""
    where = f"{type(matrix).__name__}.solve"
    (numbers, unit), (b, unit_of_b) = units.split(matrix.data), units.split(b)
    b = _checked_b(where, matrix.shape, b, numbers.dtype)
    if reorder not in _ORDERS:
        raise ValueError(f"{where}: reorder is {reorder!r}; pass 0, 1 or 2")
    if not float(tol) >= 0:
        raise ValueError(f"{where}: tol is {tol!r}; pass a number that is not negative")
    numbers = jnp.broadcast_to(numbers.astype(b.dtype), matrix.indices.shape)
    on_host = functools.partial(
        _on_host, where=where, by_columns=bool(matrix._axis), tol=float(tol), order=_ORDERS[reorder]
    )

    def product(x: Any) -> Any:
        return matrix._like(numbers).product(x, transpose=False)

    def solve(_: Any, b: Any, *, transposed: bool = False) -> Any:
        call = functools.partial(on_host, transposed=transposed)
        structure = (jax.lax.stop_gradient(numbers), matrix.indices, matrix.indptr)
        return jax.pure_callback(call, jax.ShapeDtypeStruct(b.shape, b.dtype), *structure, b, vmap_method="sequential")

    x = jax.lax.custom_linear_solve(product, b, solve, functools.partial(solve, transposed=True))
    return units.join(x, _quotient(unit_of_b, unit))


def _on_host(
    data: Any,
    indices: Any,
    indptr: Any,
    b: Any,
    *,
    where: str,
    by_columns: bool,
    transposed: bool,
    tol: float,
    order: str,
) -> np.ndarray:
    """Solve in float64; compressed rows are the compressed columns of the transposed matrix."""
    from scipy.sparse import csc_matrix  # type: ignore[import-untyped]
    from scipy.sparse.linalg import splu  # type: ignore[import-untyped]

    given = (np.array(data, np.float64), np.array(indices), np.array(indptr))
    matrix, wanted = csc_matrix(given, shape=(b.shape[0],) * 2), np.asarray(b, np.float64)
    matrix.sum_duplicates()
    transposed ^= not by_columns
    try:
        found = splu(matrix, permc_spec=order).solve(wanted, "T" if transposed else "N") if b.size else wanted
    except RuntimeError as error:
        raise np.linalg.LinAlgError(f"{where}: the matrix is singular") from error
    away = abs((matrix.T if transposed else matrix) @ found - wanted).max(initial=0)
    if not away <= tol * abs(wanted).max(initial=0):
        raise np.linalg.LinAlgError(
            f"{where}: the matrix is singular, or nearly: the result is off by {away:.1e}, and tol is {tol:g}"
        )
    return found.astype(b.dtype)


def solved_dense(data: Any, shape: tuple[int, int], b: Any, tol: Any, reorder: Any) -> Any:
    """Return the solution for a dense matrix."""
    (numbers, unit), (b, unit_of_b) = units.split(data), units.split(b)
    if tol is not None or reorder is not None:
        raise TypeError("Dense.solve: tol and reorder are for sparse matrices; leave them out")
    b = _checked_b("Dense.solve", shape, b, numbers.dtype)
    x = jnp.linalg.solve(numbers.astype(b.dtype), b)
    if not isinstance(x, jax.core.Tracer) and not jnp.isfinite(x).all() and jnp.isfinite(b).all():
        raise np.linalg.LinAlgError("Dense.solve: the matrix is singular")
    return units.join(x, _quotient(unit_of_b, unit))


def _checked_b(where: str, shape: tuple[int, int], b: Any, dtype: Any) -> jax.Array:
    if shape[0] != shape[1]:
        raise ShapeError(f"{where}: the matrix has shape {shape}; pass a square one")
    b = as_array(b)
    if jnp.issubdtype(b.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: b is {b.dtype}; pass real numbers")
    if b.ndim not in (1, 2):
        raise MathError(f"{where}: b has shape {b.shape}; pass a vector, or a matrix of columns")
    if b.shape[0] != shape[0]:
        raise ShapeError(f"{where}: b has shape {b.shape}; its first axis must be {shape[0]}")
    return b.astype(jnp.result_type(b.dtype, dtype))


def _quotient(unit: Any, by: Any) -> Any:
    return unit if by is None else by**-1 if unit is None else unit / by
