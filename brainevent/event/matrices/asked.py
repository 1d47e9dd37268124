# SPDX-License-Identifier: Apache-2.0
"""What the parts of a matrix class ask of one another: attributes that `base.py` and the formats have."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["Asked"]


class Asked:
    """A matrix, as its parts know it."""

    data: Any
    shape: tuple[int, int]
    backend: str | None
    indices_sorted: bool  # whether those of each row, or of what else is cut, are known to ascend
    indices_within: bool  # whether all are known to be within range, so that kernels need not test them
    dtype: Any
    nse: Any
    product: Any
    todense: Any
    tocsr: Any
    with_data: Any
    _buffers: dict[str, Any]
    _coordinates: Any
    _kept: Any
    _like: Any
    _look: Any
    _multiply: Any
    _multiply_values: Any
    _shared: Any
    _stored: Any
    _structure: ClassVar[tuple[str, ...]] = ()  # the attributes that hold indices
    _transposed: Any
