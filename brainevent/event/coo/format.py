# SPDX-License-Identifier: Apache-2.0
"""Coordinates as a format: element i is in row `row[i]` and column `col[i]`, in any order; duplicates add up.

Devices may share the elements, whose sums are then partial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...errors import ShapeError
from ..description import Checked, Cut, Format, Shape
from ..elements import Elements
from ..operands import checked_indices
from ..structure import check_indices, check_once

__all__ = ["COORDINATES"]


def _elements(structure: Sequence[Any], shape: Shape) -> Elements:
    return Elements(structure[0].shape, shape, *structure[:2])


def _checked(where: str, structure: Sequence[Any], shape: Shape, within: bool | None) -> Checked:
    row, col = structure
    row, col = checked_indices(where, "row", row, 1), checked_indices(where, "col", col, 1)
    if row.shape != col.shape:
        raise ShapeError(f"{where}: row has shape {row.shape} and col {col.shape}; both must have the same shape")
    known = check_once(check_indices, where, "row", row, within=within, bound=shape[0])
    known &= check_once(check_indices, where, "col", col, within=within, bound=shape[1])
    return [row, col], known


def _draw(n: int, number: int, *, in_order: bool = False) -> tuple[Any, ...]:
    row, col = np.random.default_rng(0).integers(0, n, (2, n * number), np.int32)
    return jnp.asarray(np.sort(row)), jnp.asarray(col)


COORDINATES = Format(
    name="coo",
    tag="coo",
    arrays=("row", "col"),
    elements=_elements,
    checked=_checked,
    draw=_draw,
    cut=Cut(arrays=("nse", "nse"), stored="nse", reduced=("nse",)),
    bytes=8,
    by_rows=False,
)
