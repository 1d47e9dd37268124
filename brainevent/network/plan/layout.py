# SPDX-License-Identifier: Apache-2.0
"""The arrays of a plan's synapses, of the smallest dtypes that hold them, before they are filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...event.room import check_room
from ..pages import aligned
from .delays import delay_dtype
from .law import Law
from .plan import part_bounds
from .quantum import in_quanta, largest_rounding, weight_dtype
from .rows import Entries
from .wiring import Wiring

__all__ = ["Layout", "dtypes_of", "layout_of", "same_for_all"]

Array = Any


@dataclass(frozen=True, eq=False)
class Layout:
    """Arrays to fill, as a plan has them.

    `numbers` are the weights that are given, in quanta, int32 (1,) or (synapses,); nothing if they are drawn.
    `rounded` is how many of them differ by more than 2^-9 of themselves. `weight` is the |weight| that all synapses
    have; 1 if they have weights of their own. `rounding` is by how much a weight differs at most.
    """

    starts: Array
    targets: Array
    weights: Array
    delays: Array
    entries: Entries
    numbers: Array
    rounded: int
    weight: int
    rounding: float


def layout_of(wiring: Wiring, quantum: np.floating[Any], number: int, parts: int) -> Layout:
    """Return the arrays for a number of synapses."""
    sources, targets = wiring.shape
    numbers, rounded = (np.zeros(0, np.int32), 0)
    if not isinstance(wiring.weights, Law):
        numbers, rounded = in_quanta(wiring.weights, quantum)
    steps = wiring.steps
    one_weight, one_delay = same_for_all(wiring)
    dtypes = dtypes_of(wiring, quantum)
    sizes = [number, 0 if one_weight else number, 0 if one_delay else number]
    size = sum(np.dtype(dtype).itemsize * many for dtype, many in zip(dtypes, sizes, strict=True))
    check_room(f"projection {wiring.name}", f"{number} synapses", size, on_host=True)
    filled: list[Array] = [aligned((many,), dtype) for dtype, many in zip(dtypes, sizes, strict=True)]
    starts = aligned((sources * parts + 1,), np.int64)
    starts[-1] = number
    largest = 0 if one_delay else int(np.iinfo(dtypes[2]).max)
    bounds = part_bounds(targets, parts)[1:]
    pairs = (
        part
        for array, other in zip(filled, (np.int32, np.int32, np.uint16), strict=True)
        for part in _narrow_and_wide(array, np.dtype(other))
    )
    return Layout(
        starts,
        filled[0],
        numbers.astype(dtypes[1]) if one_weight else filled[1],
        np.array([steps], dtypes[2]) if one_delay else filled[2],
        Entries(starts, bounds, np.array([targets - 1, largest]), *pairs),
        numbers,
        rounded,
        abs(int(numbers[0])) if one_weight else 1,
        largest_rounding(wiring.weights, quantum),
    )


def same_for_all(wiring: Wiring) -> tuple[bool, bool]:
    """Return whether weights, and delays, are the same for all synapses."""
    weights, steps = wiring.weights, wiring.steps
    return not isinstance(weights, Law) and weights.size == 1, not isinstance(steps, Law) and np.ndim(steps) == 0


def dtypes_of(wiring: Wiring, quantum: np.floating[Any]) -> tuple[type, type, type]:
    """Return the smallest dtypes of targets, weights and delays."""
    targets = np.uint16 if wiring.shape[1] <= 2**16 else np.int32
    return targets, weight_dtype(wiring, quantum), delay_dtype(wiring.steps)


def _narrow_and_wide(array: Array, wide: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the array, in the place of its dtype, and an empty one of the other."""
    narrow = {"int32": np.int16, "uint16": np.uint8}[str(wide)]
    if array.dtype == wide:
        return np.empty(0, narrow), array
    return array, np.empty(0, wide)
