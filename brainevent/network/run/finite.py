# SPDX-License-Identifier: Apache-2.0
"""Find the first state of a network that is not finite, and say where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NotFiniteError
from ..plan.plan import Plan

__all__ = ["check_finite"]


def check_finite(plan: Plan, step: int, neurons: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `NotFiniteError` for the first float state, in the order of the plan, that is not finite.

    Unless the plan asks for that, only populations whose spikes have values are looked at, and only NaN is wrong.
    """
    for population in plan.populations:
        limits = population.rule.value_range
        if limits is None and not plan.check_finite:
            continue
        for state in population.state:
            values = neurons[population.name][state]
            if values.dtype.kind != "f":
                continue
            wrong = ~np.isfinite(values) if plan.check_finite else np.isnan(values)
            if not wrong.any():
                continue
            neuron = int(np.flatnonzero(wrong)[0])
            hint = "look at its parameters and inputs, or at a division or logarithm in its rule"
            if limits is not None:
                hint = (
                    f"either its spike had a value outside value_range={limits}, which makes all float states NaN: "
                    f"widen the range, or clip the value in the rule; or {hint}"
                )
            raise NotFiniteError(
                f"population {population.name}: state {state} of neuron {neuron} is {values[neuron]} after "
                f"step {step}; {hint}"
            )
