# SPDX-License-Identifier: Apache-2.0
"""Dense rows and elements of a matrix, by `matrix[rows]` and `matrix[rows, columns]`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ...typing import IndexLike
from .attributes import Attributes
from .indexing import from_start

__all__ = ["Rows"]


class Rows(Attributes):
    """Rows and elements of a matrix as arrays, and matrices of chosen rows."""

    def __getitem__(self, rows: Any) -> Any:
        """Return dense rows: one for a number, several for a slice, a mask or a vector.

        `matrix[rows, columns]` is as for arrays: two vectors name the elements `(rows[i], columns[i])`.
        """
        if isinstance(rows, tuple):
            return self._elements(*rows)
        if isinstance(rows, slice):
            return self._rows(jnp.arange(*rows.indices(self.shape[0]), dtype=jnp.int32))
        chosen = from_start(type(self).__name__, "rows", rows, self.shape[0])
        found = self._rows(chosen.reshape(-1))
        return found[0] if chosen.ndim == 0 else found

    def slice_rows(self, index: IndexLike | slice) -> Rows:
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
        chosen: Rows = self.tocsr().slice_rows(index)
        return chosen

    def _elements(self, rows: Any, columns: Any = None, *more: Any) -> Any:
        """Return the elements of rows and columns; zeros for those that are out of range."""
        if columns is None or more:
            raise IndexError(f"{type(self).__name__}: a matrix has rows and columns; pass matrix[rows, columns]")
        found = self[rows]
        if isinstance(columns, slice):
            return found[..., columns]
        chosen = from_start(type(self).__name__, "columns", columns, self.shape[1])
        pairs = chosen.ndim == 1 and found.ndim == 2 and not isinstance(rows, slice)
        numbers, unit = units.split(found)
        places = (jnp.arange(found.shape[0]), chosen) if pairs else (..., chosen)
        return units.join(numbers.at[places].get(mode="fill", fill_value=0), unit)

    def _rows(self, chosen: jax.Array) -> Any:
        """Return dense rows; those that are out of range are zero."""
        return self.tocsr()._rows(chosen)
