# SPDX-License-Identifier: Apache-2.0
"""`Coupling`: synapses that carry a state in every step: gap junctions, rate neurons, graded synapses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import NetworkError, did_you_mean
from .checks import check_numbers, is_word
from .connect import Connect
from .parts import Part
from .populations import Population, check_end, population_of

__all__ = ["Coupling"]


@dataclass(frozen=True, eq=False)
class Coupling:
    """Synapses that carry a state of the source in every step, instead of its spikes.

    In each step, the receptor gets the sum over all synapses of weight times the state of the source neuron before the
    step; with `difference`, of weight times that state minus the same state of the target neuron. The sum is added to
    what spikes and then inputs bring. Unlike sums of spikes it is a sum of floats, in the order of the synapses: by
    source neuron, then as they were drawn or given. So it has the same bits on every engine, too.

    Args:
        source: Population whose state they carry, or a part of it, as of a `Projection`.
        target: Population that receives it, or a part of it.
        connect: Which neurons they connect, and with which weights, as for a `Projection`. Drawn weights are multiples
            of 2**-30 of the largest that there may be, rounded up to a power of two; other weights are floats as given.
        of: The state of the source that is carried: one of floats.
        into: What the sum adds to: the name that the target's rule reads in `arriving`. Projections may add to it, too.
        difference: Whether the synapses carry the difference between source and target, as gap junctions do.
        name: Its name; without one it is "source->target.into", with "#2" for the second of that name.

    Raises:
        NetworkError: The source or target is no population or part, or has no such state; a name is not valid, or
            `connect` is neither numbers nor a description.

    Examples:
        >>> import brainevent as be
        >>> def leaky(s, arriving, p):
        ...     return s.replace(v=0.9 * s.v + arriving.gap), s.v > 1
        >>> cells = be.Population("cells", 100, leaky, state=dict(v=0.0))
        >>> be.Coupling(cells, cells, be.connect.prob(0.1, weight=0.5), of="v", into="gap", difference=True)
        Coupling('cells->cells.gap', prob(0.1, weight=0.5), of='v', difference=True)
    """

    source: Population | Part
    target: Population | Part
    connect: Any
    of: str = "v"
    into: str = "gap"
    difference: bool = False
    name: str | None = None

    delay = None  # of all: one step
    plasticity = None  # their weights do not change

    def __post_init__(self) -> None:
        for what in ("source", "target"):
            check_end(f"Coupling: {what}", getattr(self, what))
        ends = f"coupling {self.source.name}->{self.target.name}"
        if not is_word(self.into) or not self.into.isidentifier():
            raise NetworkError(
                f"{ends}: into is {self.into!r}; pass the name that the target's rule reads in `arriving`"
            )
        if self.name is not None and not is_word(self.name):
            raise NetworkError(f"Coupling: name is {self.name!r}; pass a string that is not empty, or None")
        where = f"coupling {self.usual_name}"
        if not isinstance(self.difference, bool):
            raise NetworkError(f"{where}: difference is {self.difference!r}; pass True or False")
        _check_state(where, self.populations[0], self.of, "")
        if self.difference:
            _check_state(where, self.populations[1], self.of, "difference=True needs this state of the target, too: ")
        if not isinstance(self.connect, Connect) and not hasattr(self.connect, "todense"):
            check_numbers(f"{where}: connect", self.connect, "a description such as connect.prob(0.1), or a matrix")

    @property
    def populations(self) -> tuple[Population, Population]:
        """The populations of source and target, also where these are parts."""
        return population_of(self.source), population_of(self.target)

    @property
    def usual_name(self) -> str:
        """The name, or its default."""
        return self.name or f"{self.source.name}->{self.target.name}.{self.into}"

    def __repr__(self) -> str:
        how = self.connect if isinstance(self.connect, Connect) else type(self.connect).__name__
        difference = ", difference=True" if self.difference else ""
        return f"Coupling({self.usual_name!r}, {how}, of={self.of!r}{difference})"


def _check_state(where: str, population: Population, of: Any, why: str) -> None:
    states = list(population.state)
    if of not in states:
        guess = did_you_mean(of, states) if isinstance(of, str) else ""
        raise NetworkError(
            f"{where}: of is {of!r}; {why}{population.name} has no such state{guess}; its states are "
            f"{', '.join(states) or 'none'}"
        )
