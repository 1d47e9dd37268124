# SPDX-License-Identifier: Apache-2.0
"""`SynapsesOnDemand`: the synapses of a plan as a sequence, of which some are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from .plan import SynapsePlan
from .projections import ProjectionPlan

__all__ = ["SynapsesOnDemand"]


class SynapsesOnDemand(Sequence[SynapsePlan]):
    """All synapses of a plan, one projection at a time.

    Attributes:
        projections: What is known of each projection.
        held: Synapses that are held as they are, by their place in the sequence; the others are made.
    """

    projections: list[ProjectionPlan]
    held: dict[int, SynapsePlan]

    def made(self, place: int) -> SynapsePlan:
        """Return the synapses of a projection that are not held."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.projections)

    def __iter__(self) -> Iterator[SynapsePlan]:
        return (self[place] for place in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> SynapsePlan: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SynapsePlan]: ...
    def __getitem__(self, place: int | slice) -> SynapsePlan | Sequence[SynapsePlan]:
        """Return the synapses of a projection."""
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        place = range(len(self))[place]
        return self.held[place] if place in self.held else self.made(place)
