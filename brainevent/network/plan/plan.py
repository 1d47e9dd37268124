# SPDX-License-Identifier: Apache-2.0
"""`Plan`: a network that is built, as arrays and traced rules: what every engine runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ...scalar.trace import TracedRule
from .projections import ProjectionPlan, projection_of

__all__ = ["IN_LINE", "Plan", "PopulationPlan", "SynapsePlan", "part_bounds"]

IN_LINE = 16  # numbers of 32 bits in a line of cache
_LARGE = 256  # neurons

Array = Any


def part_bounds(size: int, parts: int) -> Array:
    """Return where the parts of a population begin and end: part p has neurons bounds[p] to bounds[p + 1] - 1.

    Large parts begin with a line of cache: two threads then never write the same one.
    """
    bounds = np.arange(parts + 1, dtype=np.int64) * size // parts
    if size >= _LARGE * parts:
        bounds[1:-1] &= -IN_LINE
    return bounds


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


@dataclass(frozen=True, eq=False)
class Plan:
    """A network as engines run it.

    `parts` is the number of parts into which each population, with the synapses that end there, is divided: one for
    each thread. No result depends on it. `fingerprint` names the description, seed included, in checkpoints. `dtype`
    is that of all floats: of states, parameters, what arrives, and the rules. `given` are the receptors whose quanta
    the user gave, and with them the rounding of weights. `repeats` are groups of names of projections that are the same
    but for their names. `loads` are the largest sums of |weight| into a neuron that are known, in quanta, by population
    and receptor (`largest_load` adds up the others).
    """

    populations: tuple[PopulationPlan, ...]
    synapses: Sequence[SynapsePlan]
    dt: float
    seed: int
    parts: int
    fingerprint: str
    check_finite: bool = False
    dtype: str = "float32"
    given: Collection[tuple[str, str]] = ()
    repeats: tuple[tuple[str, ...], ...] = ()
    loads: dict[tuple[str, str], int] = field(default_factory=dict)

    def replaced(
        self, synapses: Mapping[int, Any], quanta: Mapping[tuple[str, str], Any] = MappingProxyType({})
    ) -> Plan:
        """Return the plan with other synapses, by their places among all, and other quanta, by receptor."""
        populations = tuple(
            replace(p, quanta={key: quanta.get((p.name, key), quantum) for key, quantum in p.quanta.items()})
            for p in self.populations
        )
        made = getattr(self.synapses, "replaced", None)
        all_ = tuple(synapses.get(k, one) for k, one in enumerate(self.synapses)) if made is None else made(synapses)
        ends = {(self.projections[place].target, self.projections[place].receptor) for place in synapses} | {*quanta}
        loads = {end: load for end, load in self.loads.items() if end not in ends}
        return replace(self, populations=populations, synapses=all_, loads=loads)

    def place(self, projection: str) -> int:
        """Return the place of a projection among all."""
        return [one.name for one in self.projections].index(projection)

    def population(self, name: str) -> PopulationPlan:
        """Return the population of a name."""
        return next(population for population in self.populations if population.name == name)

    def rows(self, population: str, receptor: str) -> int:
        """Return for how many steps ahead sums are held: the largest delay into a receptor, at least 1."""
        into = (p for p in self.projections if (p.target, p.receptor) == (population, receptor))
        return max((p.largest_delay for p in into), default=1)

    @cached_property
    def projections(self) -> Sequence[ProjectionPlan]:
        """What is known of each projection, without its synapses."""
        known: Sequence[ProjectionPlan] | None = getattr(self.synapses, "projections", None)
        return [projection_of(synapses) for synapses in self.synapses] if known is None else known

    @cached_property
    def quanta(self) -> tuple[tuple[str, str, float], ...]:
        """Population, receptor and quantum, of each receptor."""
        return tuple(
            (p.name, receptor, float(quantum)) for p in self.populations for receptor, quantum in p.quanta.items()
        )

    @property
    def synapse_bytes(self) -> int:
        """How much memory all synapses take."""
        known: int | None = getattr(self.synapses, "nbytes", None)
        return sum(one.nbytes for one in self.synapses) if known is None else known

    def receptors(self) -> Iterator[tuple[str, str]]:
        """Yield population and receptor, of each."""
        return ((population.name, receptor) for population in self.populations for receptor in population.quanta)
