# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with matrices: the operands of products, factors and sums are checked and unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import MathError, ShapeError
from ..operands import is_scipy
from ..precision import precise
from ..representation import EventRepresentation
from ..structure import are_known

__all__ = ["dense_operand", "factor_of", "product_with", "total"]


def product_with(matrix: Any, x: Any, *, transpose: bool) -> Any:
    """Return `matrix @ x`, or `x @ matrix` if `transpose`."""
    graded = isinstance(x, EventRepresentation) and x.graded
    numbers, event = _unpacked(x)
    if jnp.issubdtype(numbers.dtype, jnp.complexfloating):
        raise TypeError(f"{type(matrix).__name__}: x is {numbers.dtype}; pass booleans, integers or real numbers")
    length = matrix.shape[0] if transpose else matrix.shape[1]
    formula = (
        f"x @ {type(matrix).__name__}{matrix.shape}" if transpose else f"{type(matrix).__name__}{matrix.shape} @ x"
    )
    if numbers.ndim not in (1, 2):
        raise MathError(f"{formula}: x has shape {numbers.shape}; pass a vector or a matrix")
    columns = numbers.T if transpose else numbers
    if columns.shape[0] != length:
        axis = "last" if transpose else "first"
        raise ShapeError(f"{formula}: x has shape {numbers.shape}; its {axis} axis must be {length}")
    if not event and not jnp.issubdtype(numbers.dtype, jnp.inexact):
        columns = columns.astype(matrix.dtype)
    if graded:
        found = matrix._multiply_values(columns, transpose=transpose)
    else:
        found = matrix._multiply(columns, transpose=transpose, event=event)
    return found.T if transpose else found


def _unpacked(x: Any) -> tuple[Any, bool]:
    """Return an operand's array or quantity, and whether its elements count as events: booleans always do."""
    if isinstance(x, EventRepresentation):
        return x.value, not x.graded
    if isinstance(x, np.ndarray) or not hasattr(x, "ndim"):
        x = jnp.asarray(x)
    return x, x.dtype == bool


def factor_of(matrix: Any, sign: str, other: Any) -> Any:
    """Return a factor as a scalar, or its elements at the places of stored elements."""
    if _is_matrix(other):
        return _of_same_structure(matrix, sign, other)
    if not isinstance(other, (int, float, Sequence)) and not hasattr(other, "shape"):
        return other  # a unit
    numbers, unit = units.split(other)
    shape = np.shape(numbers)
    if shape == matrix.shape and np.size(numbers) != 1:
        matrix._look(f"{type(matrix).__name__} {sign} array")
        numbers = jnp.asarray(numbers)[matrix._coordinates()].reshape(matrix._stored)
    elif np.size(numbers) == 1:
        numbers = numbers if shape == () else jnp.reshape(jnp.asarray(numbers), ())
    else:
        raise ValueError(
            f"{type(matrix).__name__}{matrix.shape} {sign} array of shape {shape}: pass a scalar, "
            f"or an array of the shape {matrix.shape}"
        )
    return units.join(numbers, unit)


def _of_same_structure(matrix: Any, sign: str, other: Any) -> Any:
    """Return the data of a matrix of the same structure, for a product of elements."""
    mine, theirs = ([getattr(x, name) for name in x._structure] for x in (matrix, other))
    if sign != "*" or type(matrix) is not type(other) or matrix.shape != other.shape or not _are_equal(mine, theirs):
        raise NotImplementedError(
            f"{type(matrix).__name__} {sign} {type(other).__name__}: not known to store elements in the same places; "
            "multiply by .todense() of the second"
        )
    if are_known(*mine):
        rows, columns = (np.asarray(x, np.int64) for x in matrix._coordinates())
        if np.unique(rows * matrix.shape[1] + columns).size < rows.size:
            raise NotImplementedError(
                f"{type(matrix).__name__} * {type(other).__name__}: some elements are stored more than once; "
                "multiply by .todense() of the second"
            )
    return other.data


def total(matrix: Any, axis: int | None) -> jax.Array:
    """Return the sum of the elements, all of them or along an axis."""
    matrix._look(f"{type(matrix).__name__}.sum")
    if axis is None and not matrix.indices_within:
        return matrix.sum(0).sum()
    if axis is None:
        numbers, unit = units.split(matrix.data)
        found = numbers.sum(dtype=precise(matrix.dtype)) * (matrix.nse if numbers.size == 1 else 1)
        return units.join(found.astype(matrix.dtype), unit)
    if axis not in (0, 1, -1, -2):
        raise ValueError(f"{type(matrix).__name__}.sum: axis is {axis!r}; pass 0, 1, or None for the sum of all")
    along = axis % 2
    ones = jnp.ones(matrix.shape[along], matrix.dtype)
    return matrix.product(ones, transpose=along == 0)


def _are_equal(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    """Say whether arrays are the same objects, or known to be equal."""
    return all(
        x is y or (are_known(x, y) and np.array_equal(np.asarray(x), np.asarray(y)))
        for x, y in zip(arrays, others, strict=True)
    )


def dense_operand(x: Any) -> Any:
    """Return the second operand of a sum, as an array if it is a sparse matrix."""
    if is_scipy(x):
        return x.toarray()
    return x.todense() if _is_matrix(x) else x


def _is_matrix(x: Any) -> bool:
    return hasattr(x, "_coordinates")
