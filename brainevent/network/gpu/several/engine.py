# SPDX-License-Identifier: Apache-2.0
"""`SeveralEngine`: a network on several GPUs, whose kernels run at the same time and exchange spikes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ....backends.numba.uninterrupted import uninterrupted
from ....errors import NetworkError
from ...calls.rebuilds import Rebuilds
from ...engine import Prepared, Repeated, Stopped, check_whole, never
from ...plan.plan import Plan
from ...run.finite import check_finite, check_synapses
from ...run.merging import merged
from ...run.recorded import Recorded, Wanted
from ...state import NetworkState, begun_state, copied
from ..arrays import NeuronPlaces, has_pending
from ..device import Device, gpu_name
from ..plastic import Plastic
from ..plastic_state import faults_of, read_plastic, synapses_of_build
from ..run import Run
from ..spikes import SpikeRoom
from ..structs import LOST, NO_ROOM, NOT_FINITE, PEER, TREATED
from .launching import Launching, in_turn
from .meeting import Meeting, together
from .part import Part
from .placement import placement_for, said_of, said_of_groups
from .program import PartResident, SeveralResident
from .pure import simulated

__all__ = ["SeveralEngine"]

_GAINS = 500_000_000  # synapses, from which on several GPUs may take less time than one

Array = Any


class SeveralEngine:
    """An `Engine` for several GPUs of one kind, each of which reaches the memory of all others.

    Blocks are numbered through all GPUs, and a neuron is where it would be on one GPU with all these blocks: so states
    and recordings do not depend on how many GPUs there are.

    Args:
        plan: The network.
        devices: What runs kernels.
        blocks: How many blocks each GPU has; None for what suits the size of the network.
        shared_bytes: How much shared memory a block may use; None for all that there is.
        clocks: Whether the kernels measure where the time of a step goes.
    """

    name = "cuda"
    paces_itself = True
    said_of_sweeps = "sweeps need one GPU"

    def __init__(
        self,
        plan: Plan,
        *,
        devices: Sequence[Device],
        blocks: int | None = None,
        shared_bytes: int | None = None,
        clocks: bool = False,
    ):
        self.plan, self.devices, self._lock = plan, tuple(devices), threading.Lock()
        self._names = [*map(gpu_name, devices)]
        options = {"blocks": blocks, "shared_bytes": shared_bytes, "clocks": clocks}
        count = len(devices)
        placement = placement_for(plan, count)
        self._parts = self._all(lambda k, meeting: Part(plan, k, count, meeting, devices[k], placement, **options))
        self._connect()
        self._launching = Launching("run", self._names, self._parts[0].partition.here, _INVALID)
        self._given: NetworkState | None = begun_state(plan)  # not on the devices yet
        self._step, self._torn = 0, False
        self.rebuilds = Rebuilds()

    def _all(self, act: Callable[[int, Meeting], Any]) -> list[Any]:
        with uninterrupted():
            return together(self._names, act)

    def _connect(self) -> None:
        """Let each GPU know where the others have what."""
        peers = np.array([part.peer for part in self._parts], PEER)
        for part in self._parts:
            part.connect(peers)

    @property
    def device(self) -> Device:
        """The first of them."""
        return self.devices[0]

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._step

    @property
    def state(self) -> NetworkState:
        """The state before the next step, copied."""
        with self._lock:
            check_whole(self._torn)
            if self._given is None:
                return self._read()
            given = copied(self.plan, self._given)
            return replace(given, synapses=synapses_of_build(plastic, given)) if (plastic := self._plastic) else given

    @property
    def _plastic(self) -> list[Plastic]:
        """What the GPUs have of plastic synapses, if there are any."""
        return [part.plastic for part in self._parts if part.plastic]

    @property
    def _places(self) -> NeuronPlaces:
        first = self._parts[0]
        return NeuronPlaces(self.plan, first.partition.whole, first.arrays.slots, first.arrays.words)

    def _read(self) -> NetworkState:
        """Return the state that is on the devices."""
        self._treat_all()
        places = self._places
        partition = places.partition
        states = np.empty((places.words, partition.blocks * partition.per), np.uint32)
        sums = np.empty(partition.ring_shape(places.slots), np.int32)
        for part in self._parts:
            part.read_into(states, sums)
        arriving = places.arriving(sums, np.uint32(self._step), lambda *_: np.int32)
        state = NetworkState(np.uint32(self._step), places.neurons(states), arriving, self.plan.quanta)
        return read_plastic(plastic, state) if (plastic := self._plastic) else state

    def _write(self, state: NetworkState) -> None:
        """Go on from a state on the devices."""
        for part in self._parts:
            part.suit(state)
        self._follow()
        states, sums = self._places.states(state), self._places.ring(state) if has_pending(state) else None
        for part in self._parts:
            part.write(state, states, sums)
            part.go_on(self._step)

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        return self._parts[0].units

    @property
    def placement(self) -> str:
        """Where everything lies on the devices, in words."""
        partition = self._parts[0].partition
        lines = [self._parts[0].placement]
        for part, name in zip(self._parts, self._names, strict=True):
            first, end = part.partition.first, part.partition.first + part.partition.here
            placed = part.partition.placement
            has = f", {said_of(self.plan, placed.ranges[part.number])}" if placed else ""
            lines.append(f"{name}: blocks {first} to {end - 1} of {partition.blocks}, {part.said_of_rows}{has}")
            lines += [f"  {said}"] if (said := said_of_groups(part.partition)) else []
        if partition.placement:
            late = partition.placement.lag + partition.placement.extra
            place, others = ("in one group", "groups") if partition.placement.apart else ("on one GPU", "GPUs")
            lines.append(
                f"neurons with short delays between them are {place}, so spikes of other {others} are read "
                f"{late} step{'' if late == 1 else 's'} after theirs"
            )
        if self._parts[0].shape.structure.message:
            lines.append("a spare block of each GPU sends the spikes of a step to each other GPU")
        entries = sum(projection.entries for projection in self.plan.projections)
        if entries < _GAINS and not self._parts[0].partition.pushed:
            lines.append(
                f"one GPU runs a network of {entries} synapses at least as fast, if they fit there: a step waits for "
                "the spikes of other GPUs; leave out devices="
            )
        if self._torn:
            lines.append(_INVALID.removeprefix("; "))
        return "\n".join(lines)

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        with self._lock:
            self._given, self._step, self._torn = copied(self.plan, state), int(state.step), False

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        with self._lock:
            if any(one.name == population for one in self.plan.plastic):
                self._treat_all()
            for part in self._parts:
                part.set(population, param, value)

    def _follow(self) -> None:
        """Let all that is on the devices follow from parameters that were set."""
        if any(part.is_stale for part in self._parts):
            self._all(lambda k, _: self._parts[k].follow())
            self._connect()

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self._lock:
            try:
                self._all(lambda k, meeting: self._parts[k].with_weights(plan, meeting))
            except BaseException:
                self._all(lambda k, meeting: self._parts[k].with_weights(self.plan, meeting))
                self._connect()
                raise
            self._connect()
            self.__dict__.pop("resident", None)
            self.plan = plan
            self._given, self._step, self._torn = copied(plan, state), int(state.step), False

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps."""
        with self._lock:
            check_whole(self._torn)
            self._follow()
            if self._given is not None:
                self._write(self._given)
                self._given = None
            if wanted.spikes:
                for part in self._parts:
                    part.make_room()
            runs = [Run(part, steps, wanted, inputs) for part in self._parts]
            last: list[tuple[int, int, SpikeRoom]] = []  # launches whose spikes are read while the next ones run
            while all(run.goes_on for run in runs) and not stopped():
                with in_turn(self.devices), uninterrupted():
                    rooms = self._rooms(runs, last)
                    if rooms is None:
                        break  # before steps that could not be recorded
                    self._launch(runs, rooms)
                    _take(runs, last)
                    last = self._wait(runs, rooms)
            with uninterrupted():
                _take(runs, last)
            return merged([runs[0].recorded(runs), *(run.recorded([]) for run in runs[1:])])

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    def _rooms(self, runs: Sequence[Run], last: Sequence[tuple[int, int, SpikeRoom]]) -> list[SpikeRoom] | None:
        """Return the room for spikes of the next launch on each GPU; None if one of them has none."""
        held = [[one[2]] for one in last] or [[] for _ in runs]
        rooms = [run.next_room(others) for run, others in zip(runs, held, strict=True)]
        found = [room for room in rooms if room is not None]
        return found if len(found) == len(runs) else None

    def _treat_all(self) -> None:
        """Make all calls that were deferred, before synapses are read or the parameters of rules change."""
        if self._given is not None or not any(plastic.waiting for plastic in self._plastic):
            return
        with in_turn(self.devices), uninterrupted():
            runs = [Run(part, 1, Wanted(), {}) for part in self._parts]
            rooms = self._rooms(runs, [])
            assert rooms is not None
            self._treat(runs, rooms)

    def _treat(self, runs: Sequence[Run], rooms: Sequence[SpikeRoom]) -> None:
        """Make a launch without steps, which makes all calls of rules of synapses that were deferred."""
        described = [run.described(room)[0] for run, room in zip(runs, rooms, strict=True)]
        for net in described:
            net["deferring"] = TREATED
        self._start([(net, 0) for net in described])
        self._ended(rooms)
        for part in self._parts:
            assert part.plastic is not None
            part.plastic.treated(self._step)
            part.go_on(self._step)
        self._torn = False

    def _launch(self, runs: Sequence[Run], rooms: Sequence[SpikeRoom]) -> None:
        """Start a launch of runs on all GPUs."""
        if any(plastic.full for plastic in self._plastic):
            self._treat(runs, rooms)
        self._start([run.described(room) for run, room in zip(runs, rooms, strict=True)])

    def _start(self, described: Sequence[tuple[Any, int]]) -> None:
        """Start a launch on all GPUs: packets of launches before are gone on all of them when the first one starts."""
        for part in self._parts:
            part.flag.clear()
        for part in self._parts:
            part.device.wait()
        self._torn = True
        self._launching.start(self._parts, lambda k: self._parts[k].launch(*described[k]))

    def _wait(self, runs: Sequence[Run], rooms: Sequence[SpikeRoom]) -> list[tuple[int, int, SpikeRoom]]:
        """Wait for the launches on all GPUs; return the first step, the number of steps and the room of each."""
        first, ended = self._step, self._ended(rooms)
        ran, why = ended[0]
        odd = next((k for k, (own, _) in enumerate(ended) if own != ran), None)
        if odd is not None:
            raise NetworkError(f"run: {self._names[odd]} ended after {ended[odd][0]} steps instead of {ran}{_INVALID}")
        for part, run, room in zip(self._parts, runs, rooms, strict=True):
            if why & NO_ROOM:
                part._spikes.make_room(2 * room.capacity)
            part.advance(ran)
            run.turn += ran
        self._step, self._torn = self._step + ran, False
        if why & NOT_FINITE:
            check_finite(self.plan, self._step - 1, self._read().neurons)
        if self._plastic and self.plan.check_finite:
            check_synapses(self._step - 1, faults_of(self._plastic))
        return [(first, ran, room) for room in rooms]

    def _ended(self, rooms: Sequence[SpikeRoom]) -> list[tuple[int, int]]:
        """Wait until all launches have ended; return how many steps each ran, and why it ended."""
        self._launching.await_all(self._parts)
        ended = [part.ended(room) for part, room in zip(self._parts, rooms, strict=True)]
        if any(why & LOST for _, why in ended):
            self._launching.raise_lost(self._parts)
        return ended

    # ---- programs of JAX

    @functools.cached_property
    def resident(self) -> SeveralResident:
        """What programs of `simulate` share."""
        return self._resident_of(self.plan, [part.resident for part in self._parts])

    def resident_of(self, plan: Plan) -> SeveralResident:
        """Return the same for a plan that differs in weights and quanta alone; nothing changes here."""
        with self._lock:
            parts = self._all(lambda k, meeting: self._parts[k].with_plan(plan, meeting))
            return self._resident_of(plan, [part.resident for part in parts])

    def _resident_of(self, plan: Plan, parts: Sequence[PartResident]) -> SeveralResident:
        return SeveralResident(plan, self._names, parts)

    def simulated(self, starts: Sequence[Any], steps: int, wanted: Wanted) -> list[Any]:
        """Run some steps in JAX's program from each of several starts: resident, state, parameters, inputs and keys."""
        return [simulated(resident, state, p, steps, given, wanted) for resident, state, p, given, _ in starts]

    def beside(self, *_: Any) -> NoReturn:
        """Raise: there are no networks side by side."""
        raise NetworkError(f"sweep: {_ALONE}")


_INVALID = "; the state is not valid: call sim.reset(), or load a checkpoint with sim.load(...)"
_ALONE = "the elements of a sweep run side by side on one GPU; build the network without devices="


def _take(runs: Sequence[Run], last: Sequence[tuple[int, int, SpikeRoom]]) -> None:
    """Take the spikes of the last launches."""
    for run, one in zip(runs, last, strict=False):
        run.recording.take(*one)
