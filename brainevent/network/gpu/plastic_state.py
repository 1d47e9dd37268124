# SPDX-License-Identifier: Apache-2.0
"""What the GPUs of a network have of its plastic synapses, as one `NetworkState`; and which of them are not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..pages import aligned
from ..plan.plastic import PlasticPlan
from ..run.finite import SynapseFault, fault_of
from ..state import NetworkState, initial_traces, no_past
from .plastic import Plastic

__all__ = ["faults_of", "read_plastic", "synapses_of_build"]

Array = Any


def read_plastic(parts: Sequence[Plastic], state: NetworkState) -> NetworkState:
    """Return a state with what it has of plastic synapses, copied from one GPU or several."""
    plan = parts[0].plan
    synapses = {one.name: _read(parts, one) for one in plan.plastic}
    traces = {one.name: initial_traces(plan, one) for one in plan.plastic}
    found = replace(state, synapses=synapses, traces=traces, past={name: no_past(plan, name) for name in plan.pasts})
    for part in parts:
        part.read_into(found)
    return found


def synapses_of_build(parts: Sequence[Plastic], given: NetworkState) -> dict[str, Mapping[str, Array]]:
    """Return all weights and states of synapses: those of a state, or of the build where that has none."""
    missing = [one for one in parts[0].plan.plastic if one.name not in given.synapses]
    for one in missing:
        for part in parts:
            part.draw(one)
    return {**given.synapses, **{one.name: _read(parts, one) for one in missing}}


def _read(parts: Sequence[Plastic], plastic: PlasticPlan) -> dict[str, Array]:
    """Return weights and states of the synapses of a projection, copied."""
    found = {name: aligned((plastic.entries,), np.float32) for name in ("w", *plastic.rules.states)}
    for part in parts:
        part.read_synapses(plastic, found)
    return found


def faults_of(parts: Sequence[Plastic]) -> list[SynapseFault]:
    """Return the first synapse of each projection that its rules made infinite or NaN in the last step."""
    noted = np.bitwise_or.reduce([part.noted() for part in parts])
    bad = [(one, int(bits)) for one, bits in zip(parts[0].plan.plastic, noted, strict=True) if bits]
    found = (fault_of(one, bits, _read(parts, one)) for one, bits in bad)
    return [fault for fault in found if fault is not None]
