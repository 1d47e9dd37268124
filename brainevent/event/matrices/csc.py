# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse columns, `CSC`, whose transpose is a `CSR` of the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...typing import ArrayLike, IndexLike
from ..saved import savable
from ..structure import checked_shape
from .compressed import Compressed
from .csr import CSR
from .formats import named_format

__all__ = ["CSC"]


@named_format
@savable
@jax.tree_util.register_pytree_node_class
class CSC(Compressed):
    """A matrix in compressed sparse columns: column j has the rows `indices[indptr[j]:indptr[j + 1]]`.

    `matrix @ x` reads only the columns of events, `x @ matrix` all elements. It is made as a `CSR` is.

    Args:
        data: Floating weights, (nse,), or one weight for all elements.
        indices: The row of each stored element, int32 or int64, (nse,).
        indptr: Where each column begins among the stored elements, int32 or int64, (k + 1,).
        shape: The shape of the matrix, (m, k).
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.
        indptr_dtype: int32, int64, or "auto" for the smaller one that is large enough.
        check_structure: Whether to validate the indices.
        indices_sorted: Whether the rows of each column are known to ascend; None to look.
        indices_within: Whether all indices are known to be in range, so that kernels need not test them; None to look.
        precompute_weight_indices: Whether to call `precompute_weight_indices` at once.

    Raises:
        TypeError: If the weights are not floating, or indices are not integers.
        ValueError: If concrete indices are out of range, or `indptr` does not fit them.
        ShapeError: If there is not one weight for each element.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSC.fromdense(jnp.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]]))
        >>> matrix.indices, matrix.indptr
        (Array([1, 0, 0], dtype=int32), Array([0, 1, 2, 3], dtype=int32))
        >>> matrix @ jnp.array([False, True, True])
        Array([5., 0.], dtype=float32)
        >>> matrix.slice_rows([1]).todense()
        Array([[4., 0., 0.]], dtype=float32)
        >>> brainevent.CSC.fromdense(jnp.eye(2)).diag_add(1.0).tocsr().tocsc().todense()
        Array([[2., 0.],
               [0., 2.]], dtype=float32)
    """

    _axis = 1
    _called = ("update_csc_on_binary_pre", "update_csc_on_binary_post", "cscmv_dt2t", "cscmm_dt2t")

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
    ) -> CSC:
        """Connect neurons at random, as `CSR.random` does, column by column.

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
            TypeError: If not one of `prob`, `num_per_row` and `num_per_column` is passed.
            ValueError: If a probability or a number is out of range.

        Examples:
            >>> import brainevent
            >>> brainevent.CSC.random((100, 50), num_per_column=10, seed=0)
            CSC(float32[100, 50], nse=500)
        """
        turned = checked_shape("CSC.random", shape)[::-1]
        of_rows = CSR.random(
            turned, prob=prob, num_per_row=num_per_column, num_per_column=num_per_row, weights=weights, seed=seed
        )
        found: CSC = of_rows._transposed()
        return found

    def _transposed(self) -> CSR:
        structure, shape = (self.indices, self.indptr), (self.shape[1], self.shape[0])
        return CSR._of(self.data, structure, shape, **self._shared)

    def tocsc(self) -> CSC:
        """Return the matrix itself.

        Returns:
            The matrix.
        """
        return self

    def slice_rows(self, rows: IndexLike | slice) -> CSC:
        """Return the matrix of chosen rows, as `CSR.slice_rows` does; elements are sorted for it, and back.

        Args:
            rows: The rows: a slice, a mask, (m,), or numbers, (r,).

        Returns:
            The matrix, of shape (r, k).

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the size of the result is unknown.
            IndexError: If a row is out of range.
        """
        found: Any = self.tocsr().slice_rows(rows).tocsc()
        return found

    def diag_add(self, diagonal: ArrayLike) -> CSC:
        """Add a diagonal matrix, as `CSR.diag_add` does.

        Args:
            diagonal: A number, or a number for each element of the diagonal, (min(m, k),).

        Returns:
            The sum; the rows of each column ascend.

        Raises:
            ShapeError: If the diagonal has another length.
        """
        found: CSC = self._transposed().diag_add(diagonal)._transposed()
        return found

    def tocsr(self) -> CSR:
        """Return the matrix in compressed sparse rows, whose columns ascend.

        Returns:
            The matrix; its weights are a copy.
        """
        data, structure = self._turned()
        return CSR._of(data, structure, self.shape, indices_sorted=True, **self._kept)
