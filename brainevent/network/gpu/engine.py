# SPDX-License-Identifier: Apache-2.0
"""`CudaEngine`: a network on a GPU, where one kernel runs many steps."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...backends.numba.uninterrupted import uninterrupted
from ..engine import Prepared, Repeated, Stopped, check_whole, never
from ..plan.plan import Plan
from ..run.recorded import Recorded, Wanted
from ..state import NetworkState, copied
from .arrays import Arrays
from .couplings import CouplingRoom
from .cuda_device import default_device
from .device import Device
from .drawing import Drawing
from .kinds import kinds_of
from .network import DeviceNetwork
from .plastic_state import synapses_of_build
from .program import Resident
from .pure import simulated
from .run import Run
from .shape import blocks_beside, blocks_for
from .sorter import rows_text
from .spikes import SpikeRoom, Spikes, spikes_text
from .structs import TREATED

__all__ = ["CudaEngine", "drawing_on_gpu", "engine_beside"]

Array = Any


class CudaEngine(DeviceNetwork):
    """An `Engine` for a GPU. Several engines run one after another where they do not fit on it together."""

    name = "cuda"
    paces_itself = True

    @functools.cached_property
    def resident(self) -> Resident:
        """What programs of `simulate` share."""
        memories = {**self.rows.memories, "rows": self.row_of_place, **self.couplings}
        return Resident(self.device, self.plan, self.partition, self.shape, self.net, self.arrays.slots, memories)

    def resident_of(self, plan: Plan) -> Resident:
        """Return the same for a plan that differs in weights and quanta alone; nothing changes here."""
        with self._lock:
            other = copy.copy(self)
            other.__dict__.pop("resident", None)
            other.plan, other._params = plan, {p.name: dict(p.params) for p in plan.populations}
            other.arrays = copy.copy(self.arrays)  # whose sums may be bytes or words
            other._place(plan)
            return other.resident

    def beside(self, plan: Plan, elements: int, blocks: int | None = None) -> CudaEngine:
        """Return an engine for a plan like this one, which runs side by side with others of a number of elements.

        Results depend neither on the number of elements nor on `blocks`, which is chosen if it is None.
        """
        blocks = self._blocks_beside(plan, elements) if blocks is None else blocks
        return CudaEngine(plan, **self.options | {"blocks": blocks}, device=self.device, beside=True)

    def _blocks_beside(self, plan: Plan, elements: int) -> int:
        if self.options["blocks"] is not None:
            return self.partition.blocks
        return _fewer_blocks(plan, self.partition.blocks, elements, self.device)

    def _resident_beside(self, resident: Resident, elements: int) -> Resident:
        """Return what programs of several networks side by side share, given what those of one alone do."""
        blocks = self._blocks_beside(resident.plan, elements)
        with self._lock:
            if blocks not in resident.others:
                found = self.beside(resident.plan, elements).resident
                resident.others[blocks] = found.of_operands() if resident.rows else found
            return resident.others[blocks]

    def sibling(self) -> CudaEngine:
        """Return an engine of the same network with memory of its own, but for the synapses."""
        other = copy.copy(self)
        other.__dict__.pop("resident", None)
        other._lock, other._params = threading.Lock(), {name: dict(own) for name, own in self._params.items()}
        other.arrays = Arrays(self.device, self.plan, self.partition, self.kinds)
        other._lists = None
        other._spikes = Spikes(self.device, self.plan, self.partition)
        other._carried = CouplingRoom(self.device, self.plan, self.partition) if self.plan.couplings else None
        other._prepare(self.plan)
        return other

    def take(
        self,
        plan: Plan,
        params: Mapping[str, Mapping[str, Array]],
        state: NetworkState,
        like: CudaEngine | None = None,
    ) -> None:
        """Go on with another network that differs in keys, weights, quanta and parameters alone, from a state.

        Synapses are those of an engine that has the same ones already, if there is one.
        """
        with self._lock:
            self._params = {name: dict(own) for name, own in params.items()}
            if like is not None:
                self.rows, self.row_of_place, self.couplings = like.rows, like.row_of_place, like.couplings
                self._room = like._room
                self._prepare(plan)
            else:
                del self.rows  # given back before more is taken
                self._place(plan)
            self.plan = plan
            self._given, self._step, self._torn = copied(plan, state), int(state.step), False

    def begun(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Run:
        """Begin a run of which `Beside` does the launches."""
        return Run(self, steps, wanted, inputs)

    def simulated(self, starts: Sequence[Any], steps: int, wanted: Wanted) -> list[Any]:
        """Run some steps in JAX's program from each of several starts: resident, state, parameters, inputs and keys."""
        return [
            simulated(resident, functools.partial(self._resident_beside, resident), state, p, steps, given, wanted)
            for resident, state, p, given, _ in starts
        ]

    @property
    def runner(self) -> Any:
        """What runs the components of this network in `simulate` where it trains."""
        from ..training.gpu.engine import GpuKernels
        from ..training.runner import NativeRunner

        return NativeRunner(GpuKernels())

    @property
    def state(self) -> NetworkState:
        """The state before the next step, copied."""
        with self._lock:
            check_whole(self._torn)
            if self._given is None:
                return self._read()
            given = copied(self.plan, self._given)
            return replace(given, synapses=synapses_of_build([self.plastic], given)) if self.plastic else given

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        with self._lock:
            self._given, self._step, self._torn = copied(self.plan, state), int(state.step), False

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        with self._lock:
            if population not in self._params:
                assert self.plastic is not None
                self._treat_all()
                self.plastic.set(population, param, value)
                return
            before = self._params[population][param]
            self._params[population][param] = np.array(np.broadcast_to(value, np.shape(before)), before.dtype)
            self._prepare(self.plan)

    def set_weights(self, plan: Plan, state: NetworkState) -> None:
        """Go on with the weights of a plan that differs in nothing else, and from a state in its quanta."""
        with self._lock:
            del self.rows  # given back before more is taken
            self.__dict__.pop("resident", None)
            try:
                self._place(plan)
            except BaseException:
                self._place(self.plan)
                raise
            self.plan = plan
            self._given, self._step, self._torn = copied(plan, state), int(state.step), False

    def _treat(self, run: Run, room: SpikeRoom) -> None:
        """Start a launch without steps, which makes all calls of rules of synapses that were deferred."""
        assert self.plastic is not None
        net, _ = run.described(room)
        net["deferring"] = TREATED
        parameters = [net.tobytes(), np.uint32(self._step).tobytes(), np.uint32(0).tobytes()]
        self.device.launch(*self.launched, parameters, at_once=True, clustered=False)
        self.plastic.treated(self._step)

    def _treat_all(self) -> None:
        """Make all calls that were deferred, before synapses are read or the parameters of rules change."""
        if self._given is not None or not self.plastic or not self.plastic.waiting:
            return
        with uninterrupted():
            run = Run(self, 1, Wanted(), {})
            room = run.next_room()
            assert room is not None
            self._treat(run, room)
            self._wait(room)

    def _read(self) -> NetworkState:
        """Return the state that is on the device."""
        self._treat_all()
        return super()._read()

    def run(
        self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array], stopped: Stopped = never
    ) -> Recorded:
        """Run steps."""
        with self._lock:
            run = Run(self, steps, wanted, inputs)
            last: tuple[int, int, SpikeRoom] | None = None  # a launch whose spikes are read while the next one runs
            while run.goes_on and not stopped():
                with uninterrupted():
                    room = run.next_room([last[2]] if last else [])
                    if room is None:
                        break  # before steps that could not be recorded
                    self._launch(run, room)
                    if last:
                        run.recording.take(*last)
                    last = run.ran(room)
            if last:
                with uninterrupted():
                    run.recording.take(*last)
            return run.recorded()

    def prepared(self, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]) -> Prepared:
        """Return a run that is repeated."""
        return Repeated(self, steps, wanted, inputs)

    def _launch(self, run: Run, room: SpikeRoom) -> None:
        """Start a launch of a run."""
        if self.plastic and self.plastic.full:
            self._treat(run, room)
        net, steps = run.described(room)
        parameters = [net.tobytes(), np.uint32(self._step).tobytes(), np.uint32(steps).tobytes()]
        at_once = not self._clustered
        self.device.launch(*self.launched, parameters, at_once=at_once, clustered=self._clustered)


def engine_beside(plan: Plan, elements: int, device: Device, *, blocks: int | None, **options: Any) -> CudaEngine:
    """Return an engine for a plan that runs side by side with others of a number of elements, as `beside` does."""
    if blocks is None:
        neurons = sum(population.size for population in plan.populations)
        blocks = _fewer_blocks(plan, blocks_for(neurons, device.multiprocessors), elements, device)
    return CudaEngine(plan, blocks=blocks, **options, device=device, beside=True)


def _fewer_blocks(plan: Plan, alone: int, elements: int, device: Device) -> int:
    kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
    return blocks_beside(plan, kinds, numbers, alone, elements, device.multiprocessors)


def drawing_on_gpu(device: Device | None = None) -> Drawing:
    """Return what draws synapses on a GPU, by default that of this process.

    Other kernels of engines are compiled meanwhile.
    """
    device = default_device() if device is None else device
    device.prepare({"place_rows": rows_text(device.words), "order_spikes": spikes_text(device.words)})
    return Drawing(device)
