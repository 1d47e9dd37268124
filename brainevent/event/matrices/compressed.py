# SPDX-License-Identifier: Apache-2.0
"""What `CSR` and `CSC` share: a matrix that is cut along an axis, and pointers that say where each slice begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp

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
    """A matrix that is cut along an axis: `indptr` says where each slice begins, `indices` where its elements lie."""

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
        from ..csr.conversions import csr_to_csc_index

        indptr, indices, perm = csr_to_csc_index(self.indptr, self.indices, shape=self._cut_shape)
        self._buffers.update(zip(TURNED, (indices, indptr, perm), strict=True))
        return self

    def build_weight_indices(self) -> Self:
        """Return the same matrix with what `precompute_weight_indices` stores; this one stays as it is."""
        return self._like(self.data).precompute_weight_indices()

    def solve(self, b: Any, tol: float = 1e-6, reorder: int = 1) -> Any:
        """Return x with `self @ x = b`, for a vector or the columns of a matrix, by factors of the matrix on the host.

        SciPy factors it, in float64. `tol` is the largest `|self @ x - b|` that is accepted, relative to the largest
        `|b|`; more, or a singular matrix, raises. `reorder` says how factors are kept sparse: 0 not at all, 1 by
        COLAMD, 2 by minimum degree. Derivatives are by the data and by b.

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
