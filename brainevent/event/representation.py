# SPDX-License-Identifier: Apache-2.0
"""`EventRepresentation`: events that stand in products where an array of numbers could."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .. import _units as units
from ..errors import MathError, ShapeError
from ..typing import ArrayLike
from .beside_units import BesideUnits
from .form import EventForm
from .operands import is_scipy

__all__ = ["EventRepresentation"]


class EventRepresentation(EventForm, BesideUnits):
    """Events that stand in products where an array could: the base class of all forms of events.

    `events @ matrix` and `matrix @ events` read only the weights of the neurons that spiked. Indexing and iterating
    give arrays.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> events = brainevent.BinaryArray(jnp.array([0.0, 2.0, 1.0]))
        >>> isinstance(events, brainevent.EventRepresentation), events.shape, events.dtype, events.ndim, events.size
        (True, (3,), dtype('float32'), 1, 3)
        >>> events.with_value(jnp.array([True, False])).value, events[1]
        (Array([ True, False], dtype=bool), Array(2., dtype=float32))
    """

    __array_ufunc__ = None  # so that NumPy leaves `array @ events` to us

    def __matmul__(self, matrix: Any) -> Any:
        """Sum the rows of active neurons: (k,) or (n, k) events, and a matrix (k, m) -> (m,) or (n, m)."""
        if is_scipy(matrix):  # which would take the events as numbers
            raise TypeError(
                f"{type(self).__name__} @ {type(matrix).__name__}: SciPy cannot multiply events; "
                "convert the matrix once, with brainevent.CSR.fromscipy"
            )
        if not _is_array(matrix):
            return NotImplemented  # sparse matrices have their own product with events
        events = self._operand(matrix, f"{type(self).__name__} @ weights")
        from .functions.dense import binary_densemm, binary_densemv  # loads the operators, so only when used

        if self.ndim == 1:
            return binary_densemv(matrix, events, transpose=True, weighted=self.graded)
        return binary_densemm(matrix, events.T, transpose=True, weighted=self.graded).T

    def __rmatmul__(self, matrix: Any) -> Any:
        """Sum the columns of active neurons: a matrix (m, k), and (k,) or (k, n) events -> (m,) or (m, n)."""
        if not _is_array(matrix):
            return NotImplemented
        where = f"weights @ {type(self).__name__}"
        events = self._operand(matrix, where)
        if units.is_quantity(events):
            # A quantity on the left hands over its numbers alone, so its unit would be lost.
            raise TypeError(
                f"{where}: the events have the unit {events.unit}, which a product from the left cannot keep; "
                "write events @ weights.T, or brainevent.binary_densemv(weights, events.value)"
            )
        from .functions.dense import binary_densemm, binary_densemv

        product = binary_densemv if self.ndim == 1 else binary_densemm
        return product(matrix, events, transpose=False, weighted=self.graded)

    def dot(self, matrix: ArrayLike) -> ArrayLike:
        """Return `events @ matrix`.

        Args:
            matrix: The matrix, (k, m), as an array, a quantity, or one of this package.

        Returns:
            The sums of its rows, (m,) or (n, m).

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.BinaryArray(jnp.array([0.0, 2.0])).dot(jnp.array([[1.0], [4.0]]))
            Array([4.], dtype=float32)
        """
        return self @ matrix

    def _operand(self, matrix: Any, where: str) -> Any:
        """Return the events for a product with an array; raise if their ranks do not fit."""
        if self.ndim not in (1, 2):
            raise MathError(f"{where}: the events have shape {self.shape}; pass a vector or a matrix of events")
        if matrix.ndim != 2:
            raise ShapeError(f"{where}: the weights have shape {tuple(matrix.shape)}; pass a matrix, of two dimensions")
        return self.value


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, np.ndarray)) or units.is_quantity(x)
