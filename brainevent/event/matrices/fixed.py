# SPDX-License-Identifier: Apache-2.0
"""The same number of elements in each row, `FixedNumPerPre`, or in each column, `FixedNumPerPost`: no `indptr`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..._documented import documented
from ...typing import ArrayLike, IndexLike, PyTree
from .. import entries
from .. import random as connectivity
from ..fixed.format import FIXED
from ..operands import is_scipy
from ..room import check_room
from ..saved import register_pair
from ..structure import (
    are_known,
    are_sorted,
    as_indices,
    check_indices,
    checked_count,
    checked_indptr,
    checked_shape,
    checked_weights,
    known_on_host,
    narrow,
)
from .by_format import ByFormat, build_weight_indices, precompute_weight_indices
from .conversions import checked_dense, parts
from .csc import CSC
from .csr import CSR
from .indexing import chosen_rows

__all__ = ["FixedNumConn", "FixedNumPerPost", "FixedNumPerPre"]


_made = documented(entries.STORED, returns="The matrix.")
_converted = documented(
    {**entries.STORED, "num_conn": "How many elements each slice stores; None for the number that all have."},
    {
        "ValueError": "If slices have different numbers of elements and `num_conn` is None, or more than `num_conn`.",
    },
    "The matrix.",
)


@documented(entries.STORED, entries.OF_STORED)
class FixedNumConn(ByFormat):
    """A matrix whose slices along one axis all store the same number of elements: the base of two formats.

    Args:
        data: Floating weights, in the shape of `indices`, or one weight for all; or both arrays in a tuple.
        indices: Where the elements of slice i lie, `indices[i]`, int32 or int64, (slices, c).
        indices_sorted: Whether the indices of each slice are known to ascend; None to look.

    Raises:
        ValueError: If concrete indices are out of range, or the number of slices does not fit the shape.
    """

    indices: jax.Array
    _structure, _format = ("indices",), FIXED
    _ranks = (2,)
    precompute_weight_indices, build_weight_indices = precompute_weight_indices, build_weight_indices
    _of_values = {"named": "weights", "unit_of_y": True}  # noqa: RUF012
    _called = ("fcnmv_dt2t", "fcnmm_dt2t")
    _compressed: ClassVar[type[CSR] | type[CSC]]

    def __init__(
        self,
        data: Any,
        indices: Any = None,
        *,
        shape: Sequence[int] | None = None,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        check_structure: bool = True,
        indices_sorted: bool | None = None,
        indices_within: bool | None = None,
        precompute_weight_indices: bool = False,
    ) -> None:
        where = type(self).__name__
        if indices is None:
            data, indices = parts(where, data, ("data", "indices"))
        size = checked_shape(where, shape)
        slices, bound = size[self._axis], size[1 - self._axis]
        indices = as_indices(indices)
        if check_structure:
            check_indices(where, "indices", indices, bound, ndim=2)
            if indices.shape[0] != slices:
                raise ValueError(
                    f"{where}: indices has shape {indices.shape}; for shape={size} it must have {slices} rows, one "
                    f"for each {'post' if self._axis else 'pre'}synaptic neuron"
                )
        if indices_sorted is None:
            indices_sorted = check_structure and are_sorted(indices)
        if indices_within is None:
            indices_within = check_structure and are_known(indices) and not buffers
        numbers, unit = units.split(data)
        data = units.join(checked_weights(where, numbers, indices.shape), unit)
        structure = (narrow(where, "indices", indices, bound),)
        self._hold(data, structure, size, backend, buffers, in_order=indices_sorted, within=indices_within)
        if precompute_weight_indices:
            self.precompute_weight_indices()

    @classmethod
    @_made
    def random(
        cls,
        shape: Sequence[int],
        num_conn: int,
        *,
        weights: ArrayLike | Callable[..., ArrayLike] = 1.0,
        seed: int | None = None,
        backend: str | None = None,
    ) -> Self:
        """Connect each neuron to `num_conn` different ones at random, all equally likely.

        Args:
            num_conn: How many elements each slice has.
            weights: A number for all, or a function of a key and a shape, such as `jax.random.normal`.
            seed: An integer; None for a new one.

        Raises:
            ValueError: If `num_conn` is out of range.
        """
        size = checked_shape(f"{cls.__name__}.random", shape)
        start = connectivity.checked_seed(seed)
        indices = connectivity.fixed_rows(size[cls._axis], size[1 - cls._axis], num_conn, start)
        data = connectivity.drawn_weights(weights, indices.shape, start)
        # device_put keeps the memory that was drawn into, on a CPU; asarray would copy it.
        known: dict[str, Any] = {"check_structure": False, "indices_sorted": True, "indices_within": True}
        return cls(data, jax.device_put(indices), shape=size, backend=backend, **known)

    @classmethod
    @_converted
    def fromdense(cls, mat: ArrayLike, *, num_conn: int | None = None, backend: str | None = None) -> Self:
        """Store the nonzero elements of a dense matrix.

        All slices must have the same number of them, or at most `num_conn`: then they are filled up with weights of
        zero.

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the size of the result is unknown.
        """
        mat = checked_dense(cls.__name__, mat)
        known_on_host(f"{cls.__name__}.fromdense", units.split(mat)[0])
        return cls.fromsparse(cls._compressed.fromdense(mat, backend=backend), num_conn=num_conn)

    @classmethod
    @_converted
    def fromscipy(cls, matrix: PyTree, *, num_conn: int | None = None) -> Self:  # type: ignore[override]
        """Convert a sparse matrix or array of SciPy, under the conditions of `fromdense`.

        Args:
            matrix: A sparse matrix or array of `scipy.sparse`, in any format.
        """
        return cls.fromsparse(matrix, num_conn=num_conn)

    @classmethod
    @_converted
    def fromsparse(cls, matrix: PyTree, *, num_conn: int | None = None) -> Self:
        """Convert a sparse matrix of another format, or of SciPy, under the conditions of `fromdense`.

        Args:
            matrix: A matrix of this package, or of `scipy.sparse`.

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the size of the result is unknown.
        """
        where = cls.__name__
        matrix = cls._compressed(matrix) if is_scipy(matrix) else matrix
        cut = matrix.tocsc() if cls._axis else matrix.tocsr()
        indptr, indices = known_on_host(where, cut.indptr, cut.indices)
        counts = np.diff(indptr)
        number = int(counts.max(initial=0)) if num_conn is None else checked_count(where, "num_conn", num_conn)
        if num_conn is None and (counts != number).any():
            raise ValueError(
                f"{where}: from {counts.min()} to {counts.max()} elements a {'column' if cls._axis else 'row'}; "
                f"pass num_conn={counts.max()}, to fill up with weights of zero"
            )
        if (counts > number).any() or number < 0:
            raise ValueError(
                f"{where}: num_conn is {number}, but there are up to {counts.max(initial=0)} elements; pass that"
            )
        each = indices.itemsize + (0 if cut.data.size == 1 else cut.dtype.itemsize)
        check_room(where, f"{counts.size} x {number} elements", counts.size * number * each, on_host=True)
        if cut.data.size == 1 and (counts == number).all():
            data = cut.data
        else:
            numbers, unit = units.split(cut.data)
            flat = jnp.broadcast_to(numbers, indices.shape)
            data = units.join(jnp.zeros((counts.size, number), flat.dtype).at[_slots(indptr)].set(flat), unit)
        places = np.zeros((counts.size, number), indices.dtype)
        places[_slots(indptr)] = indices
        ordered = cut.indices_sorted and bool((counts == number).all())
        known = {**cut._kept, "indices_within": cut.indices_within and bool((counts == number).all() or matrix.size)}
        return cls._of(data, (jnp.asarray(places),), matrix.shape, indices_sorted=ordered, **known)

    @property
    def num_pre(self) -> int:
        """The number of presynaptic neurons, which is that of rows."""
        return self.shape[0]

    @property
    def num_post(self) -> int:
        """The number of postsynaptic neurons, which is that of columns."""
        return self.shape[1]

    @property
    def num_conn(self) -> int:
        """The number of elements of each slice."""
        return int(self.indices.shape[1])

    def _cut(self) -> Any:
        """Return the same elements, in the same order, compressed."""
        slices, number = self.indices.shape
        indptr = checked_indptr(type(self).__name__, np.arange(slices + 1, dtype=np.int64) * number, slices * number)
        structure = (self.indices.reshape(-1), indptr)
        return self._compressed._of(self._flat(), structure, self.shape, **self._shared)

    def _sorted_places(self) -> Any:
        return self._cut()._sorted_places()

    def _by_rows(self) -> Any:
        return self._cut()._by_rows()

    def _updated(self, post: bool, *operands: Any) -> Any:
        if post ^ bool(self._axis):  # the neurons that spike are those in `indices`
            return self.with_data(self._as_stored(self._cut()._updated(post, *operands).data))
        return super()._updated(post, *operands)

    def _as_stored(self, data: Any) -> Any:
        numbers, unit = units.split(data)
        return units.join(numbers.reshape(self.indices.shape), unit)


def _slots(indptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slice of each element, and its place in the slice."""
    slices = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return slices, np.arange(indptr[-1]) - indptr[slices]


@register_pair
@documented(entries.STORED, entries.OF_STORED)
class FixedNumPerPre(FixedNumConn):
    """A matrix in which each presynaptic neuron has c connections: `indices`, (m, c), are their columns.

    `x @ matrix` reads only the connections of neurons that spiked, `matrix @ x` all.

    Args:
        data: Floating weights, (m, c), or one weight for all elements.
        indices: The columns of the elements of each row, int32 or int64, (m, c).
        indices_sorted: Whether the columns of each row are known to ascend; None to look.

    Raises:
        ValueError: If concrete indices are out of range, or do not have m rows.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.FixedNumPerPre((1.5, jnp.array([[0, 2], [1, 2]])), shape=(2, 3))
        >>> jnp.array([True, True]) @ matrix
        Array([1.5, 1.5, 3. ], dtype=float32)
        >>> matrix.num_pre, matrix.num_post, matrix.num_conn, matrix.tocsr()
        (2, 3, 2, CSR(float32[2, 3], nse=4))
        >>> brainevent.FixedNumPerPre.random((100, 50), 10, seed=0).build_weight_indices()
        FixedNumPerPre(float32[100, 50], nse=1000)
        >>> brainevent.FixedNumPerPre.fromdense(jnp.eye(3), num_conn=2).precompute_weight_indices().nse
        6
        >>> brainevent.FixedNumPerPre.fromsparse(brainevent.CSR.fromdense(jnp.eye(3))).nse
        3
        >>> import numpy as np, scipy.sparse
        >>> brainevent.FixedNumPerPre.fromscipy(scipy.sparse.eye_array(3, dtype=np.float32))
        FixedNumPerPre(float32[3, 3], nse=3)
    """

    _axis = 0
    _compressed = CSR

    def slice_rows(self, index: IndexLike | slice) -> FixedNumPerPre:
        chosen = chosen_rows("FixedNumPerPre.slice_rows", index, self.shape[0])
        numbers, unit = units.split(self.data)
        if numbers.size != 1 or not are_known(chosen):  # rows that are out of range get weights of zero
            weights = jnp.broadcast_to(numbers, self.indices.shape)
            numbers = jnp.take(weights, chosen, axis=0, mode="fill", fill_value=0)
        structure = (jnp.take(self.indices, chosen, axis=0, mode="clip"),)
        how: dict[str, Any] = {**self._kept, "indices_sorted": self.indices_sorted}
        return FixedNumPerPre._of(units.join(numbers, unit), structure, (chosen.size, self.shape[1]), **how)

    def tocsr(self) -> CSR:
        return self._cut()


@register_pair
@documented(entries.STORED, entries.OF_STORED)
class FixedNumPerPost(FixedNumConn):
    """A matrix in which each postsynaptic neuron has c connections: `indices`, (k, c), are their rows.

    `matrix @ x` reads only the connections of neurons that spiked, `x @ matrix` all.

    Args:
        data: Floating weights, (k, c), or one weight for all elements.
        indices: The rows of the elements of each column, int32 or int64, (k, c).
        indices_sorted: Whether the rows of each column are known to ascend; None to look.

    Raises:
        ValueError: If concrete indices are out of range, or do not have k rows.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.FixedNumPerPost((1.5, jnp.array([[0, 1], [0, 1], [1, 0]])), shape=(2, 3))
        >>> matrix @ brainevent.BinaryArray(jnp.array([True, False, True]))
        Array([3., 3.], dtype=float32)
        >>> matrix.slice_rows([1]).tocsc(), matrix.tocsr()
        (CSC(float32[1, 3], nse=3), CSR(float32[2, 3], nse=6))
    """

    _axis = 1
    _compressed = CSC

    def tocsr(self) -> CSR:
        return self._cut().tocsr()

    def tocsc(self) -> CSC:
        return self._cut()


FixedNumPerPre._turned_class, FixedNumPerPost._turned_class = FixedNumPerPost, FixedNumPerPre
