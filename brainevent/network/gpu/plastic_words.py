# SPDX-License-Identifier: Apache-2.0
"""What the table of plastic synapses has, word by word: addresses and numbers, for kernels and for Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..plan.plan import Plan
from ..plan.plastic import SPIKE, Past, kept_of, traces_of

__all__ = ["PlasticWords"]

_OF_LIST = ("lines", "width", "mask")  # the structure `List` of "plastic.cu"
_OF_PROJECTION = (
    *("sources", "size", "rows", "reach", "first_number", "places", "entry_bits", "per_unit", "faults"),
    *("bases", "starts", "targets", "which", "distinct", "into", "incoming", "more", "weights", "newest", "steps"),
)


@dataclass(frozen=True, eq=False)
class PlasticWords:
    """The words of the table of a network's plastic synapses, and the lists of events that they need.

    Of several GPUs, there are `gpus`, and each writes what it tells the others to where these have it.
    """

    plan: Plan
    gpus: int = 1

    @cached_property
    def kept(self) -> dict[str, Past]:
        """What is kept of the events and states of each population."""
        return kept_of(self.plan.plastic, self.plan.pasts)

    @cached_property
    def lists(self) -> list[tuple[str, str]]:
        """Population and event of each list."""
        return [(name, event) for name, kept in self.kept.items() for event in kept.events]

    @cached_property
    def carried(self) -> list[tuple[str, str]]:
        """Population and name of what travels with spikes, states and values: names as in a state of the network."""
        return [(name, number) for name, kept in self.kept.items() for number in kept.numbers]

    @cached_property
    def places(self) -> dict[tuple[str, ...], int]:
        """The place of each word: of a list, of what travels with spikes, or of a projection."""
        names: list[tuple[str, ...]] = []
        for one in self.lists:
            names += [("list", *one, field) for field in (*_OF_LIST, *self.others)]
        names += [("kept", *one, *on) for one in self.carried for on in [(), *((gpu,) for gpu in self.others)]]
        for plastic in self.plan.plastic:
            rules, own = plastic.rules, ("projection", plastic.name)
            names += [(*own, field) for field in _OF_PROJECTION]
            names += [(*own, "s", name) for name in rules.states] + [(*own, "p", name) for name in rules.params]
            names += [(*own, "last", side) for side in ("pre", "post")]
            names += [(*own, "carried", name) for name, _ in rules.carried]
            names += [(*own, kind, key) for key, _ in traces_of(plastic) for kind in ("trace", "rate", "add")]
            names += [(*own, "every", str(k)) for k in range(len(rules.every))]
        return {name: place for place, name in enumerate(names)}

    @cached_property
    def told(self) -> tuple[bool, ...]:
        """Whether all GPUs read a list, for each of them: spikes of sources."""
        sources = {plastic.source for plastic in self.plan.plastic}
        return tuple(event == SPIKE and name in sources for name, event in self.lists)

    @property
    def others(self) -> list[str]:
        """The numbers of the GPUs, if there are several."""
        return [str(number) for number in range(self.gpus)] if self.gpus > 1 else []

    def of(self, *name: str) -> int:
        """Return the place of a word."""
        return self.places[name]

    def list_of(self, population: str, event: str = SPIKE) -> int:
        """Return the number of a list."""
        return self.lists.index((population, event))
