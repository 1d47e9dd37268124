# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse columns, `CSC`, whose transpose is a `CSR` of the same arrays."""

from __future__ import annotations

from typing import Any

from ..._documented import documented
from ...typing import ArrayLike, IndexLike
from .. import entries
from ..saved import register_pair
from .compressed import Compressed
from .conversions import named_format
from .csr import CSR

__all__ = ["CSC"]


@named_format
@register_pair
@documented(entries.STORED, entries.OF_STORED | entries.INDPTR)
class CSC(Compressed):
    """A matrix in compressed sparse columns: column j has the rows `indices[indptr[j]:indptr[j + 1]]`.

    `matrix @ x` reads only the columns of events, `x @ matrix` all elements. It is made as a `CSR` is.

    Args:
        data: Floating weights, (nse,), or one weight for all elements.
        indices: The row of each stored element, int32 or int64, (nse,).
        indptr: Where each column begins among the stored elements, int32 or int64, (k + 1,).
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        indices_sorted: Whether the rows of each column are known to ascend; None to look.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSC.fromdense(jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]]))
        >>> matrix.indices, matrix.indptr
        (Array([1, 0, 0], dtype=int32), Array([0, 1, 2, 3], dtype=int32))
        >>> matrix @ jnp.array([False, True, True])
        Array([5., 0.], dtype=float32)
        >>> brainevent.CSC.random((100, 50), num_per_column=10, seed=0)
        CSC(float32[100, 50], nse=500)
        >>> matrix.slice_rows([1]).todense()
        Array([[4., 0., 0.]], dtype=float32)
        >>> brainevent.CSC.fromdense(jnp.eye(2)).diag_add(1.0).tocsr().tocsc().todense()
        Array([[2., 0.],
               [0., 2.]], dtype=float32)
    """

    _axis = 1
    _called = ("cscmv_dt2t", "cscmm_dt2t")

    def tocsc(self) -> CSC:
        return self

    def slice_rows(self, index: IndexLike | slice) -> CSC:
        found: Any = self.tocsr().slice_rows(index).tocsc()
        return found

    def diag_add(self, other: ArrayLike) -> CSC:
        found: CSC = self._transposed().diag_add(other)._transposed()
        return found

    def tocsr(self) -> CSR:
        data, structure = self._turned()
        return CSR._of(data, structure, self.shape, indices_sorted=True, **self._kept)


CSR._turned_class, CSC._turned_class = CSC, CSR
