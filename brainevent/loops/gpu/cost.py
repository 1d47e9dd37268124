# SPDX-License-Identifier: Apache-2.0
"""Which loops are worth a kernel of their own on a GPU."""

from __future__ import annotations

from ..cost import CALIBRATION
from ..plan import Plan
from .stages import nodes_within

__all__ = ["why_not_faster"]

_MOST_WORK = 2_000_000  # multiplications of dense products in a step: XLA's use tensor cores, and memory that is shared

_MOST_STEPS = 50_000  # of loops within, in a step: these are loops of their own, whose launches end sooner


def why_not_faster(plan: Plan) -> str | None:
    """Return why XLA's loop is expected to be faster, or None."""
    nodes = list(nodes_within(plan))
    count = len(nodes)
    if count > CALIBRATION.most_equations:
        return f"its body has {count} equations, which take too long to compile"
    if sum(times * node.call.work for node, times in nodes if node.call is not None) > _MOST_WORK:
        return "XLA's loop is expected to be faster, mostly because of dense products"
    if (steps := max((times for _, times in nodes), default=0)) > _MOST_STEPS:
        return f"loops within a step have {steps} steps, which would make it too long"
    return None
