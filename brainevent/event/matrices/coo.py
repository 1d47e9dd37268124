# SPDX-License-Identifier: Apache-2.0
"""Coordinates, `COO`: the row and the column of each element, in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax

from ... import _units as units
from ..._documented import documented
from ...typing import ArrayLike, DTypeLike
from .. import entries
from ..coo.format import COORDINATES
from ..description import Description
from ..laws.updates import UPDATES
from ..operands import is_scipy
from ..saved import register_pair
from ..structure import are_known, are_sorted, as_indices, check_indices, checked_shape, checked_weights, narrow
from .base import DataRepresentation
from .by_format import ByFormat
from .conversions import checked_dense, dense_elements, format_named, named_format, parts, pick

__all__ = ["COO"]


@named_format
@register_pair
@documented(entries.STORED, entries.OF_STORED)
class COO(ByFormat):
    """A matrix of elements `data[i]` at `(row[i], col[i])`, in any order; products read all of them.

    It is made by `COO(data, row, col, shape=...)`, `COO((data, row, col), shape=...)`, `COO(scipy_matrix)`,
    `fromdense`, `fromscipy` or `random`.

    Args:
        data: Floating weights, (nse,), or one weight for all elements.
        row: The row of each stored element, int32 or int64, (nse,).
        col: The column of each stored element, int32 or int64, (nse,).

    Raises:
        ValueError: If concrete indices are out of range, or `row` and `col` have different lengths.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.COO((jnp.array([2.0, 3.0]), jnp.array([0, 1]), jnp.array([1, 0])), shape=(2, 2))
        >>> matrix @ jnp.array([1.0, 10.0])
        Array([20.,  3.], dtype=float32)
        >>> brainevent.COO.fromdense(jnp.eye(2)).tocsr(), brainevent.COO.random((4, 4), num_per_row=2, seed=0).tocoo()
        (CSR(float32[2, 2], nse=2), COO(float32[4, 4], nse=8))
    """

    row: jax.Array
    col: jax.Array
    _structure, _format = ("row", "col"), COORDINATES
    _called = ("COO.dt2t", "COO.dt2t")

    def __init__(
        self,
        data: Any,
        row: Any = None,
        col: Any = None,
        *,
        shape: Sequence[int] | None = None,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        check_structure: bool = True,
        indices_within: bool | None = None,
    ) -> None:
        if is_scipy(data):
            found = data.tocoo()
            data, row, col, shape = found.data, found.row, found.col, shape or found.shape
        elif col is None:
            data, row, col = parts("COO", data, ("data", "row", "col"))
        size = checked_shape("COO", shape)
        row, col = as_indices(row), as_indices(col)
        if check_structure:
            check_indices("COO", "row", row, size[0])
            check_indices("COO", "col", col, size[1])
            if row.shape != col.shape:
                raise ValueError(
                    f"COO: row has shape {row.shape} and col {col.shape}; pass one row and one column for each element"
                )
        if indices_within is None:
            indices_within = check_structure and are_known(row, col)
        numbers, unit = units.split(data)
        data = units.join(checked_weights("COO", numbers, row.shape), unit)
        structure = (narrow("COO", "row", row, size[0]), narrow("COO", "col", col, size[1]))
        self._hold(data, structure, size, backend, buffers, within=indices_within)

    @classmethod
    @documented(entries.STORED, entries.OF_DENSE, "The matrix.")
    def fromdense(
        cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = "auto", backend: str | None = None
    ) -> Self:
        """Store the nonzero elements of a dense matrix."""
        dense = checked_dense("COO", mat)
        data, row, col = dense_elements("COO", dense, nse)
        structure = (
            narrow("COO", "row", row, dense.shape[0], index_dtype),
            narrow("COO", "col", col, dense.shape[1], index_dtype),
        )
        return cls._of(data, structure, dense.shape, backend=backend, indices_within=dense.size > 0)

    @classmethod
    def random(cls, shape: Sequence[int], **options: Any) -> COO:
        """Connect neurons at random, as `CSR.random` does.

        Args:
            shape: The shape of the matrix, (m, k).
            **options: The keywords of `CSR.random`.

        Returns:
            The matrix.

        Raises:
            TypeError: If not one of `prob`, `num_per_row` and `num_per_column` is passed.
        """
        return format_named("CSR").random(shape, **options).tocoo()

    def _of_other_side(self) -> tuple[Description, Sequence[Any]]:
        return Description(COORDINATES, UPDATES), self._arrays[::-1]

    def _transposed(self) -> COO:
        turned = (self.shape[1], self.shape[0])
        return COO._of(self.data, (self.col, self.row), turned, **self._shared)

    def tocoo(self) -> COO:
        return self

    def tocsr(self) -> DataRepresentation:
        from ..csr.conversions import coo2csr

        indptr, indices, order = coo2csr(self.row, self.col, shape=self.shape)
        how: dict[str, Any] = {**self._kept, "indices_sorted": are_sorted(indices, indptr)}
        return format_named("CSR")._of(pick(self.data, order), (indices, indptr), self.shape, **how)
