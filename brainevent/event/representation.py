# SPDX-License-Identifier: Apache-2.0
"""What all forms of events share: they stand in products where an array of numbers could."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import MathError, ShapeError
from . import units
from .activity import is_active
from .operands import is_scipy

__all__ = ["EventRepresentation", "numbers_of", "split_operand"]


def numbers_of(x: Any) -> jax.Array:
    """Return the array within events or a quantity, or x as an array."""
    return jnp.asarray(units.split(x.value if isinstance(x, EventRepresentation) else x)[0])


def split_operand(x: Any, *, event: bool) -> tuple[Any, Any]:
    """Return the numbers of an operand, and their unit; of events that are taken as numbers, which are active."""
    if not isinstance(x, EventRepresentation):
        return units.split(x)
    numbers, unit = units.split(x.value)
    return numbers if event else is_active(numbers), unit


class EventRepresentation(ABC):
    """Events in some form: `value` is an array of them, of which every element that is True or not zero is one.

    `events @ matrix` and `matrix @ events` visit only the weights of who is active. Indexing and iterating give arrays.
    """

    __array_ufunc__ = None  # so that NumPy leaves `array @ events` to us

    @property
    @abstractmethod
    def value(self) -> Any:
        """The events as an array, or as a quantity."""

    @abstractmethod
    def with_value(self, value: Any) -> EventRepresentation:
        """Return other events in this form."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `value`."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The type of the elements of `value`."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, events or not."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(f"{type(self).__name__}: events without a dimension have no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(units.split(self.value)[0], dtype, copy=copy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __matmul__(self, matrix: Any) -> Any:
        """Sum the rows of who is active: (k,) or (n, k) events, and a matrix (k, m) -> (m,) or (n, m)."""
        if is_scipy(matrix):  # which would take the events as numbers
            raise TypeError(
                f"{type(self).__name__} @ {type(matrix).__name__}: SciPy does not know events; "
                "make a matrix of ours once, with brainevent.CSR.fromscipy"
            )
        if not _is_array(matrix):
            return NotImplemented  # a sparse matrix has a product with events of its own
        events = self._operand(matrix, f"{type(self).__name__} @ weights")
        from .dense.product import dense_product  # when used: the operators are loaded with it

        if self.ndim == 1:
            return dense_product(matrix, *units.split(events), 1, transpose=True)
        return dense_product(matrix, *units.split(events.T), 2, transpose=True).T

    def __rmatmul__(self, matrix: Any) -> Any:
        """Sum the columns of who is active: a matrix (m, k), and (k,) or (k, n) events -> (m,) or (m, n)."""
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
        from .dense.product import dense_product

        return dense_product(matrix, *units.split(events), self.ndim, transpose=False)

    def _operand(self, matrix: Any, where: str) -> Any:
        """Return the events for a product with an array, if there is such a product."""
        if self.ndim not in (1, 2):
            raise MathError(f"{where}: the events have shape {self.shape}; pass a vector or a matrix of events")
        if matrix.ndim != 2:
            raise ShapeError(f"{where}: the weights have shape {tuple(matrix.shape)}; pass a matrix, of two dimensions")
        return self.value


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, np.ndarray)) or units.is_quantity(x)
