# SPDX-License-Identifier: Apache-2.0
"""What `CSR` and `CSC` share: a matrix that is cut along an axis, and pointers that say where each slice begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp

from ...typing import ArrayLike, DTypeLike
from .. import units
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
from .base import DataRepresentation
from .buffers import TURNED
from .build import checked_dense, dense_elements, parts
from .by_format import ByFormat
from .solve import solved

__all__ = ["Compressed"]


class Compressed(ByFormat, DataRepresentation):
    """A matrix that is cut along an axis: `indptr` says where each slice begins, `indices` where its elements lie.

    Args:
        data: Floating weights, (nse,), or one weight for all; or all three arrays in a tuple; or a sparse matrix of
            SciPy.
        indices: The place of each element in its slice, int32 or int64, (nse,).
        indptr: Where each slice begins among the elements, int32 or int64, with one more element than there are slices.
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        check_structure: Whether to validate the indices.
        indices_sorted: Whether the indices of each slice are known to ascend; None to look.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them; None to look.
        precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If there is not one weight for each element.
    """

    indices: jax.Array
    indptr: jax.Array
    _structure, _format = ("indices", "indptr"), CSR

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
            mat: A dense matrix, (m, k), or a quantity of one.
            nse: How many elements to store; needed under `jax.jit`.
            index_dtype: int32, int64, or "auto" for the smaller one that is large enough.
            indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
            backend: The name of the kernel for products; None for the default.
            precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

        Returns:
            The matrix.

        Raises:
            TypeError: If the matrix is not floating.
            ValueError: If it has not two dimensions, or `nse` does not suit it.
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

    def precompute_weight_indices(self) -> Self:
        """Store where each element lies when the matrix is cut along the other axis, at 8 bytes an element.

        Then products with events read only the elements of events in both directions, and use the same weights.

        Returns:
            The matrix itself.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]])).precompute_weight_indices()
            >>> matrix @ brainevent.BinaryArray(jnp.array([False, True]))
            Array([0., 3.], dtype=float32)
        """
        from ..csr.conversions import csr_to_csc_index

        indptr, indices, perm = csr_to_csc_index(self.indptr, self.indices, shape=self._cut_shape)
        self._buffers.update(zip(TURNED, (indices, indptr, perm), strict=True))
        return self

    def build_weight_indices(self) -> Self:
        """Return the same matrix with what `precompute_weight_indices` stores; this one stays as it is.

        Returns:
            Another matrix, which shares data and indices.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> list(brainevent.CSR.fromdense(jnp.eye(2)).build_weight_indices().buffers)
            ['turned_indices', 'turned_indptr', 'turned_perm']
        """
        return self._like(self.data).precompute_weight_indices()

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
        indptr, indices, *perm = csr_to_csc_index(self.indptr, self.indices, shape=self._cut_shape, include_perm=many)
        return self.data[perm[0]] if many else self.data, (indices, indptr)
