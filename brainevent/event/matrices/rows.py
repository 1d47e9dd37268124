# SPDX-License-Identifier: Apache-2.0
"""Dense rows and elements of a matrix, by `matrix[rows]` and `matrix[rows, columns]`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .. import units
from .indexing import from_start

__all__ = ["Rows"]


class Rows:
    """What brackets after a matrix mean, with what they need of it."""

    shape: tuple[int, int]
    tocsr: Any

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

    def _elements(self, rows: Any, columns: Any = None, *more: Any) -> Any:
        """Return what is in some rows and columns; zeros where there are none."""
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
        """Return dense rows; those that there are not are zero."""
        return self.tocsr()._rows(chosen)
