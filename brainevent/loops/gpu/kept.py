# SPDX-License-Identifier: Apache-2.0
"""Carries that stay in registers: each of their elements is read and written by one thread alone, for all steps."""

from __future__ import annotations

from collections.abc import Mapping

from ..values import Array, Plan, reads_own
from .numbers import nbytes

__all__ = ["kept_carries"]

_MOST = 16  # registers of a thread


def kept_carries(plan: Plan, threads: int) -> Mapping[int, Array]:
    """Return carries that so many threads keep, by the numbers of their results."""
    found, left = dict[int, Array](), _MOST
    for number, i in plan.carries.items():
        array = plan.inputs[number]
        each = -(-array.size // threads) * max(1, nbytes(array.dtype) // 4)
        if array.shape and 0 < each <= left and _is_only_own(plan, array, i):
            found[i] = array
            left -= each
    return found


def _is_only_own(plan: Plan, carry: Array, i: int) -> bool:
    """Say whether only loops over elements read and write a carry, each at its own element."""
    place = f"o{i}"
    stored = [array for array, places in plan.places.items() if place in places]
    there = {carry, *(array for array in stored if plan.places[array][0] == place)}
    if not stored or any(number == i or array in there for number, array in plan.late):
        return False
    for node in plan.nodes():
        reads = [view for view in node.ins if view.base in there]
        touches = bool(reads) or any(array in stored for array in node.outs)
        if touches and (node.call is not None or node.is_scalar):
            return False
        if any(not reads_own(view, node.shape) for view in reads):
            return False
    return True
