# SPDX-License-Identifier: Apache-2.0
"""When a loop looks for Ctrl-C and shows its progress: after as many steps as take some milliseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .copies import indented
from .plan import Plan
from .values import Texts

__all__ = ["steps_of", "steps_while"]

_FIRST = 2**16  # elements that a loop computes before it measures how long its steps take
_KERNEL = 2**12  # for which a kernel of an operator counts besides its operands
_STEPS_OF_WHILE = 4


def steps_of(plan: Plan, step: Sequence[str], *, shows: bool) -> Texts:
    """Return the lines of all steps of a loop with a known number of them; one that `shows` its progress may do so."""
    assert plan.length is not None
    first = _first(plan)
    if plan.length <= first:
        return [f"for step in range({plan.length}):", *indented(step)]
    return [
        f"pulses, begin, ahead = pulse_memory(), 0, {first}",
        *["next_pulse(pulses, 0, 0)"] * shows,  # Ctrl-C counts from here on
        f"while begin < {plan.length}:",
        "    for step in range(begin, ahead):",
        *indented(indented(step)),
        "    begin = ahead",
        *indented(_pulse("begin", plan.length if shows else 0)),
        f"    ahead = min(ahead, {plan.length})",
    ]


def steps_while(plan: Plan, head: Sequence[str], go: str, step: Sequence[str]) -> Texts:
    """Return the lines of a loop that goes on as long as a text says so after the head of a step."""
    return [
        f"pulses, done, ahead = pulse_memory(), 0, {_first(plan)}",
        "while True:",
        *indented([*head, f"if not {go}: break", *step, "done += 1", "if done == ahead:"]),
        *indented(indented(_pulse("done", 0))),
    ]


def _pulse(done: str, steps: int) -> Texts:
    return [f"ahead = next_pulse(pulses, {done}, {steps})", "if ahead < 0:", "    raise LoopInterruptedError"]


def _first(plan: Plan) -> int:
    """Return after how many steps to look first."""
    return max(1, _FIRST // max(1, _elements(plan)))


def _elements(plan: Plan) -> int:
    """Count what a step computes, and what its calls may read."""
    total = 0
    for node in (node for stage in (*plan.head, *plan.step) for node in stage.nodes()):
        total += sum(math.prod(array.shape) for array in node.outs)
        if node.call is not None:
            total += sum(view.size for view in node.ins) + node.call.work + _KERNEL * node.call.is_kernel
            total += sum((inner.length or _STEPS_OF_WHILE) * _elements(inner) for inner in node.call.plans)
    return total
