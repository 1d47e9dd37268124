# SPDX-License-Identifier: Apache-2.0
"""`OwnOnGpu`: what one process owns of a network, on its GPU, which runs all steps between two exchanges."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ...errors import NetworkError
from ..gpu.afar import HEAD, Told
from ..gpu.device import Device
from ..gpu.owned import Ahead, OwnedEngine, owned_plan
from ..gpu.run import Run
from ..gpu.spikes import SpikeRoom
from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState
from .messages import messages_of
from .owned import FULL, NOT_FINITE, OwnRun
from .processes import Processes
from .shares import Shares

__all__ = ["OwnOnGpu"]

_ROOM = 1024  # spikes of the first message
_AHEAD = 15  # exchanges that are launched before the host looks what became of them

Array = Any


class OwnOnGpu:
    """What one process owns, as `Own` describes it."""

    name = "cuda"
    said_of_sweeps = "sweeps need one process"
    _told: Told
    _before: NetworkState  # of own neurons, when weights were set

    def __init__(self, plan: Plan, shares: Shares, processes: Processes, device: Device, options: Mapping[str, Any]):
        self._plan, self._shares, self._processes = plan, shares, processes
        self.engine = OwnedEngine(owned_plan(plan, shares.own), device=device, **options)
        self.least_delays = self.engine.afar.least_delays()

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes the synapses take, and how many GPUs there are."""
        return self.engine.nbytes, 1

    @staticmethod
    def units(numbers: Array) -> str:
        """What runs each process, in words."""
        del numbers
        return "one GPU"

    @property
    def most_apart(self) -> int:
        """How many steps there may be between two exchanges: a spike is one word."""
        return 2**32 // max(1, self.engine.neurons)

    @property
    def said(self) -> str:
        """What lies where, in words."""
        lines = [self.engine.placement]
        if self._processes.count > 1:
            lines.append(f"spikes are exchanged {self._messages.said}")
        if (here := _gpus_of_jax(self.engine.device)) > 1:
            lines.append(f"this process has {here} GPUs and runs one; start a process for each GPU")
        return "\n".join(lines)

    def join(self, crossing: Sequence[str], apart: int) -> None:
        """Take memory; spikes of some populations are exchanged every so many steps."""
        self._apart, self._crossing, self._room = apart, tuple(crossing), 0
        self.engine.tells = self._crossing
        self._tell()
        device = self.engine.device
        self._heads = device.memory(4 * HEAD * self._processes.count, "heads of messages")
        self._messages = messages_of(device, self._processes)
        self._make_room(_ROOM)

    def _tell(self) -> None:
        engine, own = self.engine, self._shares.own
        self._told = Told(engine.device, self._plan, own, engine.partition, self._crossing, engine.halted)

    def _make_room(self, spikes: int) -> None:
        self._room = spikes
        self._messages.make_room(HEAD + spikes)

    # ---- states, of which the engine has those of own neurons

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self.engine.step

    @property
    def state(self) -> NetworkState:
        """The state of own neurons, among those of all."""
        own = self.engine.state
        groups = [
            {name: {key: self._among(name, array) for key, array in arrays.items()} for name, arrays in group.items()}
            for group in (own.neurons, own.arriving)
        ]
        return NetworkState(own.step, groups[0], groups[1], self._plan.quanta)

    def _among(self, population: str, own: Array) -> Array:
        """Return what own neurons have (..., neurons) among all of a population."""
        low, high = self._shares.own[population]
        whole = np.zeros((*own.shape[:-1], self._plan.population(population).size), own.dtype)
        whole[..., low:high] = own
        return whole

    def _taken(self, population: str, whole: Array) -> Array:
        """Return what own neurons have (..., neurons) of what all of a population have."""
        low, high = self._shares.own[population]
        return np.ascontiguousarray(whole[..., low:high])

    def load(self, state: NetworkState) -> None:
        """Go on from a state of the whole network."""
        self.engine.load(self._own_state(state))

    def _own_state(self, state: NetworkState) -> NetworkState:
        """Return the state of own neurons, of that of all."""
        groups = [
            {name: {key: self._taken(name, array) for key, array in arrays.items()} for name, arrays in group.items()}
            for group in (state.neurons, state.arriving)
        ]
        return NetworkState(state.step, groups[0], groups[1], self._plan.quanta)

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter of a whole population."""
        value = np.asarray(value)
        self.engine.set(population, param, self._taken(population, value) if value.ndim else value)

    def with_weights(self, plan: Plan, state: NetworkState) -> OwnOnGpu:
        """Return the same with the weights of a plan, and a state in its quanta."""
        other = copy.copy(self)
        other._plan, other._before = plan, self.engine.state
        other.engine.set_weights(owned_plan(plan, self._shares.own), other._own_state(state))
        return other

    def give_up(self, plan: Plan) -> None:
        """Let the engine, which has the synapses of one plan, have those of the plan before."""
        self.engine.set_weights(owned_plan(plan, self._shares.own), self._before)

    # ---- runs

    def begin(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> RunOnGpu:
        """Begin a run of some steps."""
        given = {place: self._input(place[0], array) for place, array in inputs.items()}
        return RunOnGpu(self, steps, wanted, given)

    def _input(self, population: str, array: Array) -> Array:
        size = self._plan.population(population).size
        return self._taken(population, array) if array.shape[1] == size > 1 else array

    def room_for(self, capacity: int) -> None:
        """Make room for the spikes of a launch, of which each block can list so many."""
        self._told.make_room(capacity * self.engine.partition.here)

    def listed(self, begin: int, room: SpikeRoom) -> None:
        """List the spikes of a launch, of which others are told; the last exchange was before step `begin`."""
        self._told.add(begin, room)

    def told(self, begin: int, end: int, status: int) -> list[int]:
        """Exchange the spikes of some steps; return the status of each process."""
        del end
        if self._processes.count == 1:
            self._told.begin()
            return [status]
        head = self._exchanged(begin, status)
        if (most := int(head[:, 1].max())) > self._room:  # each process knows it
            self._make_room(1 << (most - 1).bit_length())
            head = self._exchanged(begin, status)
        self._told.begin()
        self.engine.halted.clear()
        found: list[int] = head[:, 0].tolist()
        return found

    def _exchanged(self, begin: int, status: int) -> Array:
        """Exchange messages, and take the spikes if all are whole; return the heads of all."""
        self.engine.halted.clear()
        self._told.tell(status, self._messages.address, self._room)
        self._exchange(begin, 1)
        self._messages.wait()
        return self._heads.download(np.uint32, (self._processes.count, HEAD))

    def _exchange(self, begin: int, number: int) -> None:
        """Launch an exchange, of a number that is not 0."""
        count, own = self._processes.count, self._processes.number
        about = {"row": HEAD + self._room, "processes": count, "own": own, "begin": begin, "exchange": number}

        def take(where: int) -> None:
            self.engine.deliver(messages=where, heads=self._heads.address, **about)

        self._messages.gather(take)

    def ahead(self, run: OwnRun, done: int, steps: int) -> int:
        """Run and exchange several times before the host learns of it; return for how many steps all went well.

        All of this is launched at once. If a launch ends early, or spikes have no room in a message, no process
        delivers the spikes of that exchange, and what comes after it does nothing.
        """
        assert isinstance(run, RunOnGpu)
        number = min(_AHEAD, (steps - done - 1) // self._apart)
        if self._processes.count == 1 or number < 1 or self.engine.plan.check_finite or run.lists_spikes:
            return done
        begin, apart = self.step, self._apart
        with uninterrupted():
            run.begin_ahead(apart)
            for k in range(number):
                self._told.list_spikes(begin + k * apart, run.launch_ahead())
                self._told.tell(0, self._messages.address, self._room, apart)
                self._exchange(begin + k * apart, k + 1)
                self._told.turn()
            self._messages.wait()
            halted = int(self.engine.halted.download(np.uint32, 1)[0])
            if halted:
                self._go_back(run, number - halted + 1)
            self.engine.halted.clear()
        return done + apart * (halted - 1 if halted else number)

    def _go_back(self, run: RunOnGpu, exchanges: int) -> None:
        """Be where the first of the last exchanges was not whole: its launch may have had some steps."""
        status = int(self._heads.download(np.uint32, (self._processes.count, HEAD))[self._processes.number, 0])
        run.go_on(status // 256 - exchanges * self._apart)
        if exchanges % 2:
            self._told.turn()
        self._told.count()


class RunOnGpu:
    """A run, as `OwnRun` describes it; spikes of a launch are read while the next one runs."""

    def __init__(self, own: OwnOnGpu, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._own, self._wanted = own, wanted
        self._chosen = {
            label: own._shares.owners(sample.population, sample.neurons)[own._shares.number]
            for label, sample in wanted.samples.items()
        }
        samples = {
            label: replace(sample, neurons=sample.neurons[chosen] - own._shares.own[sample.population][0])
            for (label, sample), chosen in zip(wanted.samples.items(), self._chosen.values(), strict=True)
            if chosen.size
        }
        own.engine.is_strange = False
        self._run = Run(own.engine, steps, replace(wanted, samples=samples), inputs)
        self._last: tuple[int, int, SpikeRoom] | None = None
        self._ahead: list[tuple[Ahead, SpikeRoom]] = []
        self._next: SpikeRoom | None = self._run.next_room() if steps else None

    @property
    def turn(self) -> int:
        """How many steps ran."""
        return self._run.turn

    @property
    def lists_spikes(self) -> bool:
        """Whether the host reads the spikes of each launch."""
        return bool(self._wanted.spikes)

    def begin_ahead(self, steps: int) -> None:
        """Prepare launches of some steps each that are not awaited, with both rooms in turn."""
        run, own = self._run, self._own
        run.until = run.turn + steps
        self._ahead = []
        for _ in range(2):
            room = self._next
            assert room is not None
            own.room_for(room.capacity)
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

    def until(self, turn: int, begin: int) -> int:
        """Run until so many steps have been; return a status. Spikes were exchanged before step `begin`."""
        run, own = self._run, self._own
        run.until = turn
        while run.turn < turn:
            with uninterrupted():
                room = self._next
                if room is None:
                    raise NetworkError("run: memory is full: there is no room for more spikes")
                own.engine._launch(run, room)
                if self._last:
                    run.recording.take(*self._last)
                self._last = run.ran(room)
                own.listed(begin, room)
                self._next = run.next_room([room])
            if own.engine.is_strange:
                return NOT_FINITE
        return FULL * (self._next is None or bool(run.recording.full))

    def recorded(self) -> Recorded:
        """Return what was recorded of own neurons, among all."""
        if self._last:
            with uninterrupted():
                self._run.recording.take(*self._last)
            self._last = None
        own, found = self._own, self._run.recorded()
        counts = {name: own._among(name, array) for name, array in found.counts.items()}
        samples = {label: self._sampled(label, found) for label in self._wanted.samples}
        return replace(found, counts=counts, samples=samples, full="")

    def _sampled(self, label: str, found: Recorded) -> Array:
        sample = self._wanted.samples[label]
        rows = sample.rows(found.first, found.first + found.steps)
        values = np.zeros((rows, sample.neurons.size), sample.dtype(self._own._plan))
        if label in found.samples:
            values[:, self._chosen[label]] = found.samples[label]
        return values


def _gpus_of_jax(device: Device) -> int:
    """Return how many GPUs JAX has in this process, if it has this one."""
    try:
        return len(jax.local_devices(backend=device.of_jax.platform))
    except NetworkError:
        return 0
