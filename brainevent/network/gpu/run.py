# SPDX-License-Identifier: Apache-2.0
"""`Run`: a run of a network on a GPU, launch by launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..engine import check_whole
from ..run.recorded import Recorded, Wanted
from .network import DeviceNetwork
from .recording import Recording
from .spikes import STEPS, SpikeRoom

__all__ = ["Run"]

_NANOSECONDS, _RECORDED = 400_000_000, 30_000_000  # of a launch, at most; of one whose spikes are read afterwards
_STEPS = 2**20  # of a launch, at most

Array = Any


class Run:
    """A run of an engine, launch by launch, of which none goes beyond turn `until`."""

    def __init__(self, engine: DeviceNetwork, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._engine, self.steps, self._wanted = engine, steps, wanted
        check_whole(engine._torn)
        # Their memory is held here: kernels have its address alone.
        self._given = {place: engine._input(steps, place, array) for place, array in inputs.items()}
        if engine._given is not None:
            engine._write(engine._given)
            if engine.plastic:
                engine.plastic.write(engine._given)
            engine._given = None
        spikes = engine._spikes
        about = engine.device, engine.plan, engine.partition, spikes
        self.recording = Recording(*about, engine._step, steps, wanted, engine.plastic, lists_spikes=bool(engine.tells))
        self._populations = engine._populations(self.recording, self._given)
        self._of_synapses = sum(sample.of_synapses for sample in wanted.samples.values())
        self._of_neurons = len(wanted.samples) - self._of_synapses
        self.turn, self.until, self._plain = 0, steps, not inputs and not self._of_neurons

    @property
    def goes_on(self) -> bool:
        """Whether steps are left, and what they record may have room."""
        return self.turn < self.steps and not self.recording.full

    def next_room(self, others: Sequence[SpikeRoom] = ()) -> SpikeRoom | None:
        """Return the room for spikes of the next launch; None if those could not be held with the other ones'."""
        room = self._engine._spikes.next_room()
        return room if self.recording.has_room(self._engine._step, [room, *others]) else None

    def described(self, room: SpikeRoom) -> tuple[Any, int]:
        """Return what a launch shares, and how many steps it has at most; the engine is then within a step."""
        engine, recording = self._engine, self.recording
        steps = min(self.until - self.turn, STEPS if self.recording.lists_spikes else _STEPS)
        if engine.plastic and engine.plan.check_finite:
            steps = 1  # blocks learn of a synapse that is not finite when the launch has ended
        net = engine.net.copy()
        memory, common = self._populations
        net["turn"], net["population"] = self.turn, memory.address
        if engine.partition.common:
            net["common"] = common
        net["plain"] = self._plain
        net["samples"], net["sample"] = self._of_neurons, recording.samples.address
        if engine.plastic:
            net["since"], net["deferring"] = engine.plastic.begun(engine._step)
            net["synapse_samples"], net["synapse_sample"] = self._of_synapses, recording.synapse_samples.address
        net["nanoseconds"] = _RECORDED if self.recording.lists_spikes else _NANOSECONDS
        net["capacity"], net["spikes"], net["ends"] = recording.capacity(room), room.address, room.ends.address
        net["counts"], net["first"], net["steps"] = recording.counts.address, engine._step, steps
        engine._packets.clear()
        if engine._carried is not None:
            engine._carried.met.clear()
        engine._torn = True
        return net, steps

    def ran(self, room: SpikeRoom) -> tuple[int, int, SpikeRoom]:
        """Wait for a launch; return its first step, how many steps it had, and its room."""
        first = self._engine._step
        ran = self._engine._wait(room)
        self.turn += ran
        return first, ran, room

    def recorded(self, counting: Sequence[Run] | None = None) -> Recorded:
        """Return what was recorded, with the numbers of spikes of some runs on several GPUs; by default of this one."""
        return self.recording.recorded(self.turn, None if counting is None else [run.recording for run in counting])
