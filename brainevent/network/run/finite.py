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
    """Raise `NotFiniteError` for the first float state, in the order of the plan, that is not finite."""
    for population in plan.populations:
        for state in population.state:
            values = neurons[population.name][state]
            if values.dtype.kind != "f" or np.isfinite(values).all():
                continue
            neuron = int(np.flatnonzero(~np.isfinite(values))[0])
            raise NotFiniteError(
                f"population {population.name}: state {state} of neuron {neuron} is {values[neuron]} after "
                f"step {step}; look at its parameters and inputs, or at a division or logarithm in its rule"
            )
