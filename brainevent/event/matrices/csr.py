# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows, `CSR`, and columns, `CSC`: each is the other's transpose, with the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import ShapeError
from .. import random as connectivity
from .. import units
from ..csr.reference import row_of_each
from ..operands import is_scipy
from ..saved import savable
from ..structure import (
    are_known,
    are_sorted,
    as_indices,
    check_compressed,
    check_once,
    checked_indptr,
    checked_shape,
    checked_weights,
    known_on_host,
    looked_at,
    narrow,
)
from .base import DataRepresentation
from .buffers import TURNED
from .build import checked_dense, dense_elements, parts, pick
from .diagonal import with_diagonal
from .plastic import Plastic

__all__ = ["CSC", "CSR", "turned_product"]


class _Compressed(Plastic, DataRepresentation):
    """A matrix that is cut along an axis: `indptr` says where each slice begins, `indices` where its elements lie."""

    indices: jax.Array
    indptr: jax.Array
    _structure = ("indices", "indptr")
    _axis: ClassVar[int]  # that is cut

    def __init__(
        self,
        data: Any,
        indices: Any = None,
        indptr: Any = None,
        *,
        shape: Sequence[int] | None = None,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        indptr_dtype: Any = "auto",
        check_structure: bool = True,
        indices_sorted: bool | None = None,
        indices_within: bool | None = None,
        precompute_weight_indices: bool = False,
    ) -> None:
        where = type(self).__name__
        if is_scipy(data):
            found = data.tocsc() if self._axis else data.tocsr()
            data, indices, indptr, shape = found.data, found.indices, found.indptr, shape or found.shape
        elif indptr is None:
            data, indices, indptr = parts(where, data, ("data", "indices", "indptr"))
        size = checked_shape(where, shape)
        slices, bound = size[self._axis], size[1 - self._axis]
        indices, indptr = as_indices(indices), as_indices(indptr)
        if check_structure:
            check_compressed(where, indices, indptr, slices=slices, bound=bound)
        if indices_sorted is None:
            indices_sorted = check_structure and are_sorted(indices, indptr)
        if indices_within is None:
            indices_within = check_structure and are_known(indices, indptr) and not buffers
        numbers, unit = units.split(data)
        data = units.join(checked_weights(where, numbers, indices.shape), unit)
        indptr = checked_indptr(where, indptr, indices.shape[0], indptr_dtype)
        structure = (narrow(where, "indices", indices, bound), indptr)
        self._hold(data, structure, size, backend, buffers, in_order=indices_sorted, within=indices_within)
        if precompute_weight_indices:
            self.precompute_weight_indices()

    @classmethod
    def fromscipy(cls, matrix: Any, *, backend: str | None = None) -> Self:
        """Make a matrix from any sparse matrix or array of SciPy."""
        return cls(matrix, backend=backend)

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "auto",
        indptr_dtype: Any = "auto",
        backend: str | None = None,
        precompute_weight_indices: bool = False,
    ) -> Self:
        """Make a matrix from what a dense one holds but zeros; `nse` says how many to store, for use under `jit`."""
        where = cls.__name__
        mat = checked_dense(where, mat)
        data, *places = dense_elements(where, mat.T if cls._axis else mat, nse)
        slices, bound = mat.shape[cls._axis], mat.shape[1 - cls._axis]
        indptr = jnp.cumulative_sum(jnp.bincount(jnp.asarray(places[0]), length=slices), include_initial=True)
        made = cls._of(
            data,
            (
                narrow(where, "indices", places[1], bound, index_dtype),
                checked_indptr(where, indptr, data.size, indptr_dtype),
            ),
            mat.shape,
            backend=backend,
            indices_sorted=True,
        )
        if precompute_weight_indices:
            made.precompute_weight_indices()
        return made

    def precompute_weight_indices(self) -> Self:
        """Store where each element lies when the matrix is cut along the other axis, at 8 bytes an element.

        Then products with events visit only the elements of events in both directions, and use the same weights.
        """
        from ..csr.functions import csr_to_csc_index

        indptr, indices, perm = csr_to_csc_index(self.indptr, self.indices, shape=self._sliced_shape)
        self._buffers.update(zip(TURNED, (indices, indptr, perm), strict=True))
        return self

    @property
    def _sliced_shape(self) -> tuple[int, int]:
        return (self.shape[1], self.shape[0]) if self._axis else self.shape

    def _check_structure(self, where: str) -> None:
        slices, bound = self._sliced_shape
        check_once(check_compressed, where, self.indices, self.indptr, slices=slices, bound=bound)

    def _coordinates(self) -> tuple[jax.Array, jax.Array]:
        slices = row_of_each(self.indptr, self.nse)
        return (self.indices, slices) if self._axis else (slices, self.indices)

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        from ..csr import functions

        matrix = x.ndim == 2
        shape, across = self._sliced_shape, transpose ^ bool(self._axis)
        multiply: Callable[..., Any]
        if not event:
            multiply = functions.csrmm if matrix else functions.csrmv
        elif across or TURNED[0] not in self._buffers:
            multiply = functions.binary_csrmm if matrix else functions.binary_csrmv
        else:
            return turned_product(self.data, self._buffers, x, shape=shape[::-1], backend=self.backend)
        how: dict[str, Any] = {"transpose": across, "indices_sorted": self.indices_sorted, "backend": self.backend}
        return multiply(self.data, self.indices, self.indptr, x, shape=shape, **how)

    def _places(self) -> tuple[Any, Any, Any]:
        """Return indices, pointers and places of weights of the structure that is cut along the other axis."""
        from ..csr.conversions import turned_once

        if TURNED[0] in self._buffers:
            indices, indptr, places = (self._buffers[name] for name in TURNED)
            return indices, indptr, places
        return turned_once(self.indptr, self.indices, self._sliced_shape)

    def _on_pre(self, pre_spike: Any, post_trace: Any, *bounds: Any, **how: Any) -> Any:
        from ..plasticity import functions

        how["shape"] = self.shape
        if self._axis:
            return functions.update_indexed_on_pre(self.data, *self._places(), pre_spike, post_trace, *bounds, **how)
        update = functions.update_csr_on_binary_pre
        return update(self.data, self.indices, self.indptr, pre_spike, post_trace, *bounds, **how)

    def _on_post(self, pre_trace: Any, post_spike: Any, *bounds: Any, **how: Any) -> Any:
        from ..plasticity import functions

        how["shape"] = self.shape
        if self._axis:
            update = functions.update_csc_on_binary_post
            return update(self.data, self.indices, self.indptr, pre_trace, post_spike, *bounds, **how)
        return functions.update_csr_on_binary_post(self.data, *self._places(), pre_trace, post_spike, *bounds, **how)

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool) -> Any:
        from ..synapses import functions

        multiply = functions.cscmv_dt2t if self._axis else functions.csrmv_dt2t
        how: dict[str, Any] = {"shape": self.shape, "transpose": of_columns, "backend": self.backend}
        return multiply(y, w, self.indices, self.indptr, **how)

    def _turned(self) -> tuple[Any, tuple[Any, Any]]:
        """Return data and structure cut along the other axis."""
        from ..csr.functions import csr_to_csc_index

        many = self.data.size != 1
        indptr, indices, *perm = csr_to_csc_index(
            self.indptr, self.indices, shape=self._sliced_shape, include_perm=many
        )
        return self.data[perm[0]] if many else self.data, (indices, indptr)


@savable
@jax.tree_util.register_pytree_node_class
class CSR(_Compressed):
    """A matrix in compressed sparse rows: row i has the columns `indices[indptr[i]:indptr[i + 1]]`.

    `x @ matrix` visits the rows of events alone, `matrix @ x` all elements. `CSR(data, indices, indptr, shape=...)`,
    `CSR((data, indices, indptr), shape=...)` and `CSR(scipy_matrix)` check the structure, and look whether the columns
    of each row ascend. `indices_sorted` tells that, and `indices_within` that all are known to be within the shape:
    kernels need not test them then. Both may be passed, too, for indices whose values are not known yet.

    >>> import jax.numpy as jnp, brainevent
    >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]]))
    >>> jnp.array([True, False]) @ matrix
    Array([0., 2., 3.], dtype=float32)
    """

    _axis = 0

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        *,
        prob: float | None = None,
        num_per_row: int | None = None,
        num_per_column: int | None = None,
        weights: Any = 1.0,
        seed: int | None = None,
    ) -> CSR:
        """Connect at random, with a fixed probability, or to so many different columns a row or rows a column.

        `weights` is a number, or a function of a key and a shape like `jax.random.normal`.
        """
        rows, columns = checked_shape("CSR.random", shape)
        if sum(given is not None for given in (prob, num_per_row, num_per_column)) != 1:
            raise TypeError("CSR.random: pass one of prob, num_per_row and num_per_column")
        start = connectivity.checked_seed(seed)
        if prob is not None:
            indices, indptr = connectivity.bernoulli_rows(rows, columns, prob, start)
        elif num_per_column is not None:
            indices, indptr = connectivity.fixed_columns(rows, columns, num_per_column, start)
        else:
            indices = connectivity.fixed_rows(rows, columns, num_per_row or 0, start, pointers=True)
            indptr = np.arange(rows + 1, dtype=np.int64) * indices.shape[1]
        data = connectivity.drawn_weights(weights, (indices.size,), start)
        # device_put keeps the memory that was drawn into, on a CPU; asarray would copy it.
        structure = (jax.device_put(indices.reshape(-1)), indptr)
        known: dict[str, Any] = {"indices_sorted": True, "indices_within": True}
        return cls(data, *structure, shape=shape, check_structure=False, **known)

    def _transposed(self) -> CSC:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return CSC._of(self.data, structure, shape, **self._shared)

    def tocsr(self) -> CSR:
        """Return the matrix itself."""
        return self

    def tocsc(self) -> CSC:
        """Return the matrix in compressed sparse columns; rows are in order in each."""
        data, structure = self._turned()
        return CSC._of(data, structure, self.shape, indices_sorted=True, **self._kept)

    def _rows(self, chosen: jax.Array) -> Any:
        from ..csr.functions import csr_slice_rows

        with looked_at(within=self.indices_within):
            return csr_slice_rows(self.data, self.indices, self.indptr, chosen, shape=self.shape, backend=self.backend)

    def slice_rows(self, rows: Any) -> CSR:
        """Return the matrix of some of its rows, in the order given; its structure must be known, outside of a trace.

        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.CSR.fromdense(jnp.eye(4)).slice_rows([2, 0])
        CSR(float32[2, 4], nse=2)
        """
        self._look("CSR.slice_rows")
        indptr = known_on_host("CSR.slice_rows", self.indptr)
        wanted = rows if isinstance(rows, slice) else known_on_host("CSR.slice_rows", as_indices(rows))
        chosen = np.atleast_1d(np.arange(self.shape[0])[wanted])
        counts = np.diff(indptr)[chosen]
        starts = np.concatenate([np.zeros(1, indptr.dtype), np.cumsum(counts, dtype=indptr.dtype)])
        places = np.repeat(indptr[:-1][chosen] - starts[:-1], counts) + np.arange(starts[-1])
        structure = (self.indices[places], jnp.asarray(starts))
        how: dict[str, Any] = {**self._kept, "indices_sorted": self.indices_sorted}
        return CSR._of(pick(self.data, places), structure, (chosen.size, self.shape[1]), **how)

    def diag_add(self, diagonal: Any) -> CSR:
        """Return the matrix plus a diagonal one, of a number or a vector; the columns of each row then ascend.

        What of the diagonal is not stored, is from then on. In a trace that does not know the structure, an element
        comes in for each row: of weight zero where the diagonal is stored already.

        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 4.0]]))
        >>> matrix.diag_add(1.0), jnp.asarray(matrix.diag_add(jnp.array([1.0, 10.0])).todense())
        (CSR(float32[2, 2], nse=4), Array([[ 1.,  2.],
               [ 3., 14.]], dtype=float32))
        """
        length, given = min(self.shape), np.shape(units.split(diagonal)[0])
        if given not in ((), (1,), (length,)):
            raise ShapeError(f"CSR.diag_add: the diagonal has shape {given}; pass a number, or {length} of them")
        self._look("CSR.diag_add")
        found = with_diagonal(self.data, self.indices, self.indptr, self.shape, diagonal, in_order=self.indices_sorted)
        return CSR._of(found.data, found[1:], self.shape, indices_sorted=True, **self._kept)


@savable
@jax.tree_util.register_pytree_node_class
class CSC(_Compressed):
    """A matrix in compressed sparse columns: column j has the rows `indices[indptr[j]:indptr[j + 1]]`.

    `matrix @ x` visits the columns of events alone, `x @ matrix` all elements. It is made as a `CSR` is.
    """

    _axis = 1

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        *,
        prob: float | None = None,
        num_per_row: int | None = None,
        num_per_column: int | None = None,
        weights: Any = 1.0,
        seed: int | None = None,
    ) -> CSC:
        """Connect at random as `CSR.random` does, column by column."""
        turned = checked_shape("CSC.random", shape)[::-1]
        of_rows = CSR.random(
            turned, prob=prob, num_per_row=num_per_column, num_per_column=num_per_row, weights=weights, seed=seed
        )
        return of_rows.transpose()

    def _transposed(self) -> CSR:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return CSR._of(self.data, structure, shape, **self._shared)

    def tocsc(self) -> CSC:
        """Return the matrix itself."""
        return self

    def slice_rows(self, rows: Any) -> CSC:
        """Do what `CSR.slice_rows` does; the elements are sorted for it, and back."""
        return self.tocsr().slice_rows(rows).tocsc()

    def diag_add(self, diagonal: Any) -> CSC:
        """Do what `CSR.diag_add` does."""
        return self.transpose().diag_add(diagonal).transpose()

    def tocsr(self) -> CSR:
        """Return the matrix in compressed sparse rows; columns are in order in each."""
        data, structure = self._turned()
        return CSR._of(data, structure, self.shape, indices_sorted=True, **self._kept)


def turned_product(data: Any, buffers: Mapping[str, Any], x: Any, *, shape: Any, backend: str | None) -> Any:
    """Return the product with events by the structure that is cut along the other axis, of this shape."""
    from ..csr import functions

    multiply = functions.binary_csrmv_indexed if x.ndim == 1 else functions.binary_csrmm_indexed
    indices, indptr, perm = (buffers[name] for name in TURNED)
    how: dict[str, Any] = {"transpose": True, "indices_sorted": True, "backend": backend}
    return multiply(data, indices, indptr, perm, x, shape=shape, **how)
