# SPDX-License-Identifier: Apache-2.0
"""What `CSR` and `CSC` share: a matrix that is cut along an axis, and pointers that say where each slice begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from .. import units
from ..csr.format import CSR as CSR_FORMAT
from ..csr.pointers import row_of_each
from ..operands import is_scipy
from ..structure import (
    are_known,
    are_sorted,
    as_indices,
    check_compressed,
    check_once,
    checked_indptr,
    checked_shape,
    checked_weights,
    narrow,
)
from .base import DataRepresentation
from .buffers import TURNED
from .build import checked_dense, dense_elements, parts
from .plastic import Plastic

__all__ = ["Compressed"]


class Compressed(Plastic, DataRepresentation):
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
        from ..csr.conversions import csr_to_csc_index

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
        shape, across = self._sliced_shape, transpose ^ bool(self._axis)
        if event and not across and TURNED[0] in self._buffers:
            return self._turned_product(self.data, x, shape[::-1])
        how: dict[str, Any] = {"shape": shape, "transpose": across}
        return self._product(CSR_FORMAT, self.data, (self.indices, self.indptr), x, event=event, **how)

    def _places(self) -> tuple[Any, Any, Any]:
        """Return indices, pointers and places of weights of the structure that is cut along the other axis."""
        from ..csr.conversions import turned_once

        if TURNED[0] in self._buffers:
            indices, indptr, places = (self._buffers[name] for name in TURNED)
            return indices, indptr, places
        return turned_once(self.indptr, self.indices, self._sliced_shape)

    def _updated(self, update: Any, where: str, *operands: Any, indexed: bool, **how: Any) -> Any:
        from ..plasticity.calls import INDEXED, ROWS

        of, structure = (INDEXED, self._places()) if indexed else (ROWS, (self.indices, self.indptr))
        return update(of, where, self.data, structure, *operands, self.shape, within=self.indices_within, **how)

    def _on_pre(self, *operands: Any, **how: Any) -> Any:
        from ..plasticity.calls import on_pre

        where = f"update_{'csc' if self._axis else 'csr'}_on_binary_pre"
        return self._updated(on_pre, where, *operands, indexed=bool(self._axis), **how)

    def _on_post(self, *operands: Any, **how: Any) -> Any:
        from ..plasticity.calls import on_post

        where = f"update_{'csc' if self._axis else 'csr'}_on_binary_post"
        return self._updated(on_post, where, *operands, indexed=not self._axis, **how)

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool) -> Any:
        from ..synapses.functions import OF_VECTORS, values

        names = ("cscmv_dt2t", "cscmm_dt2t") if self._axis else ("csrmv_dt2t", "csrmm_dt2t")
        structure, of_columns = (self.indices, self.indptr), of_columns ^ bool(self._axis)
        how: dict[str, Any] = {"backend": self.backend, "within": self.indices_within}
        return values(OF_VECTORS, names, y, w, structure, self._sliced_shape, of_columns, **how)

    def _turned(self) -> tuple[Any, tuple[Any, Any]]:
        """Return data and structure cut along the other axis."""
        from ..csr.conversions import csr_to_csc_index

        many = self.data.size != 1
        indptr, indices, *perm = csr_to_csc_index(
            self.indptr, self.indices, shape=self._sliced_shape, include_perm=many
        )
        return self.data[perm[0]] if many else self.data, (indices, indptr)
