# SPDX-License-Identifier: Apache-2.0
"""`Connections`: the synapses of a projection, as arrays with one element for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from .plan import Plan, SynapsePlan

__all__ = ["Connections", "connections", "span", "weights_of"]

_TOLD_APART = 2**23  # quanta: float32 tells numbers of them apart, also divided by the quantum again

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class Connections:
    """Synapses of one projection, by source neuron, in the order of its weights in `Simulation.params`.

    Where delays differ, the order of synapses of one source depends on the number of threads of the build.

    Attributes:
        name: Name of the projection.
        sources: Source neuron of each synapse: int32.
        targets: Target neuron of each synapse: int32.
        weights: Weight as it is delivered, a multiple of the receptor's quantum: float32, or float64 where float32
            does not tell such multiples apart, and in a network of float64.
        delays: Delay in milliseconds: float64.
    """

    name: str
    sources: Array
    targets: Array
    weights: Array
    delays: Array

    def __len__(self) -> int:
        """Return how many synapses there are."""
        return int(self.targets.size)

    def __repr__(self) -> str:
        if not len(self):
            return f"Connections({self.name!r}, no synapses)"
        weights, delays = (span(part.min(), part.max()) for part in (self.weights, self.delays))
        return f"Connections({self.name!r}, {len(self)} synapses, weights {weights}, delays {delays} ms)"


def connections(plan: Plan, name: str) -> Connections:
    """Return the synapses of a projection."""
    names = [projection.name for projection in plan.projections]
    if name not in names:
        raise NetworkError(
            f"connections: there is no projection {name!r}{did_you_mean(name, names)}; "
            f"projections: {', '.join(names) or 'none'}"
        )
    synapses = plan.synapses[names.index(name)]
    size, entries = plan.population(synapses.source).size, synapses.targets.size
    sources = np.repeat(np.arange(size, dtype=np.int32), np.diff(synapses.starts[:: plan.parts]))
    weights, delays = weights_of(plan, synapses), synapses.delays * plan.dt
    weights, delays = (np.broadcast_to(part, entries) if part.size == 1 else part for part in (weights, delays))
    return Connections(name, sources, synapses.targets.astype(np.int32), weights, delays)


def span(low: float, high: float) -> str:
    """Return two numbers as a range, or as one if they are equal."""
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def weights_of(plan: Plan, synapses: SynapsePlan) -> Array:
    """Return the weights of a projection as numbers, of which each is one number of quanta: one for each entry or all.

    They are float32, or float64 where that is needed.
    """
    quantum = plan.population(synapses.target).quanta[synapses.receptor]
    wide = synapses.weights * np.float64(quantum)
    if plan.dtype == "float64" or np.abs(synapses.weights).max(initial=0) >= _TOLD_APART:
        return wide
    return wide.astype(np.float32)
