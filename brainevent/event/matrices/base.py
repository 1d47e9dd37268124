# SPDX-License-Identifier: Apache-2.0
"""What all matrices share: `@` both ways, arithmetic, rows, conversions; each is a pytree, indices included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from ... import config
from ...errors import MathError, ShapeError
from .. import units
from ..operands import is_scipy
from ..precision import precise
from ..representation import EventRepresentation
from ..room import check_array
from ..structure import checked_shape, checked_weights
from .arithmetic import Arithmetic
from .beside_quantities import BesideQuantities
from .buffers import TURNED, WithBuffers
from .formats import format_named
from .indexing import from_start
from .refused_grad import refuse_jax_grad

__all__ = ["DataRepresentation", "unpacked"]


class DataRepresentation(WithBuffers, Arithmetic, BesideQuantities):
    """A matrix that is held as data, and as the indices that say where its data are.

    `matrix @ x` and `x @ matrix` take vectors and matrices: arrays, quantities and events. Matrices are pytrees whose
    leaves are data and indices, so that one jitted function takes different matrices of a shape. Elements that are
    stored more than once add up, and need no order.
    """

    data: Any
    shape: tuple[int, int]
    backend: str | None
    indices_sorted: bool  # whether those of each row, or of what else is cut, are known to ascend
    indices_within: bool  # whether all are known to be within range, so that kernels need not test them
    _structure: ClassVar[tuple[str, ...]] = ()  # the attributes that hold indices
    __array_ufunc__ = None  # NumPy's arrays leave `array @ matrix` to us
    __hash__ = object.__hash__

    # ---- made from its parts, as a pytree and with other data

    def __init__(self, *_: Any, shape: Sequence[int], buffers: Mapping[str, Any] | None = None) -> None:
        """Begin a matrix of a class that others define, which keeps its data itself."""
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
        """Make a matrix from what is known to be right."""
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
        if name in (*self._structure, "shape") and name in self.__dict__:  # nobody looked at what comes in its place
            self._buffers = {key: array for key, array in self._buffers.items() if key not in TURNED}
            self.indices_sorted = self.indices_within = False
        super().__setattr__(name, value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return data, indices and buffers; and what is static."""
        if self._structure:
            refuse_jax_grad(type(self).__name__)
        indices = (getattr(self, name) for name in self._structure)
        static = (self.shape, self.backend, self.indices_sorted, self.indices_within, tuple(self._buffers))
        return (self.data, *indices, *self._buffers.values()), static

    @classmethod
    def tree_unflatten(cls, static: Any, leaves: Sequence[Any]) -> Self:
        """Make the matrix again, of anything that JAX puts in the place of arrays."""
        shape, backend, *known, names = static
        data, *rest = leaves
        structure, values = rest[: len(cls._structure)], rest[len(cls._structure) :]
        how = dict(zip(("indices_sorted", "indices_within"), known, strict=True))
        return cls._of(data, structure, shape, backend=backend, buffers=dict(zip(names, values, strict=True)), **how)

    def with_data(self, data: Any) -> Self:
        """Return a matrix of the same structure with other data: one number, or one for each stored element."""
        numbers, unit = units.split(data)
        weights = checked_weights(f"{type(self).__name__}.with_data", numbers, self._stored)
        return self._like(units.join(weights, unit))

    def apply(self, function: Callable[[Any], Any]) -> Self:
        """Return a matrix of the same structure with `function(data)`; duplicates are not added up before."""
        return self.with_data(function(self.data))

    def _like(self, data: Any) -> Self:
        structure = [getattr(self, name) for name in self._structure]
        return self._of(data, structure, self.shape, **self._shared)

    @property
    def _shared(self) -> dict[str, Any]:
        """What a matrix of the same structure has, too."""
        return {"buffers": self._buffers, "indices_sorted": self.indices_sorted, **self._kept}

    @property
    def _kept(self) -> dict[str, Any]:
        """What a matrix of some of the same elements, or of all in another order, has, too."""
        return {"backend": self.backend, "indices_within": self.indices_within}

    # ---- what it is

    @property
    def nse(self) -> int:
        """How many elements are stored."""
        return int(jnp.size(getattr(self, self._structure[0])))

    @property
    def dtype(self) -> Any:
        """The type of the data."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Two, for a matrix."""
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

    def block_until_ready(self) -> Self:
        """Wait until all arrays are computed."""
        return jax.block_until_ready(self)

    # ---- what each format says of itself

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
        """Do so if `config.debug_indices` asks for it; functions of indices ask by themselves."""
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

    def tocsr(self) -> Any:
        """Return the matrix as a `CSR`."""
        raise NotImplementedError

    # ---- products

    def product(self, x: Any, *, transpose: bool) -> Any:
        """Return `self @ x`, or `x @ self` if `transpose`."""
        graded = isinstance(x, EventRepresentation) and x.graded
        x, event = unpacked(x)
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise TypeError(f"{type(self).__name__}: x is {x.dtype}; pass booleans, integers or real numbers")
        length = self.shape[0] if transpose else self.shape[1]
        formula = f"x @ {type(self).__name__}{self.shape}" if transpose else f"{type(self).__name__}{self.shape} @ x"
        if x.ndim not in (1, 2):
            raise MathError(f"{formula}: x has shape {x.shape}; pass a vector or a matrix")
        columns = x.T if transpose else x
        if columns.shape[0] != length:
            axis = "last" if transpose else "first"
            raise ShapeError(f"{formula}: x has shape {x.shape}; its {axis} axis must be {length}")
        if not event and not jnp.issubdtype(x.dtype, jnp.inexact):
            columns = columns.astype(self.dtype)
        if graded:
            found = self._multiply_values(columns, transpose=transpose)
        else:
            found = self._multiply(columns, transpose=transpose, event=event)
        return found.T if transpose else found

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, DataRepresentation) or is_scipy(x):
            raise NotImplementedError(
                f"{type(self).__name__} @ {type(x).__name__}: no product of two such matrices; "
                "multiply by .todense() of one"
            )
        return self.product(x, transpose=False)

    def __rmatmul__(self, x: Any) -> Any:
        return self.product(x, transpose=True)

    # ---- conversions

    @property
    def T(self) -> Any:  # noqa: N802
        """The transposed matrix, which shares all arrays."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> Any:
        """Return the transposed matrix, which shares all arrays; `axes` may be given as (1, 0), as for arrays."""
        if axes is not None and tuple(axis % 2 for axis in axes) != (1, 0):
            raise ValueError(f"{type(self).__name__}.transpose: axes are {axes!r}; pass None, or (1, 0)")
        return self._transposed()

    def todense(self) -> Any:
        """Return an array; elements that are stored more than once are added up."""
        self._look(f"{type(self).__name__}.todense")
        numbers, unit = units.split(self.data)
        sums = precise(numbers.dtype)
        check_array(f"{type(self).__name__}.todense", self.shape, sums)
        flat = jnp.broadcast_to(numbers, self._stored).reshape(-1).astype(sums)
        places: tuple[jax.Array, ...] = self._coordinates()
        if not self.indices_within:  # what is before the first row or column would be counted from the last
            places = tuple(jnp.where(x < 0, size, x) for x, size in zip(places, self.shape, strict=True))
        found = jnp.zeros(self.shape, sums).at[places].add(flat, mode="drop")
        return units.join(found.astype(numbers.dtype), unit)

    def tocsc(self) -> Any:
        """Return the matrix as a `CSC`."""
        return self.transpose().tocsr().transpose()

    def tocoo(self) -> Any:
        """Return the matrix as a `COO`."""
        self._look(f"{type(self).__name__}.tocoo")
        return format_named("COO")._of(self._flat(), self._coordinates(), self.shape, **self._kept)

    def _flat(self) -> Any:
        return self.data if self.data.ndim < 2 else self.data.reshape(-1)

    # ---- rows

    def __getitem__(self, rows: Any) -> Any:
        """Return dense rows: one for a number, several for a slice, a mask or a vector.

        `matrix[rows, columns]` is as for arrays: two vectors name the elements `(rows[i], columns[i])`.
        """
        if isinstance(rows, tuple):
            return self._elements(*rows)
        if isinstance(rows, slice):
            return self._rows(jnp.arange(*rows.indices(self.shape[0]), dtype=jnp.int32))
        chosen = from_start(type(self).__name__, "rows", rows, self.shape[0])
        found = self._rows(chosen.reshape(-1))
        return found[0] if chosen.ndim == 0 else found

    def _elements(self, rows: Any, columns: Any = None, *more: Any) -> Any:
        """Return what is in some rows and columns; zeros where there are none."""
        if columns is None or more:
            raise IndexError(f"{type(self).__name__}: a matrix has rows and columns; pass matrix[rows, columns]")
        found = self[rows]
        if isinstance(columns, slice):
            return found[..., columns]
        chosen = from_start(type(self).__name__, "columns", columns, self.shape[1])
        pairs = chosen.ndim == 1 and found.ndim == 2 and not isinstance(rows, slice)
        numbers, unit = units.split(found)
        places = (jnp.arange(found.shape[0]), chosen) if pairs else (..., chosen)
        return units.join(numbers.at[places].get(mode="fill", fill_value=0), unit)

    def _rows(self, chosen: jax.Array) -> Any:
        """Return dense rows; those that there are not are zero."""
        return self.tocsr()._rows(chosen)


def unpacked(x: Any) -> tuple[Any, bool]:
    """Return an operand's array or quantity, and whether its elements count as events: those of booleans always do."""
    if isinstance(x, EventRepresentation):
        return x.value, not x.graded
    if isinstance(x, np.ndarray) or not hasattr(x, "ndim"):
        x = jnp.asarray(x)
    return x, x.dtype == bool
