# SPDX-License-Identifier: Apache-2.0
"""The base class of matrices: `@` both ways, arithmetic, rows, conversions; a matrix is a pytree, with its indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp

from ... import _units as units
from ... import config
from ...typing import ArrayLike
from ..structure import checked_shape, checked_weights
from ..views import Views
from .beside_quantities import BesideQuantities
from .buffers import TURNED, WithBuffers
from .conversions import Conversions
from .products import Products
from .rows import Rows
from .shown import shown

__all__ = ["DataRepresentation"]


class DataRepresentation(Views, WithBuffers, Products, Conversions, Rows, BesideQuantities):
    """A matrix held as data and as the indices that say where the data are: the base class of all formats.

    `matrix @ x` and `x @ matrix` take vectors and matrices: arrays, quantities and events. Matrices are pytrees whose
    leaves are the data, for `jax.tree.map`, `jax.grad` and optimizers; tangents of `jax.jvp` are matrices, too.
    Programs take indices as operands, so one jitted function takes different matrices of a shape. What `jax.tree.map`
    makes of a matrix shares its indices, so do not donate them to a program (`donate_argnums`). Elements that are
    stored more than once add up.

    Args:
        shape: The shape of the matrix, (m, k).
        buffers: Further arrays that travel with the matrix, by name.

    Attributes:
        data: The stored numbers.
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        indices_sorted: Whether the indices of each slice are known to ascend.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them.

    Raises:
        ValueError: If the shape does not have two sizes, or one is negative.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
        >>> matrix.nse, matrix.dtype, matrix.ndim, matrix.size, len(matrix)
        (3, dtype('float32'), 2, 6, 2)
        >>> matrix.with_data(jnp.ones(3)).apply(lambda data: 2 * data).block_until_ready().todense()
        Array([[2., 0., 2.],
               [0., 2., 0.]], dtype=float32)
        >>> matrix.T.tocsr(), matrix.transpose().tocsc(), matrix.tocoo()
        (CSR(float32[3, 2], nse=3), CSC(float32[3, 2], nse=3), COO(float32[2, 3], nse=3))
    """

    __array_ufunc__ = None  # NumPy's arrays leave `array @ matrix` to us
    __hash__ = object.__hash__

    # ---- made from its parts, as a pytree and with other data

    def __init__(self, *_: Any, shape: Sequence[int], buffers: Mapping[str, Any] | None = None) -> None:
        """Begin a matrix of a subclass of the user's, which holds its data itself."""
        self.shape, self.backend, self._buffers = checked_shape(type(self).__name__, shape), None, dict(buffers or {})
        self.indices_sorted = self.indices_within = False

    @classmethod
    def _of(
        cls,
        data: Any,
        structure: Sequence[Any],
        shape: tuple[int, int],
        *,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        indices_sorted: bool = False,
        indices_within: bool = True,
    ) -> Self:
        """Make a matrix of parts that need no check."""
        made = object.__new__(cls)
        made._hold(data, structure, shape, backend, buffers, in_order=indices_sorted, within=indices_within)
        return made

    def _hold(
        self,
        data: Any,
        structure: Sequence[Any],
        shape: tuple[int, int],
        backend: str | None,
        buffers: Mapping[str, Any] | None,
        *,
        in_order: bool = False,
        within: bool = True,
    ) -> None:
        self.data, self.shape, self.backend, self._buffers = data, shape, backend, dict(buffers or {})
        self.indices_sorted, self.indices_within = in_order, within
        for name, indices in zip(self._structure, structure, strict=True):
            setattr(self, name, indices)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (*self._structure, "shape") and name in self.__dict__:  # the new value is not checked
            self._buffers = {key: array for key, array in self._buffers.items() if key not in TURNED}
            self.indices_sorted = self.indices_within = False
        super().__setattr__(name, value)

    def with_data(self, data: ArrayLike) -> Self:
        """Return a matrix with the same structure and other data.

        Args:
            data: Floating numbers: one for all elements, or one for each, in the shape of `data`.

        Returns:
            The matrix, of the same class.

        Raises:
            TypeError: If the data are not floating.
            ShapeError: If the number of data is neither one nor that of the elements.
        """
        numbers, unit = units.split(data)
        weights = checked_weights(f"{type(self).__name__}.with_data", numbers, self._stored)
        return self._like(units.join(weights, unit))

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Return a matrix with the same structure and `fn(data)` as data.

        Elements that are stored more than once are not added up before.

        Args:
            fn: Takes the data, and returns data of the same shape.

        Returns:
            The matrix, of the same class.
        """
        return self.with_data(fn(self.data))

    def _like(self, data: Any) -> Self:
        structure = [getattr(self, name) for name in self._structure]
        return self._of(data, structure, self.shape, **self._shared)

    @property
    def _shared(self) -> dict[str, Any]:
        """Keyword arguments for a matrix of the same structure."""
        return {"buffers": self._buffers, "indices_sorted": self.indices_sorted, **self._kept}

    @property
    def _kept(self) -> dict[str, Any]:
        """Keyword arguments for a matrix of some of the elements, or of all in another order."""
        return {"backend": self.backend, "indices_within": self.indices_within}

    # ---- what it is

    @property
    def nse(self) -> int:
        """How many elements are stored, duplicates included."""
        return int(jnp.size(getattr(self, self._structure[0])))

    @property
    def dtype(self) -> Any:
        """The dtype of the data."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions: 2."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        dtype = getattr(self.data, "dtype", type(self.data).__name__)
        return f"{type(self).__name__}({dtype}{list(self.shape)}, nse={self.nse})"

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return shown(self)

    def block_until_ready(self) -> Self:
        """Wait until all arrays are computed.

        Returns:
            The matrix itself.
        """
        return jax.block_until_ready(self)

    # ---- what each format defines

    @property
    def _stored(self) -> tuple[int, ...]:
        """The shape of data that has one number for each stored element."""
        return jnp.shape(getattr(self, self._structure[0]))

    def _coordinates(self) -> tuple[jax.Array, jax.Array]:
        """Return the row and the column of each stored element."""
        raise NotImplementedError

    def _check_structure(self, where: str) -> None:
        """Raise, or let the program raise when it runs, if an index is out of range."""

    def _look(self, where: str) -> None:
        """Check the structure with `config.debug_indices`; functions that take indices check them themselves."""
        if config.is_debugging_indices():
            self._check_structure(where)

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        """Return `A @ x` or `A.T @ x`, for a vector or the columns of a matrix, of the right length."""
        raise NotImplementedError

    def _multiply_values(self, x: Any, *, transpose: bool) -> Any:
        """Return the product with events that count as their values, where zeros may be left out."""
        return self._multiply(x, transpose=transpose, event=False)

    def _transposed(self) -> DataRepresentation:
        """Return the transposed matrix, which shares all arrays."""
        raise NotImplementedError
