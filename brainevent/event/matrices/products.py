# SPDX-License-Identifier: Apache-2.0
"""`matrix @ x` and `x @ matrix`, for every format: the operand is checked and unpacked."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ...errors import MathError, ShapeError
from ..representation import EventRepresentation

__all__ = ["product_with"]


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
