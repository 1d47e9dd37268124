# SPDX-License-Identifier: Apache-2.0
"""The base class of `CSR` and `CSC`: a matrix is cut along an axis, and pointers say where each slice begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..._documented import documented
from ...typing import ArrayLike, DTypeLike
from .. import entries
from .. import random as connectivity
from ..csr.format import CSR
from ..description import Description
from ..operands import is_scipy
from ..structure import (
    are_known,
    are_sorted,
    as_indices,
    check_compressed,
    checked_indptr,
    checked_shape,
    checked_weights,
    narrow,
)
from .base import TURNED
from .by_format import ByFormat, build_weight_indices, precompute_weight_indices
from .conversions import checked_dense, dense_elements, parts
from .solve import solved

__all__ = ["Compressed"]


@documented(entries.STORED, entries.OF_STORED | entries.INDPTR)
class Compressed(ByFormat):
    """A matrix that is cut along an axis: `indptr` says where each slice begins, `indices` where its elements lie.

    Args:
        data: Floating weights, (nse,), or one weight for all; or all three arrays in a tuple; or a sparse matrix of
            SciPy.
        indices: The place of each element in its slice, int32 or int64, (nse,).
        indptr: Where each slice begins among the elements, int32 or int64, with one more element than there are slices.
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        indices_sorted: Whether the indices of each slice are known to ascend; None to look.
    """

    indices: jax.Array
    indptr: jax.Array
    _structure, _format = ("indices", "indptr"), CSR
    precompute_weight_indices, build_weight_indices = precompute_weight_indices, build_weight_indices

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
    @documented(entries.STORED, entries.OF_DENSE, "The matrix.")
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: DTypeLike = "auto",
        indptr_dtype: DTypeLike = "auto",
        backend: str | None = None,
        precompute_weight_indices: bool = False,
    ) -> Self:
        """Store the nonzero elements of a dense matrix.

        Args:
            indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        """
        where = cls.__name__
        dense = checked_dense(where, mat)
        data, *places = dense_elements(where, dense.T if cls._axis else dense, nse)
        slices, bound = dense.shape[cls._axis], dense.shape[1 - cls._axis]
        indptr = jnp.cumulative_sum(jnp.bincount(jnp.asarray(places[0]), length=slices), include_initial=True)
        made = cls._of(
            data,
            (
                narrow(where, "indices", places[1], bound, index_dtype),
                checked_indptr(where, indptr, data.size, indptr_dtype),
            ),
            dense.shape,
            backend=backend,
            indices_sorted=True,
        )
        if precompute_weight_indices:
            made.precompute_weight_indices()
        return made

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        *,
        prob: float | None = None,
        num_per_row: int | None = None,
        num_per_column: int | None = None,
        weights: ArrayLike | Callable[..., ArrayLike] = 1.0,
        seed: int | None = None,
    ) -> Self:
        """Connect neurons at random; no pair is connected twice.

        Pass one of `prob`, `num_per_row` and `num_per_column`. A `CSC` is drawn column by column, all else row by row.

        Args:
            shape: The shape of the matrix, (m, k).
            prob: The probability of each element.
            num_per_row: How many elements each row has, all equally likely.
            num_per_column: How many elements each column has, all equally likely.
            weights: A number for all, or a function of a key and a shape, such as `jax.random.normal`.
            seed: An integer; None for a new one.

        Returns:
            The matrix.

        Raises:
            TypeError: If not one of the three is passed.
            ValueError: If a probability or a number is out of range.

        Examples:
            >>> import brainevent
            >>> brainevent.CSR.random((100, 50), num_per_row=10, weights=0.5, seed=0)
            CSR(float32[100, 50], nse=1000)
        """
        where = f"{cls.__name__}.random"
        size = checked_shape(where, shape)
        if sum(given is not None for given in (prob, num_per_row, num_per_column)) != 1:
            raise TypeError(f"{where}: pass one of prob, num_per_row and num_per_column")
        slices, across = size[cls._axis], size[1 - cls._axis]
        of_slice, of_other = (num_per_column, num_per_row) if cls._axis else (num_per_row, num_per_column)
        start = connectivity.checked_seed(seed)
        if prob is not None:
            indices, indptr = connectivity.bernoulli_rows(slices, across, prob, start)
        elif of_other is not None:
            indices, indptr = connectivity.fixed_columns(slices, across, of_other, start)
        else:
            indices = connectivity.fixed_rows(slices, across, of_slice or 0, start, pointers=True)
            indptr = np.arange(slices + 1, dtype=np.int64) * indices.shape[1]
        data = connectivity.drawn_weights(weights, (indices.size,), start)
        # device_put keeps the memory that was drawn into, on a CPU; asarray would copy it.
        structure = (jax.device_put(indices.reshape(-1)), indptr)
        known: dict[str, Any] = {"indices_sorted": True, "indices_within": True}
        return cls(data, *structure, shape=size, check_structure=False, **known)

    def solve(self, b: ArrayLike, tol: float = 1e-6, reorder: int = 1) -> jax.Array:
        """Return x with `self @ x = b`, by a sparse factorization on the host.

        SciPy factors the matrix, in float64. The result is differentiable with respect to the data and `b`.

        Args:
            b: Real numbers, (m,), or several right-hand sides as columns, (m, n).
            tol: The largest `|self @ x - b|` that is accepted, relative to the largest `|b|`.
            reorder: How factors are kept sparse: 0 not at all, 1 by COLAMD, 2 by minimum degree.

        Returns:
            x, in the shape of `b`.

        Raises:
            ShapeError: If the matrix is not square, or `b` has another length.
            jax.errors.JaxRuntimeError: If the matrix is singular, or the result not as exact as `tol` says.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> brainevent.CSR.fromdense(jnp.array([[2.0, 1.0], [0.0, 4.0]])).solve(jnp.array([4.0, 8.0]))
            Array([1., 2.], dtype=float32)
        """
        return solved(self, b, tol, reorder)

    def _sorted_places(self) -> tuple[Any, Any, Any]:
        from ..csr.conversions import csr_to_csc_index

        indptr, indices, places = csr_to_csc_index(self.indptr, self.indices, shape=self._cut_shape)
        return indices, indptr, places

    def _places(self) -> tuple[Any, Any, Any]:
        """Return indices, pointers and places of weights of the structure that is cut along the other axis."""
        from ..csr.conversions import turned_once

        if TURNED[0] in self._buffers:
            indices, indptr, places = (self._buffers[name] for name in TURNED)
            return indices, indptr, places
        return turned_once(self.indptr, self.indices, self._cut_shape)

    def _of_other_side(self) -> tuple[Description, Sequence[Any]]:
        from ..plasticity.calls import INDEXED

        return INDEXED, self._places()

    def _turned(self) -> tuple[Any, tuple[Any, Any]]:
        """Return data and structure cut along the other axis."""
        from ..csr.conversions import csr_to_csc_index

        many = self.data.size != 1
        indptr, indices, perm = csr_to_csc_index(self.indptr, self.indices, shape=self._cut_shape, include_perm=many)
        return self.data[perm] if many else self.data, (indices, indptr)
