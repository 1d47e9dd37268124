# SPDX-License-Identifier: Apache-2.0
"""The attributes of matrices that the parts of their classes use; `base.py` and the formats define them."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["Attributes"]


class Attributes:
    """A matrix, as the parts of its class see it."""

    data: Any
    shape: tuple[int, int]
    backend: str | None
    indices_sorted: bool  # whether the indices of each slice are known to ascend
    indices_within: bool  # whether all indices are known to be in range, so that kernels need not test them
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
