# SPDX-License-Identifier: Apache-2.0
"""Find the first state of a network that is not finite, and say where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NotFiniteError
from ..plan.plan import Plan
from ..plan.plastic import PlasticPlan

__all__ = ["SynapseFault", "check_finite", "check_synapses", "check_synapses_of", "fault_of"]


@dataclass(frozen=True, eq=False)
class SynapseFault:
    """The first number of a plastic projection that is not finite after a rule was called.

    Attributes:
        plastic: The projection.
        called: What called the rule, such as "on_pre".
        rule: The name of the rule.
        state: "w", or a state of the synapse.
        synapse: The synapse, by source, delay and target.
        value: The number.
    """

    plastic: PlasticPlan
    called: str
    rule: str
    state: str
    synapse: int
    value: Any


def fault_of(plastic: PlasticPlan, bits: int, synapses: Mapping[str, Any]) -> SynapseFault | None:
    """Return the first synapse that is not finite after a step, given bits of the rules that made some so."""
    called, rule = plastic.rules.all[(bits & -bits).bit_length() - 1]
    for name, values in synapses.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            return SynapseFault(plastic, called, rule.name, name, int(bad[0]), values[bad[0]])
    return None


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


def check_synapses(step: int, faults: Sequence[SynapseFault]) -> None:
    """Raise `NotFiniteError` for the first fault of a step."""
    for fault in faults:
        plastic, given = fault.plastic, fault.plastic.synapses
        source, target = (int(x[given.order][fault.synapse]) for x in (given.sources, given.targets))
        what = "weight w" if fault.state == "w" else f"state {fault.state}"
        raise NotFiniteError(
            f"projection {plastic.name}: {what} of synapse {fault.synapse}, from neuron {source} of {plastic.source} "
            f"to neuron {target} of {plastic.target}, is {fault.value} after {fault.called} called its rule "
            f"{fault.rule} in step {step}; look at what the rule reads, or at a division or logarithm in it"
        )


def check_synapses_of(plan: Plan, step: int, synapses: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `NotFiniteError` for the first number of plastic synapses that is not finite after a step of any rule."""
    for plastic in plan.plastic:
        for state, values in synapses[plastic.name].items():
            if not np.isfinite(values).all():
                place = int(np.flatnonzero(~np.isfinite(values))[0])
                names = ", ".join(dict.fromkeys(rule.name for _, rule in plastic.rules.all))
                check_synapses(step, [SynapseFault(plastic, "a call", names, state, place, values[place])])
