# SPDX-License-Identifier: Apache-2.0
"""`matrix @ x` and `x @ matrix`, for every format."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import MathError, ShapeError
from ...typing import EventLike
from ..operands import is_scipy
from ..representation import EventRepresentation
from .arithmetic import Arithmetic

__all__ = ["Products"]


class Products(Arithmetic):
    """The operator `@` of matrices."""

    def product(self, x: EventLike, *, transpose: bool) -> jax.Array:
        """Return `self @ x`, or `x @ self` if `transpose`.

        Args:
            x: Events, booleans or real numbers, (k,) or (k, n); (m,) or (n, m) if `transpose`.
            transpose: Whether `x` stands on the left.

        Returns:
            The product, (m,) or (m, n); (k,) or (n, k) if `transpose`. A quantity if an operand has a unit.

        Raises:
            TypeError: If `x` is complex.
            ShapeError: If the length of `x` does not fit.
            MathError: If `x` has neither one dimension nor two.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
            >>> matrix.product(jnp.array([True, False]), transpose=True)
            Array([1., 0., 2.], dtype=float32)
        """
        graded = isinstance(x, EventRepresentation) and x.graded
        numbers, event = _unpacked(x)
        if jnp.issubdtype(numbers.dtype, jnp.complexfloating):
            raise TypeError(f"{type(self).__name__}: x is {numbers.dtype}; pass booleans, integers or real numbers")
        length = self.shape[0] if transpose else self.shape[1]
        formula = f"x @ {type(self).__name__}{self.shape}" if transpose else f"{type(self).__name__}{self.shape} @ x"
        if numbers.ndim not in (1, 2):
            raise MathError(f"{formula}: x has shape {numbers.shape}; pass a vector or a matrix")
        columns = numbers.T if transpose else numbers
        if columns.shape[0] != length:
            axis = "last" if transpose else "first"
            raise ShapeError(f"{formula}: x has shape {numbers.shape}; its {axis} axis must be {length}")
        if not event and not jnp.issubdtype(numbers.dtype, jnp.inexact):
            columns = columns.astype(self.dtype)
        if graded:
            found = self._multiply_values(columns, transpose=transpose)
        else:
            found = self._multiply(columns, transpose=transpose, event=event)
        return found.T if transpose else found

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, Products) or is_scipy(x):
            raise NotImplementedError(
                f"{type(self).__name__} @ {type(x).__name__}: no product of two such matrices; "
                "multiply by .todense() of one"
            )
        return self.product(x, transpose=False)

    def __rmatmul__(self, x: Any) -> Any:
        return self.product(x, transpose=True)


def _unpacked(x: Any) -> tuple[Any, bool]:
    """Return an operand's array or quantity, and whether its elements count as events: booleans always do."""
    if isinstance(x, EventRepresentation):
        return x.value, not x.graded
    if isinstance(x, np.ndarray) or not hasattr(x, "ndim"):
        x = jnp.asarray(x)
    return x, x.dtype == bool
