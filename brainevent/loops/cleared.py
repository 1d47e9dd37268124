# SPDX-License-Identifier: Apache-2.0
"""Which sums of kernels are set to zero by the loop that reads them, so that kernels need no pass of their own for it.

The loop has each sum in a register when it is read, and writes zero to the same place. If it is shared by threads, so
is this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .plan import Plan
from .values import Array, Node, View, is_packed

__all__ = ["Cleared", "cleared_sums", "of_loop"]


@dataclass(frozen=True)
class Cleared:
    """How a result of a call is cleared: where the `views` of an array are read, in the loop that begins with a node.

    This array is the result itself, which is then `first_cleared`, before the first step, or the carry that it becomes.
    """

    loop: Node
    read: Array
    views: tuple[View, ...]
    first_cleared: bool


def cleared_sums(plan: Plan) -> dict[Array, Cleared]:
    """Return the results of calls that a loop clears, so that these are zero when the call begins."""
    if plan.length == 1:
        return {}
    calls = [node for stage in plan.step for node in stage.calls]
    arrays = [node.outs[0] for node in calls if node.call is not None and node.call.of_zeros is not None]
    found = ((array, _of_array(plan, array)) for array in arrays)
    return {array: cleared for array, cleared in found if cleared is not None}


def _of_array(plan: Plan, array: Array) -> Cleared | None:
    """Return how a result is cleared: in the step that made it, or, of a carry, in the next one."""
    [place, *others] = plan.places[array]
    is_alone = sum(place in places for places in plan.places.values()) == 1
    if others or not is_alone or not array.shape or any(array is late for _, late in plan.late):
        return None
    if place == f"b{array.number}":
        return _of_readers(plan, array, array)
    carried = [plan.inputs[number] for number, i in plan.carries.items() if place == f"o{i}" and plan.outs[i] is array]
    read = any(view.base is array for node in plan.nodes() for view in node.ins)
    return _of_readers(plan, array, carried[0]) if carried and not read else None


def _of_readers(plan: Plan, array: Array, read: Array) -> Cleared | None:
    """Return how a result is cleared as one array, the result or a carry, is read: by one loop, each element once."""
    readers = [node for node in plan.nodes() if any(view.base is read for view in node.ins)]
    loops = [loop for stage in plan.step for loop in stage.loops if any(node in loop for node in readers)]
    if len(loops) != 1 or any(node not in loops[0] for node in readers):
        return None
    views = tuple(dict.fromkeys(view for node in readers for view in node.ins if view.base is read))
    if not _cover_once(views, loops[0][0].shape, read.size):
        return None
    return Cleared(loops[0][0], read, views, first_cleared=read is array)


def _cover_once(views: Sequence[View], shape: tuple[int, ...], size: int) -> bool:
    """Say whether views in the shape of a loop are parts of an array, one after the other, that are all of it."""
    if any(view.shape != shape or not is_packed(view) for view in views):
        return False
    parts = sorted((view.offset, view.offset + view.size) for view in views)
    ends = [0, *(end for _, end in parts)]
    return [begin for begin, _ in parts] == ends[:-1] and ends[-1] == size


def of_loop(cleared: Mapping[Array, Cleared], nodes: Sequence[Node]) -> list[tuple[Array, View]]:
    """Return the arrays that a loop sets to zero, as it reads them: all views of all sums that it clears."""
    found = (each for each in cleared.values() if each.loop in nodes)
    return [(each.read, view) for each in found for view in each.views]
