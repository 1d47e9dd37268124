# SPDX-License-Identifier: Apache-2.0
"""As many elements in each row, `FixedNumPerPre`, or in each column, `FixedNumPerPost`: so no `indptr` is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from .. import random as connectivity
from .. import units
from ..fixed.format import FIXED
from ..operands import is_scipy
from ..room import check_room
from ..saved import savable
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
from .base import DataRepresentation
from .build import checked_dense, parts
from .by_format import ByFormat
from .csr import CSC, CSR
from .indexing import chosen_rows

__all__ = ["FixedNumConn", "FixedNumPerPost", "FixedNumPerPre"]


class FixedNumConn(ByFormat, DataRepresentation):
    """A matrix cut along an axis into slices of as many elements: `indices[i]` are where those of slice i lie."""

    indices: jax.Array
    _structure, _format = ("indices",), FIXED
    _of_values = {"named": "weights", "unit_of_y": True}  # noqa: RUF012
    _called = (
        "update_fixed_post_conn_on_binary_pre",
        "update_fixed_pre_conn_on_binary_post",
        "fcnmv_dt2t",
        "fcnmm_dt2t",
    )
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
                    f"{where}: indices has shape {indices.shape}; the shape {size} says {slices} "
                    f"{'post' if self._axis else 'pre'} neurons, one for each row of indices"
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
    def random(
        cls,
        shape: Sequence[int],
        num_conn: int,
        *,
        weights: Any = 1.0,
        seed: int | None = None,
        backend: str | None = None,
    ) -> Self:
        """Connect each neuron to so many different ones, all as likely.

        `weights` is a number, or a function of a key and a shape like `jax.random.normal`.
        """
        size = checked_shape(f"{cls.__name__}.random", shape)
        start = connectivity.checked_seed(seed)
        indices = connectivity.fixed_rows(size[cls._axis], size[1 - cls._axis], num_conn, start)
        data = connectivity.drawn_weights(weights, indices.shape, start)
        # device_put keeps the memory that was drawn into, on a CPU; asarray would copy it.
        known: dict[str, Any] = {"check_structure": False, "indices_sorted": True, "indices_within": True}
        return cls(data, jax.device_put(indices), shape=size, backend=backend, **known)

    @classmethod
    def fromdense(cls, mat: Any, *, num_conn: int | None = None, backend: str | None = None) -> Self:
        """Make a matrix from what a dense one holds but zeros, outside of a trace.

        All slices must hold as many, or at most `num_conn`, to which they are then filled up with weights of zero.
        """
        mat = checked_dense(cls.__name__, mat)
        known_on_host(f"{cls.__name__}.fromdense", units.split(mat)[0])
        return cls.fromsparse(cls._compressed.fromdense(mat, backend=backend), num_conn=num_conn)

    @classmethod
    def fromscipy(cls, matrix: Any, *, num_conn: int | None = None) -> Self:  # type: ignore[override]
        """Make a matrix from any sparse matrix or array of SciPy, under the conditions of `fromdense`."""
        return cls.fromsparse(matrix, num_conn=num_conn)

    @classmethod
    def fromsparse(cls, matrix: Any, *, num_conn: int | None = None) -> Self:
        """Make a matrix from one of another format, or of SciPy, under the conditions of `fromdense`."""
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

    def precompute_weight_indices(self) -> Self:
        """Store where each element lies when the matrix is cut along the other axis, at 8 bytes an element.

        Then products with events visit only the elements of events in both directions, and use the same weights.
        """
        self._buffers.update(self._cut().precompute_weight_indices().buffers)
        return self

    def build_weight_indices(self) -> Self:
        """Return the same matrix with what `precompute_weight_indices` stores; this one stays as it is."""
        return self._like(self.data).precompute_weight_indices()

    @property
    def num_pre(self) -> int:
        """How many pre neurons there are: rows."""
        return self.shape[0]

    @property
    def num_post(self) -> int:
        """How many post neurons there are: columns."""
        return self.shape[1]

    @property
    def num_conn(self) -> int:
        """How many connections each neuron has, of pre or of post."""
        return int(self.indices.shape[1])

    def _cut(self) -> Any:
        """Return the same elements, in the same order, compressed."""
        slices, number = self.indices.shape
        indptr = checked_indptr(type(self).__name__, np.arange(slices + 1, dtype=np.int64) * number, slices * number)
        structure = (self.indices.reshape(-1), indptr)
        return self._compressed._of(self._flat(), structure, self.shape, **self._shared)

    def _by_rows(self) -> Any:
        return self._cut()._by_rows()

    def _updated(self, post: bool, *operands: Any) -> Any:
        if post ^ bool(self._axis):  # the neurons that spike are those of indices
            return self.with_data(self._as_stored(self._cut()._updated(post, *operands).data))
        return super()._updated(post, *operands)

    def _as_stored(self, data: Any) -> Any:
        numbers, unit = units.split(data)
        return units.join(numbers.reshape(self.indices.shape), unit)


@savable
@jax.tree_util.register_pytree_node_class
class FixedNumPerPre(FixedNumConn):
    """A matrix of shape (pre, post) in which each pre neuron has as many connections: `indices` are (pre, number).

    `x @ matrix` visits the connections of active pre neurons alone, `matrix @ x` all.
    It is made by `FixedNumPerPre((data, indices), shape=(pre, post))`.

    >>> import jax.numpy as jnp, brainevent
    >>> matrix = brainevent.FixedNumPerPre((1.5, jnp.array([[0, 2], [1, 2]])), shape=(2, 3))
    >>> jnp.array([True, True]) @ matrix
    Array([1.5, 1.5, 3. ], dtype=float32)
    """

    _axis = 0
    _compressed = CSR

    def _transposed(self) -> FixedNumPerPost:
        turned = (self.shape[1], self.shape[0])
        return FixedNumPerPost._of(self.data, (self.indices,), turned, **self._shared)

    def slice_rows(self, rows: Any) -> FixedNumPerPre:
        """Return the matrix of some of its rows, in the order given; in a trace, too.

        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.FixedNumPerPre((1.5, jnp.array([[0, 2], [1, 2]])), shape=(2, 3))
        >>> matrix.slice_rows([1]).todense()
        Array([[0. , 1.5, 1.5]], dtype=float32)
        """
        chosen = chosen_rows("FixedNumPerPre.slice_rows", rows, self.shape[0])
        numbers, unit = units.split(self.data)
        if numbers.size != 1 or not are_known(chosen):  # rows that there are not get weights of zero
            weights = jnp.broadcast_to(numbers, self.indices.shape)
            numbers = jnp.take(weights, chosen, axis=0, mode="fill", fill_value=0)
        structure = (jnp.take(self.indices, chosen, axis=0, mode="clip"),)
        how: dict[str, Any] = {**self._kept, "indices_sorted": self.indices_sorted}
        return FixedNumPerPre._of(units.join(numbers, unit), structure, (chosen.size, self.shape[1]), **how)

    def tocsr(self) -> CSR:
        """Return the matrix in compressed sparse rows."""
        return self._cut()


@savable
@jax.tree_util.register_pytree_node_class
class FixedNumPerPost(FixedNumConn):
    """A matrix of shape (pre, post) in which each post neuron has as many connections: `indices` are (post, number).

    `matrix @ x` visits the connections of active post neurons alone, `x @ matrix` all.
    It is made by `FixedNumPerPost((data, indices), shape=(pre, post))`.
    """

    _axis = 1
    _compressed = CSC

    def _transposed(self) -> FixedNumPerPre:
        turned = (self.shape[1], self.shape[0])
        return FixedNumPerPre._of(self.data, (self.indices,), turned, **self._shared)

    def slice_rows(self, rows: Any) -> CSR:
        """Do what `CSR.slice_rows` does; columns then have different numbers of elements, so the result is a `CSR`."""
        return self.tocsr().slice_rows(rows)

    def tocsr(self) -> CSR:
        """Return the matrix in compressed sparse rows."""
        return self._cut().tocsr()

    def tocsc(self) -> CSC:
        """Return the matrix in compressed sparse columns."""
        return self._cut()


def _slots(indptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slice of each element, and its place in that."""
    slices = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return slices, np.arange(indptr[-1]) - indptr[slices]
