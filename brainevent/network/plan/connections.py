# SPDX-License-Identifier: Apache-2.0
"""`Connections`: the synapses of a projection or coupling, as arrays with one element for each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ...spikes.plots import plot_weights
from .plan import Plan, SynapsePlan, Synapses
from .projections import ProjectionPlan

if TYPE_CHECKING:
    from ...bench.plot.draw import Figure

__all__ = ["Connections", "connections", "in_one_part", "one_weight_of", "order_of", "plastic_connections", "span"]
__all__ += ["weights_of"]

_TOLD_APART = 2**23  # quanta: float32 holds numbers below this exactly, also after division by the quantum

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class Connections:
    """Synapses of one projection, by source, delay and target: the order of its weights in `Simulation.params`.

    It is the same for any number of threads. Synapses of a coupling have a delay of one step.

    Attributes:
        name: Name of the projection or coupling.
        sources: Source neuron of each synapse: int32.
        targets: Target neuron of each synapse: int32.
        weights: Weight as it is delivered, a multiple of the receptor's quantum: float32, or float64 where float32
            does not tell such multiples apart, and in a network of float64. Of a coupling it is no multiple, and of
            plastic synapses the weight itself.
        delays: Delay in milliseconds: float64.
        shape: Numbers of neurons of the source and of the target population.
    """

    name: str
    sources: Array
    targets: Array
    weights: Array
    delays: Array
    shape: tuple[int, int]

    def __len__(self) -> int:
        """Return how many synapses there are."""
        return int(self.targets.size)

    def __repr__(self) -> str:
        if not len(self):
            return f"Connections({self.name!r}, no synapses)"
        weights, delays = (span(part.min(), part.max()) for part in (self.weights, self.delays))
        return f"Connections({self.name!r}, {len(self)} synapses, weights {weights}, delays {delays} ms)"

    def plot(self, **options: Any) -> Figure:
        """Draw the weights, as `plot_weights` does: sources down, targets across.

        Args:
            **options: What `plot_weights` takes, such as `title="Weights"`.

        Returns:
            The figure.

        Raises:
            ImportError: If matplotlib is not installed.

        Examples:
            >>> import jax.numpy as jnp, brainevent as be
            >>> cells = be.models.lif_delta("cells", 3)
            >>> wires = [be.Projection(cells, cells, be.connect.one_to_one(weight=1.0), into="syn")]
            >>> synapses = be.Network([cells], wires, dt=0.1).build(seed=1).connections("cells->cells.syn")
            >>> synapses.plot().axes[0].get_ylabel()
            'source neuron'
        """
        return plot_weights(self, **options)


def connections(plan: Plan, name: str) -> Connections:
    """Return the synapses of a projection or coupling."""
    names, couplings = plan.projection_names, [coupling.name for coupling in plan.couplings]
    if (coupling := plan.coupling(name)) is not None:
        delays = np.broadcast_to(np.float64(plan.dt), coupling.entries)
        weights = np.broadcast_to(coupling.weights, coupling.entries) if coupling.entries else coupling.weights[:0]
        return Connections(name, coupling.sources, coupling.targets, weights, delays, _shape(plan, coupling))
    if name not in names:
        raise NetworkError(
            f"connections: there is no projection{' or coupling' if couplings else ''} {name!r}"
            f"{did_you_mean(name, [*names, *couplings])}; projections: {', '.join(names) or 'none'}"
            + (f"; couplings: {', '.join(couplings)}" if couplings else "")
        )
    synapses = plan.synapses[names.index(name)]
    size, entries = plan.population(synapses.source).size, synapses.targets.size
    sources = np.repeat(np.arange(size, dtype=np.int32), np.diff(synapses.starts[:: plan.parts]))
    order = order_of(plan, synapses)
    targets, delays = synapses.targets[order].astype(np.int32), synapses.delays * plan.dt
    delays = delays if delays.size == 1 else delays[order]
    weights, delays = (
        np.broadcast_to(part, entries) if part.size == 1 else part for part in (weights_of(plan, synapses), delays)
    )
    return Connections(name, sources, targets, weights, delays, _shape(plan, synapses))


def plastic_connections(plan: Plan, name: str, weights: Array) -> Connections:
    """Return the synapses of a plastic projection with their weights of now, which are in this order."""
    about = plan.plastic_by_name[name]
    one = about.synapses
    sources, targets = np.array(one.sources[one.order]), one.targets[one.order].astype(np.int32)
    delays = np.broadcast_to(one.delays, one.entries)[one.order] * plan.dt
    return Connections(name, sources, targets, weights, delays, _shape(plan, about))


def _shape(plan: Plan, link: Any) -> tuple[int, int]:
    return plan.population(link.source).size, plan.population(link.target).size


def order_of(plan: Plan, synapses: SynapsePlan) -> Any:
    """Return the places of synapses by source, delay and target: the same order for any number of parts.

    Synapses that agree in all three stay in the order in which they were drawn or given.
    """
    if plan.parts == 1:
        return slice(None)
    sources, targets = (plan.population(name).size for name in (synapses.source, synapses.target))
    key = np.repeat(np.arange(sources), np.diff(synapses.starts[:: plan.parts]))
    key *= int(synapses.delays.max(initial=0)) + 1
    key += synapses.delays
    key *= targets
    key += synapses.targets
    return key.argsort(kind="stable")  # quick: each part of a row is in order


def in_one_part(plan: Plan) -> Plan:
    """Return a plan that is not divided, with its synapses in the order of `order_of`: that of weights of users."""
    if plan.parts == 1:
        return plan
    sources = [_Undivided(plan, place) for place in range(len(plan.synapses))]
    one = dataclasses.replace(plan, parts=1, synapses=Synapses(plan.projections, sources))
    object.__setattr__(one, "facts", plan.facts)  # of which each says for how many parts it is
    return one


@dataclass(frozen=True)
class _Undivided:
    """Synapses of a projection of a plan in parts, in one part."""

    plan: Plan
    place: int

    def made(self, about: ProjectionPlan) -> SynapsePlan:
        """Return the synapses."""
        return self._synapses

    @cached_property
    def _synapses(self) -> SynapsePlan:
        found = self.plan.synapses[self.place]
        order = order_of(self.plan, found)
        each = {
            name: array if array.size == 1 else array[order]
            for name, array in (("targets", found.targets), ("weights", found.weights), ("delays", found.delays))
        }
        return dataclasses.replace(found, starts=found.starts[:: self.plan.parts], **each)

    @property
    def nbytes(self) -> int:
        """How much memory the plan in parts takes for them."""
        return self.plan.synapses.sources[self.place].nbytes


def span(low: float, high: float) -> str:
    """Return two numbers as a range, or as one if they are equal."""
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def weights_of(plan: Plan, synapses: SynapsePlan) -> Array:
    """Return the weights of a projection, in the order of `order_of`: one for each entry, or one for all, (1,).

    Of numbers that float32 tells apart, each is one number of quanta; where it does not, they are float64.
    """
    numbers = synapses.weights
    return _delivered(plan, synapses, numbers if numbers.size == 1 else numbers[order_of(plan, synapses)])


def one_weight_of(plan: Plan, projection: ProjectionPlan) -> float | None:
    """Return the weight of all synapses of a projection, as `weights_of` does; None if each has one of its own."""
    if not (projection.same[0] and projection.entries):
        return None
    return float(_delivered(plan, projection, np.array(projection.weights[:1]))[0])


def _delivered(plan: Plan, about: SynapsePlan | ProjectionPlan, numbers: Array) -> Array:
    wide = numbers * np.float64(plan.population(about.target).quanta[about.receptor])
    told_apart = np.abs(numbers).max(initial=0) < _TOLD_APART
    return wide.astype(np.float32) if told_apart and plan.dtype == "float32" else wide
