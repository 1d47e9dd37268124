# SPDX-License-Identifier: Apache-2.0
"""A dense matrix that takes events: `Dense`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..._documented import documented
from ...typing import ArrayLike, DTypeLike, IndexLike
from .. import entries
from ..dense.format import DENSE
from ..description import Description
from ..laws.updates import UPDATES
from ..operands import is_scipy
from ..plasticity.checked import fits
from ..precision import precise
from ..room import check_array
from ..saved import register_pair
from ..structure import checked_shape, checked_weights
from .base import DataRepresentation
from .by_format import ByFormat
from .conversions import format_named
from .diagonal import checked_diagonal
from .indexing import chosen_rows
from .solve import solved_dense

__all__ = ["Dense"]


@register_pair
@documented(entries.STORED)
class Dense(ByFormat):
    """A matrix that stores every element; products with events read only the rows, or columns, of events.

    Args:
        data: Floating weights, (m, k), or one weight for all elements of a `shape`; or a sparse matrix of SciPy.
        shape: The shape of the matrix, (m, k); None for that of the data.

    Raises:
        TypeError: If the data are not floating.
        ShapeError: If the data have another shape.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.Dense(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> jnp.array([False, True]) @ matrix
        Array([3., 4.], dtype=float32)
        >>> matrix.diag_add(10.0).todense()
        Array([[11.,  2.],
               [ 3., 14.]], dtype=float32)
        >>> matrix.tocsr(), brainevent.Dense.fromdense(jnp.eye(2)).tocoo()
        (CSR(float32[2, 2], nse=4), COO(float32[2, 2], nse=2))
    """

    _format = DENSE
    _called = ("Dense.dt2t", "Dense.dt2t")

    def __init__(
        self,
        data: Any,
        *,
        shape: Sequence[int] | None = None,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
    ) -> None:
        (data,) = data if isinstance(data, tuple) else (data,)
        if is_scipy(data):
            check_array("Dense", data.shape, data.dtype)
            data = data.toarray()
        numbers, unit = units.split(data)
        size = checked_shape("Dense", np.shape(numbers) if shape is None else shape)
        if np.size(numbers) == 1:
            check_array("Dense", size, getattr(numbers, "dtype", np.float32))
        weights = jnp.broadcast_to(checked_weights("Dense", numbers, size), size)
        self._hold(units.join(weights, unit), (), size, backend, buffers)

    @classmethod
    @documented(entries.STORED)
    def fromdense(
        cls, mat: ArrayLike, *, backend: str | None = None, buffers: Mapping[str, Any] | None = None
    ) -> Dense:
        """Make a matrix from an array.

        Returns:
            The matrix.

        Raises:
            TypeError: If the data are not floating.
        """
        return cls(mat, backend=backend, buffers=buffers)

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        if jnp.shape(units.split(self.data)[0]) != self.shape:  # a function over leaves changed it
            checked_weights("Dense", units.split(self.data)[0], self.shape)
        if not event:
            (weights, unit), (x, unit_of_x) = units.split(self.data), units.split(x)
            dtype = jnp.result_type(weights, x)
            weights, x = weights.astype(dtype), x.astype(dtype)
            # As exact as the products of the other formats: by default, GPUs round float32 to 10 bits.
            exact = {"precision": jax.lax.Precision.HIGHEST, "preferred_element_type": precise(dtype)}
            # XLA takes up to thirty times as long for weights.T @ x on a CPU.
            found = jnp.matmul(x.T, weights, **exact).T if transpose else jnp.matmul(weights, x, **exact)
            return units.join(found.astype(dtype), units.product(unit, unit_of_x))
        return super()._multiply(x, transpose=transpose, event=event)

    def _of_other_side(self) -> tuple[Description, Sequence[Any]]:
        return Description(DENSE, UPDATES, post=True), ()

    def with_data(self, data: ArrayLike) -> Dense:
        return Dense(data, shape=self.shape, backend=self.backend, buffers=self._buffers)

    def _transposed(self) -> Dense:
        return Dense._of(self.data.T, (), (self.shape[1], self.shape[0]), backend=self.backend, buffers=self._buffers)

    def todense(self) -> jax.Array:
        return self.data

    def _times(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, Dense):
            other = other.data
        elif not isinstance(other, DataRepresentation) and (np.ndim(units.split(other)[0]) or is_scipy(other)):
            other = other if units.is_quantity(other) or is_scipy(other) else jnp.asarray(other)
        else:
            return super()._times(sign, function, other)
        if not fits(np.shape(other), self.shape):
            raise ValueError(
                f"Dense{self.shape} {sign} array of shape {np.shape(other)}: the result would not be a Dense"
            )
        return self.with_data(function(self.data, other))

    def _plus(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Any:
        found = super()._plus(sign, function, other)
        return self.with_data(found) if np.shape(found) == self.shape else found

    def slice_rows(self, index: IndexLike | slice) -> Dense:
        chosen = chosen_rows("Dense.slice_rows", index, self.shape[0])
        return Dense(self._rows(chosen), backend=self.backend)

    def diag_add(self, other: ArrayLike) -> Dense:
        numbers, unit = units.split(self.data)
        along = np.arange(min(self.shape))
        added = checked_diagonal("Dense.diag_add", other, self.shape)
        found = numbers.at[along, along].add(jnp.asarray(units.numbers_in(added, unit), numbers.dtype))
        return self.with_data(units.join(found, unit))

    def solve(self, b: ArrayLike, tol: float | None = None, reorder: int | None = None) -> jax.Array:
        """Return x with `self @ x = b`.

        Under `jax.jit`, the result for a singular matrix is not finite.

        Args:
            b: Real numbers, (m,), or several right-hand sides as columns, (m, n).
            tol: Must be None; sparse formats use it.
            reorder: Must be None; sparse formats use it.

        Returns:
            x, in the shape of `b`.

        Raises:
            ShapeError: If the matrix is not square, or `b` has another length.
            numpy.linalg.LinAlgError: If the matrix is singular.
            TypeError: If `tol` or `reorder` is passed.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.Dense(jnp.array([[2.0, 0.0], [0.0, 4.0]])).solve(jnp.array([2.0, 2.0]))
            Array([1. , 0.5], dtype=float32)
        """
        return solved_dense(self.data, self.shape, b, tol, reorder)

    def tocsr(
        self, *, nse: int | None = None, index_dtype: DTypeLike = "auto", precompute_weight_indices: bool = False
    ) -> DataRepresentation:
        """Return the nonzero elements in compressed sparse rows.

        Args:
            nse: How many elements to store; needed under `jax.jit`.
            index_dtype: int32, int64, or "auto" for the smaller one that is large enough.
            precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

        Returns:
            A `CSR`.

        Raises:
            ValueError: If `nse` does not fit the matrix.
        """
        return self._stored_as("CSR", nse, index_dtype, precompute_weight_indices)

    def tocsc(
        self, *, nse: int | None = None, index_dtype: DTypeLike = "auto", precompute_weight_indices: bool = False
    ) -> DataRepresentation:
        """Return the nonzero elements in compressed sparse columns.

        Args:
            nse: How many elements to store; needed under `jax.jit`.
            index_dtype: int32, int64, or "auto" for the smaller one that is large enough.
            precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

        Returns:
            A `CSC`.

        Raises:
            ValueError: If `nse` does not fit the matrix.
        """
        return self._stored_as("CSC", nse, index_dtype, precompute_weight_indices)

    def _stored_as(self, name: str, nse: int | None, index_dtype: DTypeLike, turned: bool) -> DataRepresentation:
        how: dict[str, Any] = {"nse": nse, "index_dtype": index_dtype, "precompute_weight_indices": turned}
        return format_named(name).fromdense(self.data, backend=self.backend, **how)

    def tocoo(self) -> DataRepresentation:
        """Return the nonzero elements in coordinates.

        Returns:
            A `COO`.
        """
        return format_named("COO").fromdense(self.data, backend=self.backend)

    def _rows(self, chosen: jax.Array) -> Any:
        numbers, unit = units.split(self.data)
        return units.join(jnp.take(numbers, chosen, axis=0, mode="fill", fill_value=0), unit)
