# SPDX-License-Identifier: Apache-2.0
"""Do the arrays of a compressed matrix go together? Asked by all functions that take them one by one."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError
from ..operands import checked_indices
from ..structure import check_compressed, check_once

__all__ = ["checked_structure"]


def checked_structure(where: str, indices: Any, indptr: Any, cut: tuple[int, int]) -> tuple[tuple[Any, Any], bool]:
    """Return indices and pointers, if they go together in so many slices, and whether all are known to be in range.

    `cut` is how many slices there are, rows or columns, and the size of each.
    """
    indices = checked_indices(where, "indices", indices, 1)
    indptr = checked_indices(where, "indptr", indptr, 1)
    if indptr.shape[0] != cut[0] + 1:
        raise ShapeError(
            f"{where}: indptr has shape {indptr.shape}; it has an element for each of {cut[0]} slices (rows or "
            "columns), and one more"
        )
    within = check_once(check_compressed, where, indices, indptr, slices=cut[0], bound=cut[1])
    return (indices, indptr), within
