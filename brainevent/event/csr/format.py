# SPDX-License-Identifier: Apache-2.0
"""Compressed sparse rows as a format: row i stores the elements from `indptr[i]` to `indptr[i + 1]`.

Duplicates add up, and columns need no order. A place of a weight that is out of range stands for the nearest one, and
invalid row pointers give sums of arbitrary stored elements. Devices share the stored elements, and so the rows: each
has the pointers of all rows, and their sums are reduced.
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
from ..structure import check_compressed, check_once
from .conversions import csr_to_csc_index, row_of_each

__all__ = ["CSR"]


def _elements(structure: Sequence[Any], shape: Shape) -> Elements:
    indices, indptr = structure[:2]
    return Elements(indices.shape, shape, row_of_each(indptr, indices.shape[0]), indices)


def _checked(where: str, structure: Sequence[Any], shape: Shape, within: bool | None) -> Checked:
    """Return indices and pointers that fit together, and whether all indices are known to be in range."""
    indices, indptr = (
        checked_indices(where, *named, 1) for named in zip(("indices", "indptr"), structure, strict=True)
    )
    if indptr.shape[0] != shape[0] + 1:
        raise ShapeError(
            f"{where}: indptr has shape {indptr.shape}; it must have {shape[0] + 1} elements, one more than there "
            "are slices (rows or columns)"
        )
    known = check_once(check_compressed, where, indices, indptr, within=within, slices=shape[0], bound=shape[1])
    return [indices, indptr], known


def _draw(n: int, number: int, *, in_order: bool = False) -> tuple[Any, ...]:
    indices = np.random.default_rng(0).integers(0, n, (n, number), np.int32)
    indices = np.sort(indices) if in_order else indices
    return jnp.asarray(indices.reshape(-1)), jnp.arange(n + 1, dtype=jnp.int32) * number


def _turned(structure: Sequence[Any], shape: Shape) -> tuple[Any, ...]:
    """Return rows, pointers and places of weights of the same elements, cut into columns."""
    starts, rows, places = csr_to_csc_index(structure[1], structure[0], shape=shape)
    return rows, starts, places


def _one_side(structure: Sequence[Any], *, transpose: bool) -> tuple[Any, ...]:
    indices, indptr = structure
    if transpose:
        return indices, jnp.array([0, indices.size], indptr.dtype)
    return jnp.zeros_like(indices), indptr


CSR = Format(
    name="csr",
    tag="csr",
    arrays=("indices", "indptr"),
    elements=_elements,
    checked=_checked,
    draw=_draw,
    cut=Cut(arrays=("nse", "p"), stored="nse", reduced=("nse",), pointers=1),
    one_side=_one_side,
    turned=_turned,
    sizes=((4000, 80), (20_000, 200)),
)
