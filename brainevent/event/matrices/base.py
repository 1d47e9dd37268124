# SPDX-License-Identifier: Apache-2.0
"""The base class of matrices: what all formats offer, in terms of the few methods that each format defines.

Its methods call functions of this folder: arithmetic, products, rows, conversions. A matrix is a pytree (`views.py`).
"""

from __future__ import annotations

import importlib
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax

from ... import _units as units
from ... import config
from ..._names import LAZY
from ...errors import UnknownBufferError
from ...typing import ArrayLike, EventLike, IndexLike, PyTree
from ..beside_units import check_no_operand_of_a_unit, with_sparse_class
from ..operands import is_scipy
from ..structure import checked_shape, checked_weights
from ..views import Views
from .arithmetic import dense_operand, factor_of, product_with, total
from .conversions import dense_array, format_named
from .indexing import rows_or_elements
from .shown import shown

if TYPE_CHECKING:
    from ...bench.plot.draw import Figure

__all__ = ["TURNED", "DataRepresentation"]

TURNED = ("turned_indices", "turned_indptr", "turned_perm")  # buffers: the structure cut along the other axis


class DataRepresentation(Views):
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

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type, for `isinstance` also one of the sparse matrices of the package of units, if that is loaded.

        Quantities ask for it, and leave `*` and `@` to such matrices.
        """
        check_no_operand_of_a_unit(
            type(self), "write matrix * unit, or 1 * unit / matrix, which are matrices with the unit"
        )
        return with_sparse_class(type(self))

    def __reduce__(self) -> Any:
        """Make pickle use the type; by default it refuses a `__class__` that is not the type."""
        return object.__new__, (type(self),), vars(self)

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
        flags = {"indices_sorted": in_order, "indices_within": within}
        parts = {"data": data, "shape": shape, "backend": backend, "_buffers": dict(buffers or {})}
        vars(self).update(zip(self._structure, structure, strict=True), **parts, **flags)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_buffers", ()):
            self.set_buffer(name, value)
            return
        if name in (*self._structure, "shape") and name in self.__dict__:  # the new value is not checked
            self._buffers = {key: array for key, array in self._buffers.items() if key not in TURNED}
            self.indices_sorted = self.indices_within = False
        object.__setattr__(self, name, value)

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

    # ---- buffers

    @property
    def buffers(self) -> dict[str, Any]:
        """The registered arrays, by name, in a new dictionary."""
        return dict(self._buffers)

    def register_buffer(self, name: str, value: PyTree = None) -> None:
        """Let an array travel with the matrix, as the attribute `name`; functions over leaves see floating ones.

        Args:
            name: The name of the attribute.
            value: An array, or a tree of arrays.

        Raises:
            ValueError: If the matrix has an attribute of this name.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.eye(2))
            >>> matrix.register_buffer("trace", jnp.zeros(2))
            >>> matrix.trace = jnp.ones(2)
            >>> matrix.T.trace
            Array([1., 1.], dtype=float32)
        """
        if name not in self._buffers and (name in self.__dict__ or hasattr(type(self), name)):
            raise ValueError(f"{type(self).__name__}: {name!r} is an attribute already; choose another name")
        self._buffers[name] = value
        self.indices_within &= name not in TURNED  # these are indices, too, and not checked

    def set_buffer(self, name: str, value: PyTree) -> None:
        """Replace a registered array.

        Args:
            name: The name of the attribute.
            value: An array, or a tree of arrays.

        Raises:
            UnknownBufferError: If no array of this name is registered.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.eye(2))
            >>> matrix.register_buffer("trace", jnp.zeros(2))
            >>> matrix.set_buffer("trace", jnp.ones(2))
            >>> matrix.trace
            Array([1., 1.], dtype=float32)
        """
        if name not in self._buffers:
            known = ", ".join(self._buffers) or "none"
            raise UnknownBufferError(
                f"{type(self).__name__}: no buffer {name!r}; register it first (registered: {known})"
            )
        self.register_buffer(name, value)

    def __getattr__(self, name: str) -> Any:
        """Return a buffer; Python finds all other attributes first."""
        try:
            return self.__dict__["_buffers"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    # ---- what it is

    @property
    def nse(self) -> int:
        """How many elements are stored, duplicates included."""
        return math.prod(self._stored)

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

    # ---- products

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
        return product_with(self, x, transpose=transpose)

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, DataRepresentation) or is_scipy(x):
            raise NotImplementedError(
                f"{type(self).__name__} @ {type(x).__name__}: no product of two such matrices; "
                "multiply by .todense() of one"
            )
        return product_with(self, x, transpose=False)

    def __rmatmul__(self, x: Any) -> Any:
        return product_with(self, x, transpose=True)

    def dt2t(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Multiply the value of each synapse with that of its row: `w[j] * y[row of j]`.

        Batches go through `jax.vmap`.

        Args:
            y_dim_arr: Real numbers, one for each row, (m,).
            w_dim_arr: Floating values in the shape of the stored elements, such as eligibility traces, or one number
                for all.

        Returns:
            The products, in the order of `data`. The unit is that of `w_dim_arr` alone; with rows or columns of equal
            length, and for drawn matrices, it is the product of both.

        Raises:
            ShapeError: If the shapes do not fit the matrix.
            TypeError: If `w_dim_arr` is not floating.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]]))
            >>> matrix.dt2t(jnp.array([10.0, 100.0]), matrix.data)
            Array([ 10.,  20., 400.], dtype=float32)
        """
        return self._per_synapse(y_dim_arr, w_dim_arr, of_columns=False)

    def dt2t_transposed(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Multiply the value of each synapse with that of its column: `w[j] * y[column of j]`.

        Args:
            y_dim_arr: Real numbers, one for each column, (k,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`, with the unit that `dt2t` gives them.

        Raises:
            ShapeError: If the shapes do not fit the matrix.
            TypeError: If `w_dim_arr` is not floating.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]]))
            >>> matrix.dt2t_transposed(jnp.array([1.0, 10.0, 100.0]), matrix.data)
            Array([  1., 200., 400.], dtype=float32)
        """
        return self._per_synapse(y_dim_arr, w_dim_arr, of_columns=True)

    def yw_to_w(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Return what `dt2t` does: its deprecated name.

        Args:
            y_dim_arr: Real numbers, one for each row, (m,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`.

        Examples:
            >>> import warnings
            >>> import jax.numpy as jnp, brainevent
            >>> with warnings.catch_warnings(action="ignore"):
            ...     brainevent.CSR.fromdense(2 * jnp.eye(2)).yw_to_w(jnp.array([1.0, 10.0]), 3.0)
            Array([ 3., 30.], dtype=float32)
        """
        _warn(type(self).__name__, "yw_to_w", "dt2t")
        return self.dt2t(y_dim_arr, w_dim_arr)

    def yw_to_w_transposed(self, y_dim_arr: ArrayLike, w_dim_arr: ArrayLike) -> jax.Array:
        """Return what `dt2t_transposed` does: its deprecated name.

        Args:
            y_dim_arr: Real numbers, one for each column, (k,).
            w_dim_arr: Floating values in the shape of the stored elements, or one number for all.

        Returns:
            The products, in the order of `data`.

        Examples:
            >>> import warnings
            >>> import jax.numpy as jnp, brainevent
            >>> with warnings.catch_warnings(action="ignore"):
            ...     brainevent.CSR.fromdense(2 * jnp.eye(2)).yw_to_w_transposed(jnp.array([1.0, 10.0]), 3.0)
            Array([ 3., 30.], dtype=float32)
        """
        _warn(type(self).__name__, "yw_to_w_transposed", "dt2t_transposed")
        return self.dt2t_transposed(y_dim_arr, w_dim_arr)

    # ---- arithmetic: factors keep the format, sums with others are arrays

    def __neg__(self) -> Any:
        return self._mapped("-", operator.neg)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        """Return the absolute values of what is stored; duplicates are not added up before."""
        return self._mapped("abs", abs)

    def __mul__(self, other: Any) -> Any:
        return self._times("*", operator.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._times("/", operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Any:
        """Divide by what is stored, and keep the format; duplicates are not added up before."""
        return self._times("/", lambda data, number: number / data, other)

    def __rfloordiv__(self, _: Any) -> Any:
        return NotImplemented  # quantities call this without asking whether it exists

    def __mod__(self, other: Any) -> Any:
        """Return the remainders of what is stored; duplicates are not added up before."""
        return self._times("%", operator.mod, other)

    def __rmod__(self, other: Any) -> Any:
        return self._times("%", lambda data, number: number % data, other)

    def __add__(self, other: Any) -> Any:
        return self._plus("+", operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._plus("+", lambda mine, theirs: theirs + mine, other)

    def __sub__(self, other: Any) -> Any:
        return self._plus("-", operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._plus("-", lambda mine, theirs: theirs - mine, other)

    def _mapped(self, sign: str, function: Callable[[Any], Any]) -> Any:
        """Return a function of the stored numbers, in the same format."""
        return self._like(function(self.data))

    def _times(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return a function of stored numbers and factors, in the same format."""
        return self.with_data(function(self.data, factor_of(self, sign, other)))

    def _plus(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return a function of all elements and those of another matrix or array."""
        return function(self.todense(), dense_operand(other))

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

    def diag_add(self, other: ArrayLike) -> DataRepresentation:
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
        found: DataRepresentation = self.tocsr().diag_add(other)
        return found

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
        return total(self, axis)

    # ---- rows and elements

    def __getitem__(self, rows: Any) -> Any:
        """Return dense rows: one for a number, several for a slice, a mask or a vector.

        `matrix[rows, columns]` is as for arrays: two vectors name the elements `(rows[i], columns[i])`.
        """
        return rows_or_elements(self, rows)

    def slice_rows(self, index: IndexLike | slice) -> DataRepresentation:
        """Return the matrix of chosen rows, in the order given.

        It is of the same class if that is `CSR`, `CSC`, `TCSR`, `Dense` or `FixedNumPerPre`, and else a `CSR`.

        Args:
            index: The rows: a slice, a mask, (m,), or numbers, (r,).

        Returns:
            The matrix, of shape (r, k).

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the size of the result is unknown, unless the matrix is
                a `Dense` or a `FixedNumPerPre`.
            IndexError: If a concrete row is out of range.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.eye(4)).slice_rows([2, 0])
            CSR(float32[2, 4], nse=2)
        """
        chosen: DataRepresentation = self.tocsr().slice_rows(index)
        return chosen

    # ---- the transposed matrix, and other formats

    @property
    def T(self) -> Any:  # noqa: N802
        """The transposed matrix, which shares all arrays."""
        return self.transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> DataRepresentation:
        """Return the transposed matrix, which shares all arrays.

        Args:
            axes: None or (1, 0), as for arrays.

        Returns:
            The transposed matrix, in the format that cuts it along the other axis.

        Raises:
            ValueError: If `axes` is anything else.
        """
        if axes is not None and tuple(axis % 2 for axis in axes) != (1, 0):
            raise ValueError(f"{type(self).__name__}.transpose: axes are {axes!r}; pass None, or (1, 0)")
        return self._transposed()

    def todense(self) -> jax.Array:
        """Return the matrix as a dense array; elements that are stored more than once are added up.

        Returns:
            The array, (m, k), or a quantity of it.

        Raises:
            MemoryError: If there is not enough memory for it.
        """
        return dense_array(self)

    def plot(self, **options: Any) -> Figure:
        """Draw the matrix, as `plot_weights` does: rows down, columns across; of a large one, means of blocks.

        Args:
            **options: What `plot_weights` takes, such as `title="Weights"`.

        Returns:
            The figure.

        Raises:
            ImportError: If matplotlib is not installed.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.eye(3)).plot(title="Weights").axes[0].get_xlabel()
            'target neuron'
        """
        return importlib.import_module(LAZY["plot_weights"]).plot_weights(self, **options)  # of a room above

    def tocsr(self) -> DataRepresentation:
        """Return the matrix in compressed sparse rows.

        Returns:
            A `CSR`: the matrix itself if it is one. Where elements change their places, the weights are a copy.

        Raises:
            NotImplementedError: If the class does not define it.
        """
        raise NotImplementedError

    def tocsc(self) -> DataRepresentation:
        """Return the matrix in compressed sparse columns.

        Returns:
            A `CSC`: the matrix itself if it is one. Where elements change their places, the weights are a copy.
        """
        return self.transpose().tocsr().transpose()

    def tocoo(self) -> DataRepresentation:
        """Return the matrix in coordinates.

        Returns:
            A `COO`: the matrix itself if it is one.
        """
        self._look(f"{type(self).__name__}.tocoo")
        return format_named("COO")._of(self._flat(), self._coordinates(), self.shape, **self._kept)

    def _flat(self) -> Any:
        return self.data if self.data.ndim < 2 else self.data.reshape(-1)

    # ---- what each format defines

    @property
    def _stored(self) -> tuple[int, ...]:
        """The shape of data that has one number for each stored element."""
        raise NotImplementedError

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

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool) -> Any:
        """Return w times the values of rows, or of columns."""
        raise NotImplementedError

    def _rows(self, chosen: jax.Array) -> Any:
        """Return dense rows; those that are out of range are zero."""
        return self.tocsr()._rows(chosen)


def _warn(kind: str, old: str, new: str) -> None:
    warnings.warn(f"{kind}.{old} is now called {kind}.{new}", DeprecationWarning, stacklevel=3)
