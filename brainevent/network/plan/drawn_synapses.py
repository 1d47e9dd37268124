# SPDX-License-Identifier: Apache-2.0
"""`DrawnSynapses`: the synapses of a plan that a device draws, so that the host does not hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .finer import finer
from .on_demand import SynapsesOnDemand
from .plan import SynapsePlan
from .projections import ProjectionPlan, projection_of
from .wiring import Wiring

__all__ = ["Description", "DrawnSynapses", "Measure", "Measured"]

Array = Any


@dataclass(frozen=True, eq=False)
class Description:
    """What determines the synapses of a projection, on whichever device they are drawn.

    Weights are drawn in quanta; `times` is how many quanta of the plan are one of these.
    """

    wiring: Wiring
    quantum: np.floating[Any]
    seed: int
    times: int = 1


@dataclass(frozen=True, eq=False)
class Measured:
    """What follows from the synapses of a description.

    `loads` are sums of |weight| into each target, in quanta; `rounded` is how many weights were rounded by more than
    2^-9 of their value.
    """

    about: ProjectionPlan
    loads: Array
    rounded: int


class Measure(Protocol):
    """Draws the synapses of a description on a device, and returns what follows from them; None if it cannot."""

    def __call__(self, description: Description) -> Measured | None:
        """Measure the synapses of a description."""

    def done(self) -> None:
        """Give back the memory that is kept from one description to the next."""


class DrawnSynapses(SynapsesOnDemand):
    """All synapses of a plan, one projection at a time: those that are descriptions are drawn when they are asked for.

    Attributes:
        projections: What is known of each projection.
        descriptions: Those of synapses that are not held, by their place in the sequence.
        held: The other synapses, likewise.
        measure: Measures other descriptions on the same device.
    """

    def __init__(self, parts: int, measure: Measure | None = None):
        self.parts, self.measure = parts, measure
        self.projections: list[ProjectionPlan] = []
        self.descriptions: dict[int, Description] = {}
        self.held: dict[int, SynapsePlan] = {}

    def add(self, description: Description, about: ProjectionPlan) -> None:
        """Add a projection that a device draws."""
        self.descriptions[len(self.projections)] = description
        self.projections.append(about)

    def hold(self, synapses: SynapsePlan) -> None:
        """Add a projection that the host has drawn."""
        self.held[len(self.projections)] = synapses
        self.projections.append(projection_of(synapses))

    @property
    def nbytes(self) -> int:
        """How much memory all synapses take as arrays, wherever they are."""
        return sum(projection.nbytes for projection in self.projections)

    def made(self, place: int) -> SynapsePlan:
        """Draw the synapses of a projection on the host."""
        from .synapses import placed_synapses  # compiled loops

        one = self.descriptions[place]
        return finer(placed_synapses(one.wiring, one.quantum, one.seed, self.parts).synapses, one.times)

    def replaced(self, synapses: Mapping[int, SynapsePlan | tuple[Description, ProjectionPlan]]) -> DrawnSynapses:
        """Return all with other synapses in some places: held, or a description and what is known of it."""
        result = DrawnSynapses(self.parts, self.measure)
        result.projections, result.held, result.descriptions = [*self.projections], {**self.held}, {**self.descriptions}
        for place, one in synapses.items():
            result.held.pop(place, None)
            result.descriptions.pop(place, None)
            if isinstance(one, SynapsePlan):
                result.held[place], result.projections[place] = one, projection_of(one)
            else:
                result.descriptions[place], result.projections[place] = one
        return result
