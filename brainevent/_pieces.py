# SPDX-License-Identifier: Apache-2.0
"""Work on long arrays piece by piece: between two pieces, Python answers signals such as Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["PIECE", "copied_in_pieces", "pieces"]

PIECE = 2**22  # elements: some hundredths of a second

Array = Any


def pieces(size: int) -> Iterator[slice]:
    """Yield slices of at most PIECE elements, which cover all."""
    return (slice(begin, min(begin + PIECE, size)) for begin in range(0, size, PIECE))


def copied_in_pieces(array: Array, of: Callable[[Array], Array] | None = None, into: Array | None = None) -> Array:
    """Return a copy of an array () or (n,), or of what a function of elements makes of it, of the same dtype."""
    copy = np.empty(array.shape, array.dtype) if into is None else into
    given, taken = array.reshape(-1), copy.reshape(-1)
    for piece in pieces(array.size):
        taken[piece] = given[piece] if of is None else of(given[piece])
    return copy
