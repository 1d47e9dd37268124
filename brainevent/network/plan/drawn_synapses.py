# SPDX-License-Identifier: Apache-2.0
"""`DrawnSynapses`: the synapses of a plan that a device draws, so that the host does not hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .on_demand import SynapsesOnDemand
from .plan import SynapsePlan
from .projections import ProjectionPlan, projection_of
from .wiring import Wiring

__all__ = ["Description", "DrawnSynapses", "Measure", "Measured"]

Array = Any


@dataclass(frozen=True, eq=False)
class Description:
    """What determines the synapses of a projection, on whichever device they are drawn."""

    wiring: Wiring
    quantum: np.floating[Any]
    seed: int


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


class DrawnSynapses(SynapsesOnDemand):
    """All synapses of a plan, one projection at a time: those that are descriptions are drawn when they are asked for.

    Attributes:
        projections: What is known of each projection.
        descriptions: Those of synapses that are not held, by their place in the sequence.
        held: The other synapses, likewise.
    """

    def __init__(self, parts: int):
        self.parts = parts
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
        return placed_synapses(one.wiring, one.quantum, one.seed, self.parts).synapses

    def replaced(self, place: int, synapses: SynapsePlan) -> DrawnSynapses:
        """Return all with other synapses in the place of a projection's."""
        result = DrawnSynapses(self.parts)
        result.projections, result.held = [*self.projections], {**self.held, place: synapses}
        result.projections[place] = projection_of(synapses)
        result.descriptions = {k: one for k, one in self.descriptions.items() if k != place}
        return result
