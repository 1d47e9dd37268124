# SPDX-License-Identifier: Apache-2.0
"""`OwnedEngine`: the neurons of a network that one of several processes owns, on its GPU, and what others send them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..plan.pending import largest_load
from ..plan.plan import Plan, Synapses
from ..plan.projections import ProjectionPlan
from .afar import Afar, neurons_of, numbering_of
from .device import Device, Memory, cleared
from .engine import CudaEngine
from .kinds import Kind
from .partition import Partition
from .rows import DeviceRows
from .run import Run
from .sorter import place_synapses
from .spikes import SpikeRoom

__all__ = ["Ahead", "OwnedEngine", "OwnedPlan", "owned_plan"]

_LONG = 1_000_000_000  # nanoseconds of a launch, after which it ends

Array = Any
Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class OwnedPlan(Plan):
    """The neurons of a plan, `whole`, that a process owns: those of a population from one number to before another.

    Of projections it says what holds for the synapses between them, but for how many there are, about.
    """

    whole: Plan = None  # type: ignore[assignment]  # fields before it have defaults
    own: Ranges = field(default_factory=dict)


def owned_plan(whole: Plan, own: Ranges) -> OwnedPlan:
    """Return the neurons that a process owns as a plan."""
    populations = []
    for p in whole.populations:
        low, high = own[p.name]
        state, params = (
            {key: array[low:high] if np.ndim(array) else array for key, array in group.items()}
            for group in (p.state, p.params)
        )
        populations.append(replace(p, size=high - low, state=state, params=params))
    about = [_about(whole, one, own) for one in whole.projections]
    synapses = Synapses(about, whole.synapses.sources, None, whole.synapses.measure)
    loads = {place: largest_load(whole, *place) for place in whole.receptors()}
    given = {one.name: getattr(whole, one.name) for one in dataclasses.fields(Plan) if one.init}
    given |= {"populations": tuple(populations), "synapses": synapses, "loads": loads}
    return OwnedPlan(**given, whole=whole, own=dict(own))


def _about(whole: Plan, about: ProjectionPlan, own: Ranges) -> ProjectionPlan:
    """Return what is known of a projection, with about as many synapses as there are between own neurons."""
    share = 1.0
    for name in (about.source, about.target):
        low, high = own[name]
        share *= (high - low) / whole.population(name).size
    return replace(about, entries=max(min(1, about.entries), int(about.entries * share)))


class OwnedEngine(CudaEngine):
    """The engine of one of several processes, as of a network of its own neurons alone.

    Between launches, spikes of others are added to pending input. Random numbers are those of all neurons: each has the
    number that it has in the whole network.

    Attributes:
        afar: The synapses from neurons of other processes.
        is_strange: Whether a state was not finite after the last step.
        halted: A word on the device: while it is not 0, launches do nothing.
    """

    plan: OwnedPlan
    afar: Afar

    def __init__(self, plan: OwnedPlan, *, device: Device, **options: Any):
        self.is_strange = False
        self.halted = cleared(device, 16, "a flag")
        super().__init__(plan, device=device, **options)

    def _partitioned(
        self, plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], count: int, shared_bytes: int
    ) -> Partition:
        """Share own neurons out over blocks."""
        assert isinstance(plan, OwnedPlan)
        firsts = {name: low for name, (low, _) in plan.own.items()}
        return replace(super()._partitioned(plan, kinds, numbers, count, shared_bytes), firsts=firsts)

    def _sorted(self, plan: Plan) -> DeviceRows:
        """Return the synapses between own neurons in rows; those from others become `afar`."""
        assert isinstance(plan, OwnedPlan)
        self.__dict__.pop("afar", None)  # given back before more is taken
        self.afar = Afar(self.device, plan.whole, plan.own, self.partition)
        numbering = numbering_of(plan.whole, plan.own, self.partition)
        return place_synapses(self.device, plan.whole, self.partition, self._room.left, numbering=numbering)

    def _input_at(self, place: tuple[str, str], memory: Memory, width: int) -> int:
        """Return the address of the inputs of neuron 0 of the whole population, of those of own ones."""
        low, high = self.plan.own[place[0]]
        return (memory.address - 4 * low * (width == high - low)) % 2**64

    def _described(self) -> Any:
        """Return what all launches share."""
        net = super()._described()
        net["halted"] = self.halted.address
        if self._graded:
            net["told"] = self.values.address
        return net

    def _late(self, plan: Plan) -> Mapping[str, Any]:
        """Return what of the structure says where packets go: here, that values of spikes go to others, too."""
        return {**super()._late(plan), "tells": self._graded}

    @functools.cached_property
    def values(self) -> Memory:
        """The values of the last spikes of own neurons, by their numbers in the partition, if spikes have values."""
        return self.device.memory(4 * self.partition.per * self.partition.blocks, "values of spikes")

    def _raise_not_finite(self) -> None:
        """Note it: all processes raise the same error."""
        self.is_strange = True

    def deliver(self, **messages: int) -> None:
        """Add the spikes of other processes to pending input, given what of `Afar` says which."""
        self.afar.deliver(self.arrays, halted=self.halted.address, **messages)

    def ahead(self, run: Run, room: SpikeRoom) -> Ahead:
        """Return launches of a run that are not awaited, with a room."""
        net, steps = run.described(room)
        net["nanoseconds"] = _LONG
        begin = np.zeros((), np.uint32)
        parameters = net, begin, np.array(steps, np.uint32)
        how = {"at_once": not self._clustered, "clustered": self._clustered}
        return Ahead(self, net, begin, steps, self.device.launcher(*self.launched, parameters, **how))

    def go_on(self, run: Run, steps: int) -> None:
        """Take it that some steps of a run more have been, or less."""
        self._step += steps
        run.turn += steps
        if self.clocks:
            self.clocks.steps += steps
        self._torn = False

    @property
    def neurons(self) -> int:
        """How many neurons the whole network has."""
        return neurons_of(self.plan.whole)

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take."""
        return self.rows.nbytes + self.afar.nbytes


@dataclass(frozen=True, eq=False)
class Ahead:
    """Launches of some steps each, one after another, of which the host does not await the end."""

    engine: OwnedEngine
    net: Any
    begin: Array  # the first step of the next launch
    steps: int
    start: Callable[[], None]

    def launch(self, run: Run) -> None:
        """Start a launch, and go on as if it had ended after all its steps."""
        engine = self.engine
        self.net["turn"], self.begin[...] = run.turn, engine.step
        engine._packets.clear()
        self.start()
        engine.go_on(run, self.steps)
