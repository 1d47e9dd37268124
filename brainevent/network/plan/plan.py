# SPDX-License-Identifier: Apache-2.0
"""`Plan`: a network that is built, as arrays and traced rules: what every engine runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, overload

import numpy as np

from ..._warned import warn_each_time
from ...scalar.trace import TracedRule
from .couplings import CouplingPlan
from .graded import reach
from .plastic import SPIKE, Past, PlasticPlan, pasts_of
from .projections import ProjectionPlan, projection_of
from .quantum import RoundedWeightsWarning

__all__ = [
    "IN_LINE",
    "Link",
    "Made",
    "Plan",
    "PopulationPlan",
    "Source",
    "SynapsePlan",
    "Synapses",
    "held",
    "part_bounds",
]

IN_LINE = 16  # numbers of 32 bits in a line of cache
_LARGE = 256  # neurons

Array = Any


def part_bounds(size: int, parts: int, owned: tuple[int, int] | None = None) -> Array:
    """Return where the parts of a population begin and end: part p has neurons bounds[p] to bounds[p + 1] - 1.

    Large parts begin with a line of cache: two threads then never write the same one. If neurons are `owned`, from the
    first number to before the second, the parts are those of these neurons.
    """
    low, high = (0, size) if owned is None else owned
    bounds = np.arange(parts + 1, dtype=np.int64) * (high - low) // parts
    if high - low >= _LARGE * parts:
        bounds[1:-1] &= -IN_LINE
    return bounds + low


@dataclass(frozen=True, eq=False)
class PopulationPlan:
    """Neurons of one rule.

    `state` has an array (size,) for each state, of the dtype of the form. `params` has a scalar (), the same for all
    neurons, or an array (size,). `quanta` says for each receptor what one unit of its integer sums is worth: no
    denormal, and of the dtype of the plan. `key` are the two words, below 2**32, from which all random numbers of the
    population follow. `units` are declared, of states, parameters and receptors: what a user gives later must fit.
    """

    name: str
    size: int
    rule: TracedRule
    state: Mapping[str, Array]
    params: Mapping[str, Array]
    quanta: Mapping[str, np.floating[Any]]
    key: tuple[int, int]
    units: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, eq=False)
class SynapsePlan:
    """Synapses of one projection, by source neuron, and within a source by the part of the network that they end in.

    Source neuron i has the entries `starts[i * parts + p]` to `starts[i * parts + p + 1] - 1` in part p of the target
    population (`part_bounds`), sorted by delay and then by target. An entry is a target neuron, a weight in quanta of
    the receptor and a delay in steps, of at least 1. Entries of one pair of neurons add up.

    `targets` is uint16 where the target population has at most 2**16 neurons, else int32. `weights` is int16 or int32,
    and has one element if it is the same for all. `delays` is uint8 or uint16, likewise. `rounding` is by how much a
    weight differs at most from the one that was asked for.
    """

    name: str
    source: str
    target: str
    receptor: str
    starts: Array
    targets: Array
    weights: Array
    delays: Array
    rounding: float = 0.0

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(int(array.nbytes) for array in (self.starts, self.targets, self.weights, self.delays))


class Made(Protocol):
    """Synapses of a projection that are made when they are asked for: out of a bundle, or drawn from a description."""

    def made(self, about: ProjectionPlan) -> SynapsePlan:
        """Return the synapses, given what is known of the projection."""

    @property
    def nbytes(self) -> int:
        """How much memory they take on the host."""


Source = SynapsePlan | Made
Link = ProjectionPlan | CouplingPlan
Arrange = Callable[[Mapping[int, SynapsePlan]], Mapping[int, Source]]


class Synapses(Sequence[SynapsePlan]):
    """All synapses of a plan, one projection at a time: held as they are, or made when they are asked for.

    There are three makers: `held` in this file, `bundled` in `bundles.py`, and a build on a device in `drawing.py`.

    Attributes:
        projections: What is known of each projection.
        sources: Where the synapses of each are.
        arrange: Puts all synapses from one population, by their places, where engines want them; None leaves them.
        measure: Draws synapses of descriptions on the device that has them; None on a host.
    """

    def __init__(
        self,
        projections: Sequence[ProjectionPlan],
        sources: Sequence[Source],
        arrange: Arrange | None = None,
        measure: Any = None,
    ):
        self.projections, self.sources, self.arrange, self.measure = projections, sources, arrange, measure

    @property
    def held(self) -> dict[int, SynapsePlan]:
        """Synapses that are held as they are, by their places."""
        return {k: source for k, source in enumerate(self.sources) if isinstance(source, SynapsePlan)}

    def replaced(self, others: Mapping[int, tuple[Source, ProjectionPlan]]) -> Synapses:
        """Return all with others, between the same populations, in some places; those left are shared."""
        sources = {**dict(enumerate(self.sources)), **{place: source for place, (source, _) in others.items()}}
        projections = [others[k][1] if k in others else about for k, about in enumerate(self.projections)]
        changed = Synapses(projections, [sources[k] for k in range(len(self))], self.arrange, self.measure)
        if self.arrange is not None:
            for name in dict.fromkeys(projections[place].source for place in others):
                sources |= self.arrange({k: changed[k] for k, about in enumerate(projections) if about.source == name})
            changed.sources = [sources[k] for k in range(len(self))]
        return changed

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, place: int) -> SynapsePlan: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SynapsePlan]: ...
    def __getitem__(self, place: int | slice) -> SynapsePlan | Sequence[SynapsePlan]:
        """Return the synapses of a projection."""
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        source = self.sources[place]
        return source if isinstance(source, SynapsePlan) else source.made(self.projections[place])


def held(all_: Sequence[SynapsePlan]) -> Synapses:
    """Return synapses as they are."""
    return Synapses([projection_of(one) for one in all_], list(all_))


@dataclass(frozen=True, eq=False)
class Plan:
    """A network as engines run it.

    `parts` is the number of parts into which each population, with the synapses that end there, is divided: one for
    each thread. No result depends on it. `fingerprint` names the description, seed included, in checkpoints. `dtype`
    is that of all floats: of states, parameters, what arrives, and the rules. `given` are the receptors whose quanta
    the user gave, and with them the rounding of weights. `repeats` are groups of names of projections that are the same
    but for their names. `loads` are the largest sums of what is delivered to a neuron that are known, in quanta, by
    population and receptor (`largest_load` adds up the others). `rounded` are warnings of weights that were rounded by
    much, by projection, for when they are used: `warn_of_rounding`. `synapses` are those with fixed weights, `plastic`
    those that change, and `couplings` carry states. `ends` are numbers of sources and targets, None for all neurons, of
    projections and couplings between parts of populations, by their names. `owned` are the neurons of each population
    that have parts, in the plan of one of several processes: from the first number to before the second; without them,
    all are. `looked` says of probabilities that are functions for how many pairs of neurons, and of how many, they were
    computed, by projection. `facts` are what was found out about the synapses, small, by what it is and a name.
    """

    populations: tuple[PopulationPlan, ...]
    synapses: Synapses
    dt: float
    seed: int
    parts: int
    fingerprint: str
    check_finite: bool = False
    dtype: str = "float32"
    given: Collection[tuple[str, str]] = ()
    repeats: tuple[tuple[str, ...], ...] = ()
    loads: dict[tuple[str, str], int] = field(default_factory=dict)
    rounded: Mapping[str, str] = field(default_factory=dict)
    plastic: tuple[PlasticPlan, ...] = ()
    couplings: tuple[CouplingPlan, ...] = ()
    ends: Mapping[str, tuple[Array | None, Array | None]] = field(default_factory=dict)
    owned: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    looked: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    facts: dict[tuple[str, Any, int], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Accept synapses as a sequence."""
        if not isinstance(self.synapses, Synapses):
            object.__setattr__(self, "synapses", held(self.synapses))

    def replaced(
        self,
        synapses: Mapping[int, SynapsePlan | tuple[Source, ProjectionPlan]],
        quanta: Mapping[tuple[str, str], Any] = MappingProxyType({}),
    ) -> Plan:
        """Return the plan with other synapses, by their places among all, and other quanta, by receptor."""
        populations = tuple(
            replace(p, quanta={key: quanta.get((p.name, key), quantum) for key, quantum in p.quanta.items()})
            for p in self.populations
        )
        others = {k: one if isinstance(one, tuple) else (one, projection_of(one)) for k, one in synapses.items()}
        ends = {(self.projections[place].target, self.projections[place].receptor) for place in synapses} | {*quanta}
        loads = {end: load for end, load in self.loads.items() if end not in ends}
        names = {self.projections[place].name for place in synapses}
        rounded = {name: text for name, text in self.rounded.items() if name not in names}
        all_ = self.synapses.replaced(others)
        return replace(self, populations=populations, synapses=all_, loads=loads, rounded=rounded)

    def fact(self, what: str, name: Any, found: Callable[[], Any]) -> Any:
        """Return what is known of the synapses of a projection or a receptor; `found` finds it out the first time."""
        key = what, name, self.parts
        if key not in self.facts:
            self.facts[key] = found()
        return self.facts[key]

    def warn_of_rounding(self, given: Collection[str] = ()) -> None:
        """Warn of weights that were rounded by much, but for those of projections whose weights are given."""
        for name, text in self.rounded.items():
            if name not in given:
                warn_each_time(text, RoundedWeightsWarning)

    def place(self, projection: str) -> int:
        """Return the place of a projection among all."""
        return [one.name for one in self.projections].index(projection)

    def population(self, name: str) -> PopulationPlan:
        """Return the population of a name."""
        return next(population for population in self.populations if population.name == name)

    def bounds(self, population: str) -> Array:
        """Return where the parts of a population begin and end, as `part_bounds` does."""
        return part_bounds(self.population(population).size, self.parts, self.owned.get(population))

    def reach(self, source: str, least: int) -> float:
        """Return by which factor synapses deliver more than their |weights|, of which the smallest is given."""
        return reach(self.population(source).rule.value_range, least)

    def rows(self, population: str, receptor: str) -> int:
        """Return for how many steps ahead sums are held: the largest delay into a receptor, at least 1."""
        into = (p.largest_delay for p in self.projections if (p.target, p.receptor) == (population, receptor))
        plastic = (p.pending_rows for p in self.plastic if (p.target, p.receptor) == (population, receptor))
        return max((*into, *plastic), default=1)

    @cached_property
    def pasts(self) -> Mapping[str, Past]:
        """What of the last steps is kept for plastic synapses, by population."""
        return pasts_of(self.plastic)

    @cached_property
    def other_events(self) -> Mapping[str, tuple[str, ...]]:
        """The events besides spikes that call rules of plastic synapses, by population."""
        found = {p.name: set[str]() for p in self.populations}
        for one in self.plastic:
            found[one.target] |= {event for event, _ in one.rules.on_post if event != SPIKE}
        return {name: tuple(sorted(events)) for name, events in found.items()}

    @cached_property
    def plastic_by_name(self) -> Mapping[str, PlasticPlan]:
        """Plastic projections by their names."""
        return {one.name: one for one in self.plastic}

    @property
    def params(self) -> dict[str, Mapping[str, Array]]:
        """Parameters of the build, by population and by plastic projection."""
        rules = {name: one.rules.params for name, one in self.plastic_by_name.items()}
        return {**{p.name: p.params for p in self.populations}, **rules}

    @property
    def projection_names(self) -> list[str]:
        """The names of all projections: those with fixed weights first."""
        return [*(one.name for one in self.projections), *self.plastic_by_name]

    @property
    def projections(self) -> Sequence[ProjectionPlan]:
        """What is known of each projection with fixed weights, without its synapses."""
        return self.synapses.projections

    @cached_property
    def quanta(self) -> tuple[tuple[str, str, float], ...]:
        """Population, receptor and quantum, of each receptor."""
        return tuple(
            (p.name, receptor, float(quantum)) for p in self.populations for receptor, quantum in p.quanta.items()
        )

    @property
    def entries(self) -> int:
        """How many synapses there are."""
        return sum(one.entries for one in (*self.links(), *self.plastic))

    @property
    def synapse_bytes(self) -> int:
        """How much memory all synapses take; those of a device without tables of rows."""
        others = sum(one.nbytes for one in self.plastic) + sum(one.nbytes for one in self.couplings)
        if self.synapses.measure is not None:
            return others + sum(projection.nbytes for projection in self.projections)
        return others + sum(source.nbytes for source in self.synapses.sources)

    @cached_property
    def coupled(self) -> dict[tuple[str, str], tuple[CouplingPlan, ...]]:
        """The couplings into each receptor that has some, by population and receptor."""
        return {
            place: tuple(one for one in self.couplings if one.place == place)
            for place in dict.fromkeys(one.place for one in self.couplings)
        }

    def shown(self, population: str) -> tuple[str, ...]:
        """Return the states of a population that couplings read, in its order."""
        names = {
            one.state
            for one in self.couplings
            if one.source == population or (one.difference and one.target == population)
        }
        return tuple(name for name in self.population(population).state if name in names)

    def coupling(self, name: str) -> CouplingPlan | None:
        """Return the coupling of a name; None if there is none."""
        return next((coupling for coupling in self.couplings if coupling.name == name), None)

    def has_synapses_of(self, other: Plan) -> bool:
        """Say whether two plans share all synapses, with their weights."""
        ours, theirs = ((x.synapses, x.plastic, x.couplings) for x in (self, other))
        return all(one is another for one, another in zip(ours, theirs, strict=True))

    def links(self) -> Iterator[Link]:
        """Yield what is known of all projections, then all couplings: what connects populations."""
        yield from self.projections
        yield from self.couplings

    def receptors(self) -> Iterator[tuple[str, str]]:
        """Yield population and receptor, of each."""
        return ((population.name, receptor) for population in self.populations for receptor in population.quanta)
