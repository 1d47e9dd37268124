# SPDX-License-Identifier: Apache-2.0
"""Launch plans: the common form of kernels of all GPU languages, run by one native handler."""

from __future__ import annotations

from .configuration import Configuration, Extents, on_three_axes
from .plan import Assembly, Launch, LaunchPlan, Limits, Slot, check_limits
from .target import PlanTarget, load, loaded

__all__ = [
    "Assembly",
    "Configuration",
    "Extents",
    "Launch",
    "LaunchPlan",
    "Limits",
    "PlanTarget",
    "Slot",
    "check_limits",
    "load",
    "loaded",
    "on_three_axes",
]
