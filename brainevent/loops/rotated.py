# SPDX-License-Identifier: Apache-2.0
"""Loops over elements that begin a step, as a part of the loop that ends the step before.

Such a loop reads what is carried, such as which potentials are above a threshold, for the kernels that follow. Where
another loop of the step before makes all that it reads, it can compute the same when it makes it: then each step has
one loop less, and the carried arrays are read once less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from ..scalar.form import Constant
from .values import Array, Node, Plan, Stage, View, reads_own

__all__ = ["rotated"]

_LEAST = 8  # steps, as one more is computed


def rotated(plan: Plan) -> Plan:
    """Return a plan in which loops run at the end of the step before, and once before the first step, if they may."""
    if plan.length is None or plan.length < _LEAST:
        return plan
    fixed = {array for stage in plan.before for node in stage.nodes() for array in node.outs}
    for first in [loop for stage in plan.step for loop in stage.loops]:
        last = _joined_by(plan, first, fixed)
        if last is not None:
            plan = _moved(plan, first, last)
    return plan


def _joined_by(plan: Plan, first: Sequence[Node], fixed: set[Array]) -> tuple[Node, ...] | None:
    """Return the loop that can compute what a loop does in the next step, if there is one."""
    made = {array for node in first for array in node.outs}
    carried = set[Array]()
    for view in (view for node in first for view in node.ins):
        base = view.base
        if isinstance(base, Constant) or base in made | fixed or base.home == "const":
            continue
        if base.home != "carry" or not base.shape or not reads_own(view, first[0].shape):
            return None
        carried.add(plan.outs[plan.carries[base.number]])
    loops = [loop for stage in plan.step for loop in stage.loops if any(carried & set(node.outs) for node in loop)]
    if len(loops) != 1 or loops[0] == first or loops[0][0].shape != first[0].shape:
        return None
    order = dict(_ordered(plan.step))
    if order[first[0]] > order[loops[0][0]] or not carried <= {array for node in loops[0] for array in node.outs}:
        return None
    return loops[0] if all(_may_wait(plan, array, first, loops[0]) for array in made) else None


def _may_wait(plan: Plan, array: Array, first: Sequence[Node], last: Sequence[Node]) -> bool:
    """Say whether nothing reads an array after a loop has replaced it: the loop itself may read it."""
    places = plan.places[array]
    if not places:
        return True
    is_alone = sum(places[0] in each for each in plan.places.values()) == 1
    if places != (f"b{array.number}",) or not is_alone or array in plan.outs.values():
        return False
    order = dict(_ordered(plan.step))
    reads = [(node, view) for node in plan.nodes() for view in node.ins if view.base is array and node not in first]
    own = all(reads_own(view, last[0].shape) for node, view in reads if node in last)
    return own and all(node in last or order[first[0]] < order[node] < order[last[0]] for node, _ in reads)


def _ordered(stages: Sequence[Stage]) -> Iterator[tuple[Node, tuple[int, int, int]]]:
    for number, stage in enumerate(stages):
        loops = [(place, node) for place, loop in enumerate(stage.loops) for node in loop]
        for kind, nodes in enumerate((list(enumerate(stage.scalars)), loops, list(enumerate(stage.calls)))):
            yield from ((node, (number, kind, place)) for place, node in nodes)


def _moved(plan: Plan, first: tuple[Node, ...], last: tuple[Node, ...]) -> Plan:
    """Return the plan in which a loop is a part of another one, and runs before the first step."""
    number = max(array.number for node in plan.nodes() for array in node.outs)
    becomes = {plan.inputs[place]: plan.outs[i] for place, i in plan.carries.items()}  # when the other loop has run
    nodes, places = list[Node](), dict(plan.places)
    for node in first:
        ins = tuple(_of_next_step(view, becomes) for view in node.ins)
        for array in node.outs:
            number += 1
            becomes[array] = dataclasses.replace(array, number=number)
            places[becomes[array]] = plan.places[array]
        nodes.append(dataclasses.replace(node, ins=ins, outs=tuple(becomes[array] for array in node.outs)))
    step = tuple(
        dataclasses.replace(
            stage,
            loops=tuple((*loop, *nodes) if loop == last else loop for loop in stage.loops if loop != first),
        )
        for stage in plan.step
    )
    return dataclasses.replace(plan, before=(*plan.before, Stage((), (first,), ())), step=step, places=places)


def _of_next_step(view: View, becomes: Mapping[Array, Array]) -> View:
    base = view.base
    return view if isinstance(base, Constant) else dataclasses.replace(view, base=becomes.get(base, base))
