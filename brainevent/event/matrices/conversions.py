# SPDX-License-Identifier: Apache-2.0
"""The transpose of a matrix, and the same matrix in other formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ..precision import precise
from ..room import check_array
from .attributes import Attributes
from .formats import format_named

__all__ = ["Conversions"]


class Conversions(Attributes):
    """Conversions of a matrix into another one with the same elements."""

    @property
    def T(self) -> Any:  # noqa: N802
        """The transposed matrix, which shares all arrays."""
        return self.transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> Conversions:
        """Return the transposed matrix, which shares all arrays.

        Args:
            axes: None or (1, 0), as for arrays.

        Returns:
            The transposed matrix, in the format that cuts it along the other axis.

        Raises:
            ValueError: If `axes` is anything else.
        """
        if axes is not None and tuple(axis % 2 for axis in axes) != (1, 0):
            raise ValueError(f"{type(self).__name__}.transpose: axes are {axes!r}; pass None, or (1, 0)")
        return self._transposed()

    def todense(self) -> jax.Array:
        """Return the matrix as a dense array; elements that are stored more than once are added up.

        Returns:
            The array, (m, k), or a quantity of it.

        Raises:
            MemoryError: If there is not enough memory for it.
        """
        self._look(f"{type(self).__name__}.todense")
        numbers, unit = units.split(self.data)
        sums = precise(numbers.dtype)
        check_array(f"{type(self).__name__}.todense", self.shape, sums)
        flat = jnp.broadcast_to(numbers, self._stored).reshape(-1).astype(sums)
        places: tuple[jax.Array, ...] = self._coordinates()
        if not self.indices_within:  # negative indices would count from the end
            places = tuple(jnp.where(x < 0, size, x) for x, size in zip(places, self.shape, strict=True))
        found = jnp.zeros(self.shape, sums).at[places].add(flat, mode="drop")
        return units.join(found.astype(numbers.dtype), unit)

    def tocsc(self) -> Conversions:
        """Return the matrix in compressed sparse columns.

        Returns:
            A `CSC`: the matrix itself if it is one. Where elements change their places, the weights are a copy.
        """
        return self.transpose().tocsr().transpose()

    def tocoo(self) -> Conversions:
        """Return the matrix in coordinates.

        Returns:
            A `COO`: the matrix itself if it is one.
        """
        self._look(f"{type(self).__name__}.tocoo")
        return format_named("COO")._of(self._flat(), self._coordinates(), self.shape, **self._kept)

    def _flat(self) -> Any:
        return self.data if self.data.ndim < 2 else self.data.reshape(-1)

    def tocsr(self) -> Conversions:
        """Return the matrix in compressed sparse rows.

        Returns:
            A `CSR`: the matrix itself if it is one. Where elements change their places, the weights are a copy.

        Raises:
            NotImplementedError: If the class does not define it.
        """
        raise NotImplementedError
