# SPDX-License-Identifier: Apache-2.0
"""Rows of equal length as a format: row i stores the elements `weights[i]` in the columns `indices[i]`.

Duplicates add up, and columns need no order. Devices may share the rows.
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

__all__ = ["FIXED"]


def _elements(structure: Sequence[Any], shape: Shape) -> Elements:
    return Elements(structure[0].shape, shape, 0, structure[0])


def _checked(where: str, structure: Sequence[Any], shape: Shape, within: bool | None) -> Checked:
    indices = checked_indices(where, "indices", structure[0], 2)
    if indices.shape[0] != shape[0]:
        raise ShapeError(f"{where}: indices has shape {indices.shape}; for shape={shape} it must have {shape[0]} rows")
    return [indices], check_once(check_indices, where, "indices", indices, within=within, bound=shape[1], ndim=2)


def _draw(n: int, number: int, *, in_order: bool = False) -> tuple[Any, ...]:
    indices = np.random.default_rng(0).integers(0, n, (n, number), np.int32)
    return (jnp.asarray(np.sort(indices) if in_order else indices),)


FIXED = Format(
    name="fcn",
    tag="fcn",
    arrays=("indices",),
    weights="weights",
    elements=_elements,
    checked=_checked,
    draw=_draw,
    cut=Cut(arrays=("m c",), stored="m c", row="m", column="k", reduced=("m",)),
)
