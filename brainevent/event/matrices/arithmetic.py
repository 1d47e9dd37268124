# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with the elements that a matrix stores: factors keep its format, sums with others are arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...typing import ArrayLike, PyTree
from ..operands import is_scipy
from ..precision import precise
from ..structure import are_known
from .attributes import Attributes

__all__ = ["Arithmetic"]


class Arithmetic(Attributes):
    """All operators of matrices but `@`."""

    def __neg__(self) -> Any:
        return self._like(-self.data)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        """Return the absolute values of what is stored; duplicates are not added up before."""
        return self._like(abs(self.data))

    def __mul__(self, other: Any) -> Any:
        return self.with_data(self.data * self._beside_data("*", other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.with_data(self.data / self._beside_data("/", other))

    def __rtruediv__(self, other: Any) -> Any:
        """Divide by what is stored, and keep the format; duplicates are not added up before."""
        return self.with_data(self._beside_data("/", other) / self.data)

    def __mod__(self, other: Any) -> Any:
        """Return the remainders of what is stored; duplicates are not added up before."""
        return self.with_data(self.data % self._beside_data("%", other))

    def __rmod__(self, other: Any) -> Any:
        return self.with_data(self._beside_data("%", other) % self.data)

    def apply2(self, other: PyTree, fn: Callable[[Any, Any], Any], *, reverse: bool = False) -> PyTree:
        """Return `fn(self, other)`, or `fn(other, self)` if `reverse`.

        Args:
            other: The other operand: a number, an array or a matrix.
            fn: A function of both, such as `operator.add`.
            reverse: Whether the matrix is the second argument.

        Returns:
            What `fn` returns.

        Examples:
            >>> import operator
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.array([[0.0, 4.0]])).apply2(8.0, operator.truediv, reverse=True).data
            Array([2.], dtype=float32)
        """
        return fn(other, self) if reverse else fn(self, other)

    def __add__(self, other: Any) -> Any:
        return self.todense() + _dense(other)

    def __radd__(self, other: Any) -> Any:
        return _dense(other) + self.todense()

    def __sub__(self, other: Any) -> Any:
        return self.todense() - _dense(other)

    def __rsub__(self, other: Any) -> Any:
        return _dense(other) - self.todense()

    def diag_add(self, other: ArrayLike) -> Arithmetic:
        """Add a diagonal matrix.

        The sum is of the same class if that is `CSR`, `CSC` or `Dense`, and else a `CSR`. If it is sparse, its indices
        ascend, and diagonal elements that were not stored are stored. Under `jax.jit` an element is added to each row,
        with weight zero where the diagonal is stored already.

        Args:
            other: A number, or a number for each element of the diagonal, (min(m, k),).

        Returns:
            The sum.

        Raises:
            ShapeError: If the diagonal has another length.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 4.0]]))
            >>> matrix.diag_add(1.0), jnp.asarray(matrix.diag_add(jnp.array([1.0, 10.0])).todense())
            (CSR(float32[2, 2], nse=4), Array([[ 1.,  2.],
                   [ 3., 14.]], dtype=float32))
        """
        found: Arithmetic = self.tocsr().diag_add(other)
        return found

    def _beside_data(self, sign: str, other: Any) -> Any:
        """Return a factor as a scalar, or its elements at the places of stored elements."""
        if isinstance(other, Arithmetic):
            return self._of_same_structure(sign, other)
        if not isinstance(other, (int, float, Sequence)) and not hasattr(other, "shape"):
            return other  # a unit
        numbers, unit = units.split(other)
        shape = np.shape(numbers)
        if shape == self.shape and np.size(numbers) != 1:
            self._look(f"{type(self).__name__} {sign} array")
            numbers = jnp.asarray(numbers)[self._coordinates()].reshape(self._stored)
        elif np.size(numbers) == 1:
            numbers = numbers if shape == () else jnp.reshape(jnp.asarray(numbers), ())
        else:
            raise ValueError(
                f"{type(self).__name__}{self.shape} {sign} array of shape {shape}: pass a scalar, "
                f"or an array of the shape {self.shape}"
            )
        return units.join(numbers, unit)

    def _of_same_structure(self, sign: str, other: Any) -> Any:
        """Return the data of a matrix of the same structure, for a product of elements."""
        mine, theirs = ([getattr(x, name) for name in x._structure] for x in (self, other))
        if sign != "*" or type(self) is not type(other) or self.shape != other.shape or not _are_equal(mine, theirs):
            raise NotImplementedError(
                f"{type(self).__name__} {sign} {type(other).__name__}: not known to store elements in the same places; "
                "multiply by .todense() of the second"
            )
        if are_known(*mine):
            rows, columns = (np.asarray(x, np.int64) for x in self._coordinates())
            if np.unique(rows * self.shape[1] + columns).size < rows.size:
                raise NotImplementedError(
                    f"{type(self).__name__} * {type(other).__name__}: some elements are stored more than once; "
                    "multiply by .todense() of the second"
                )
        return other.data

    def sum(self, axis: int | None = None) -> jax.Array:
        """Sum the elements, all of them or along an axis.

        Args:
            axis: 0 for the sum of each column, 1 for that of each row, None for the sum of all elements.

        Returns:
            The sums, (k,), (m,) or (), or a quantity of them.

        Raises:
            ValueError: If the matrix has no such axis.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
            >>> matrix.sum(), matrix.sum(axis=1)
            (Array(6., dtype=float32), Array([3., 3.], dtype=float32))
        """
        self._look(f"{type(self).__name__}.sum")
        if axis is None and not self.indices_within:
            return self.sum(0).sum()
        if axis is None:
            numbers, unit = units.split(self.data)
            found = numbers.sum(dtype=precise(self.dtype)) * (self.nse if numbers.size == 1 else 1)
            return units.join(found.astype(self.dtype), unit)
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"{type(self).__name__}.sum: axis is {axis!r}; pass 0, 1, or None for the sum of all")
        along = axis % 2
        ones = jnp.ones(self.shape[along], self.dtype)
        return self.product(ones, transpose=along == 0)


def _are_equal(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    """Say whether arrays are the same objects, or known to be equal."""
    return all(
        x is y or (are_known(x, y) and np.array_equal(np.asarray(x), np.asarray(y)))
        for x, y in zip(arrays, others, strict=True)
    )


def _dense(x: Any) -> Any:
    if is_scipy(x):
        return x.toarray()
    return x.todense() if isinstance(x, Arithmetic) else x
