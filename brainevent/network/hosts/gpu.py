# SPDX-License-Identifier: Apache-2.0
"""`OwnGpu`: what one GPU of a process owns of a network, and what it tells all others, in the order of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..gpu.afar import HEAD, Told
from ..gpu.device import Device, cleared
from ..gpu.owned import Ahead, OwnedEngine, owned_plan
from ..gpu.run import Run
from ..gpu.spikes import SpikeRoom
from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .shares import Shares

__all__ = ["OwnGpu", "RunOfGpu"]

Array = Any


class OwnGpu:
    """The neurons that one GPU owns, the synapses that end there, and their state.

    Args:
        plan: The network.
        shares: Those of all GPUs, of which this is one.
        device: The GPU.
        options: Those of an engine on a GPU.

    Attributes:
        told: The spikes of which other GPUs are told.
    """

    told: Told
    _heads: Any  # memory for the first words of the messages of all GPUs
    _before: NetworkState  # of own neurons, when weights were set

    def __init__(self, plan: Plan, shares: Shares, device: Device, options: Mapping[str, Any]):
        self.plan, self.shares = plan, shares
        self.engine = OwnedEngine(owned_plan(plan, shares.own), device=device, **options)
        self.least_delays = self.engine.afar.least_delays()

    def join(self, crossing: tuple[str, ...]) -> None:
        """Take memory to tell the spikes of some populations."""
        engine, device = self.engine, self.engine.device
        engine.tells = crossing
        graded = any(population.rule.value for population in self.plan.populations)
        values = {"values": engine.values} if graded else {}
        self.told = Told(device, self.plan, self.shares.own, engine.partition, crossing, engine.halted, **values)
        self._heads = cleared(device, 4 * HEAD * self.shares.count, "heads of messages")

    def deliver(self, messages: int, row: int, begin: int, exchange: int) -> None:
        """Launch what takes the messages of all GPUs, which lie at an address, of `row` words each."""
        about = {"row": row, "processes": self.shares.count, "own": self.shares.number, "begin": begin}
        about["size"] = self.told.size
        self.engine.deliver(messages=messages, heads=self._heads.address, exchange=exchange, **about)

    def heads(self) -> Array:
        """Return the first words of the messages of all GPUs, as they were when the last ones were taken."""
        found: Array = self._heads.download(np.uint32, (self.shares.count, HEAD))
        return found

    # ---- states, of which the engine has those of own neurons

    def among(self, population: str, own: Array) -> Array:
        """Return what own neurons have (..., neurons) among all of a population; of others, zeros."""
        low, high = self.shares.own[population]
        whole = np.zeros((*own.shape[:-1], self.plan.population(population).size), own.dtype)
        whole[..., low:high] = own
        return whole

    def taken(self, population: str, whole: Array) -> Array:
        """Return what own neurons have (..., neurons) of what all of a population have."""
        low, high = self.shares.own[population]
        return np.ascontiguousarray(whole[..., low:high])

    def load(self, state: NetworkState) -> None:
        """Go on from a state of the whole network."""
        self.engine.load(self._own_state(self.plan, state))

    def _own_state(self, plan: Plan, state: NetworkState) -> NetworkState:
        """Return the state of own neurons, of that of all, in the quanta of a plan."""
        groups = [
            {name: {key: self.taken(name, array) for key, array in arrays.items()} for name, arrays in group.items()}
            for group in (state.neurons, state.arriving)
        ]
        return NetworkState(state.step, groups[0], groups[1], plan.quanta)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter of a whole population."""
        value = np.asarray(value)
        self.engine.set(population, param, self.taken(population, value) if value.ndim else value)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan, and a state in its quanta; if this raises, nothing changed."""
        before = self.engine.state
        self.engine.set_weights(owned_plan(plan, self.shares.own), self._own_state(plan, state))
        self.plan, self._before = plan, before

    def give_up(self, plan: Plan) -> None:
        """Have the weights of the plan before the last one again, and the state of then."""
        self.engine.set_weights(owned_plan(plan, self.shares.own), self._before)
        self.plan = plan

    # ---- runs

    def begin(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> RunOfGpu:
        """Begin a run of some steps."""
        given = {place: self._input(place[0], array) for place, array in inputs.items()}
        return RunOfGpu(self, steps, wanted, given)

    def _input(self, population: str, array: Array) -> Array:
        size = self.plan.population(population).size
        return self.taken(population, array) if array.shape[1] == size > 1 else array


class RunOfGpu:
    """A run of the neurons that a GPU owns; spikes of a launch are read while the next one runs."""

    def __init__(self, own: OwnGpu, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._own, self._wanted = own, wanted
        self._chosen = {
            label: own.shares.owners(sample.population, sample.neurons)[own.shares.number]
            for label, sample in wanted.samples.items()
        }
        samples = {
            label: replace(sample, neurons=sample.neurons[chosen] - own.shares.own[sample.population][0])
            for (label, sample), chosen in zip(wanted.samples.items(), self._chosen.values(), strict=True)
            if chosen.size
        }
        own.engine.is_strange = False
        self._run = Run(own.engine, steps, replace(wanted, samples=samples), inputs)
        self._launched: SpikeRoom | None = None
        self._last: tuple[int, int, SpikeRoom] | None = None
        self._ahead: list[tuple[Ahead, SpikeRoom]] = []
        self._next: SpikeRoom | None = self._run.next_room() if steps else None

    @property
    def turn(self) -> int:
        """How many steps ran."""
        return self._run.turn

    @property
    def is_strange(self) -> bool:
        """Whether a state is not finite."""
        return self._own.engine.is_strange

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more spikes."""
        return self._next is None or bool(self._run.recording.full)

    def begin_ahead(self, steps: int) -> None:
        """Prepare launches of some steps each that are not awaited, with both rooms in turn."""
        run, own = self._run, self._own
        run.until = run.turn + steps
        self._ahead = []
        for _ in range(2):
            room = self._next
            assert room is not None
            own.told.make_room(room.capacity * own.engine.partition.here)
            self._ahead.append((own.engine.ahead(run, room), room))
            self._next = run.next_room([room])

    def launch_ahead(self) -> SpikeRoom:
        """Start such a launch, and go on as if all its steps had been; return its room."""
        ahead, room = self._ahead[0]
        ahead.launch(self._run)
        self._ahead.reverse()
        self._next = self._ahead[0][1]
        return room

    def go_on(self, steps: int) -> None:
        """Take it that some steps more have been, or less."""
        self._own.engine.go_on(self._run, steps)

    def launch(self, turn: int) -> None:
        """Start a launch that ends when so many steps have been, or before."""
        if self._next is None:
            raise NetworkError("run: memory is full: there is no room for more spikes")
        self._run.until, self._launched = turn, self._next
        self._own.engine._launch(self._run, self._launched)

    def finish(self, begin: int) -> None:
        """Wait for this launch, and list its spikes; the last exchange was before step `begin`."""
        run, room = self._run, self._launched
        assert room is not None
        if self._last:
            run.recording.take(*self._last)
        self._last = run.ran(room)
        self._own.told.add(begin, room)
        self._next = run.next_room([room])

    def recorded(self) -> Recorded:
        """Return what was recorded of own neurons, among all; of others, zeros."""
        if self._last:
            self._run.recording.take(*self._last)
            self._last = None
        own, found = self._own, self._run.recorded()
        counts = {name: own.among(name, array) for name, array in found.counts.items()}
        samples = {label: self._sampled(label, found) for label in self._wanted.samples}
        return replace(found, counts=counts, samples=samples, full="")

    def _sampled(self, label: str, found: Recorded) -> Array:
        sample = self._wanted.samples[label]
        rows = sample.rows(found.first, found.first + found.steps)
        values = np.zeros((rows, sample.neurons.size), sample.dtype(self._own.plan))
        if label in found.samples:
            values[:, self._chosen[label]] = found.samples[label]
        return values
