# SPDX-License-Identifier: Apache-2.0
"""Which rules native code differentiates, and what it stores for that, in words."""

from __future__ import annotations

from ...errors import RuleError
from ...scalar.adjoint import adjoint_of
from ...scalar.trace import TracedRule
from ..surrogate import fast_sigmoid

__all__ = ["in_training"]


def in_training(rule: TracedRule) -> str:
    """Say whether `simulate` differentiates a rule in native code, and why not."""
    if any(name.dtype == "float64" for name in (*rule.states, *rule.arriving, *rule.params)):
        return "in plain JAX, because floats are float64, and native code trains in float32"
    try:
        found = adjoint_of(rule, fast_sigmoid(), [])
    except RuleError as error:
        return f"in plain JAX, because {error}"
    stored = sum(1 if name.dtype == "bool" else 4 for name in found.residuals)
    return f"in native code, which stores {stored} byte{'' if stored == 1 else 's'} a neuron and step, and spikes"
