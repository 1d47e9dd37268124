# SPDX-License-Identifier: Apache-2.0
"""Which loops are worth a kernel of their own on a GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..cost import CALIBRATION as ON_CPU
from ..plan import Plan
from ..values import Node
from .stages import nodes_within

__all__ = ["why_not_faster"]

_MOST_WORK = 2_000_000  # multiplications of dense products in a step: XLA's use tensor cores, and memory that is shared

_MOST_STEPS = 50_000  # of loops within, in a step: these are loops of their own, whose launches end sooner
_MANY = 8192  # elements: more than a cluster of blocks has threads
_CHUNK = 1024  # elements that one warp reduces


@dataclass(frozen=True)
class Calibration:
    """Where XLA's loop begins to win, measured on an H200 by `benchmarks/fused_loops.py bodies` (2026-11-27).

    Times are nanoseconds by which the kernel is slower, and negative where it is faster.
    """

    step: float = -7_500.0
    kernel: float = -8_000.0  # of an operator
    sum_of_many: float = 4_500.0  # a reduction for which threads wait twice
    place_of_many: float = 12_000.0  # the place of the largest of many elements
    element: float = 0.0003  # of a loop over elements; XLA's kernels have more threads
    function: float = 0.0009  # of an element, such as exp
    random_word: float = 0.004
    reduced: float = 0.0014  # of an element
    moved: float = 0.003  # of an element that a call moves: XLA's kernels do not store it
    gathered: float = 0.003  # of an element of what a product reads for all rows


CALIBRATION = Calibration()


def why_not_faster(plan: Plan, calibration: Calibration | None = None) -> str | None:
    """Return why XLA's loop is expected to be faster, or None."""
    calibration = calibration or CALIBRATION
    nodes = list(nodes_within(plan))
    count = len(nodes)
    if count > ON_CPU.most_equations:
        return f"its body has {count} equations, which take too long to compile"
    if sum(times * node.call.work for node, times in nodes if node.call is not None) > _MOST_WORK:
        return "XLA's loop is expected to be faster, mostly because of dense products"
    if (steps := max((times for _, times in nodes), default=0)) > _MOST_STEPS:
        return f"loops within a step have {steps} steps, which would make it too long"
    extra = {"the step itself": calibration.step, "random": calibration.random_word * plan.random_words}
    for loop in (loop for stage in (*plan.head, *plan.step) for loop in stage.loops):
        extra["the step itself"] += calibration.element * math.prod(loop[0].shape)
    for node in (node for stage in (*plan.head, *plan.step) for node in stage.nodes()):
        what, time = _of_node(node, calibration)
        extra[what] = extra.get(what, 0.0) + time
    if sum(extra.values()) <= 0:
        return None
    return f"XLA's loop is expected to be faster, mostly because of {max(extra, key=lambda what: extra[what])}"


def _of_node(node: Node, calibration: Calibration) -> tuple[str, float]:
    """Return what makes a step slower or faster, and by how much."""
    if node.call is None:
        name = node.equation.primitive.name if node.equation is not None else "copy"
        return name, math.prod(node.shape) * calibration.function * (name in ON_CPU.functions)
    name, read = node.call.name, sum(view.size for view in node.ins)
    if node.call.is_kernel:
        return name, calibration.kernel + calibration.gathered * read * name.startswith("gather")
    if node.call.work or node.call.plans:
        return name, 0.0
    largest = max((view.size for view in node.ins), default=0)
    if name.startswith(("reduce_", "arg")):
        many = largest > _MANY and largest > _CHUNK * node.outs[0].size
        each = calibration.place_of_many if name.startswith("arg") else calibration.sum_of_many
        return name, many * each + calibration.reduced * largest
    moved = node.ins[1].size if name == "dynamic_update_slice" else node.outs[0].size
    return name, calibration.moved * moved
