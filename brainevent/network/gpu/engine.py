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
from ...bench.words import short
from ...errors import NetworkError
from ..calls.rebuilds import Rebuilds
from ..engine import Prepared, Repeated, Stopped, check_whole, input_rows, never
from ..plan.plan import Plan
from ..run.finite import check_finite, check_synapses
from ..run.recorded import Recorded, Wanted
from ..run.report import in_bytes
from ..state import NetworkState, begun_state, copied
from .arrays import Arrays, Tables, slots_of
from .clocks import Clocks
from .couplings import CouplingRoom, coupled_structure, coupling_words
from .device import Device, Memory, cuda_device, default_number, held
from .drawing import Drawing
from .partition import partition_of, threads_for
from .plastic import Plastic
from .program import Resident
from .pure import simulated
from .recording import Recording, flags_of
from .rows import LAYOUTS, DeviceRows, place_synapses, rows_text
from .shape import CLUSTER, blocks_beside, blocks_for, in_cluster, list_words, pushed, room_of, shape_of, suits_cluster
from .spikes import STEPS, SpikeRoom, Spikes, spikes_text
from .structs import NO_ROOM, NOT_FINITE, RECORDED, filled, net_dtype
from .text import extents_of, kinds_of, step_text

__all__ = ["CudaEngine", "drawing_on_gpu"]

_NANOSECONDS, _RECORDED = 400_000_000, 30_000_000  # of a launch, at most; of one whose spikes are read afterwards
_STEPS = 2**20  # of a launch, at most

Array = Any


class CudaEngine:
    """An `Engine` for a GPU. Several engines run one after another where they do not fit on it together.

    Args:
        plan: The network.
        blocks: How many blocks run it; None for what suits its size.
        shared_bytes: How much shared memory a block may use; None for all that there is.
        clocks: Whether the kernel measures where the time of a step goes.
        device: What runs kernels; None for the GPU that `jax.default_device` names, else the first.
        beside: Whether it runs side by side with others, in launches of `Beside` alone.
    """

    name = "cuda"
    paces_itself = True
    rows: DeviceRows
    row_of_place: Memory
    couplings: dict[str, Memory]

    def __init__(
        self,
        plan: Plan,
        *,
        blocks: int | None = None,
        shared_bytes: int | None = None,
        clocks: bool = False,
        device: Device | None = None,
        beside: bool = False,
    ):
        self.plan, self._lock = plan, threading.Lock()
        self.options: dict[str, Any] = {"blocks": blocks, "shared_bytes": shared_bytes}
        self._beside = beside
        self.device = device = cuda_device(default_number()) if device is None else device
        self._params = {p.name: dict(p.params) for p in plan.populations}
        kinds, numbers, _ = kinds_of(plan, self._params)
        neurons = sum(population.size for population in plan.populations)
        most = _checked_bytes(shared_bytes, device.shared_bytes)
        if beside:  # what all blocks of a network share is there, too
            most -= net_dtype(
                extents_of(kinds), len(plan.populations), coupled=bool(plan.couplings), plastic=bool(plan.plastic)
            ).itemsize
        # Values of spikes and states go through memory, and packets with them: those through the shared memory of a
        # cluster do not say that they are there.
        self._graded = any(population.rule.value for population in plan.populations)
        assert not (beside and plan.plastic)
        clusters = device.has_clusters and not self._graded and not plan.couplings
        small = clusters and device.multiprocessors >= CLUSTER and suits_cluster(plan, most)
        count = blocks_for(neurons, device.multiprocessors, blocks, clustered=small)
        partition = partition_of(plan, kinds, numbers, count, threads_for(plan, kinds, count))
        self.partition = pushed(plan, partition)
        self._clustered = clusters and in_cluster(count) and not plan.plastic and not self.partition.pushed
        self.plastic = Plastic(device, plan, self.partition) if plan.plastic else None
        needed = (self.plastic.lists, self.plastic.table_words) if self.plastic else (0, 0)
        self._room = room_of(self.partition, kinds, slots_of(plan), most, *needed)
        self.rows = place_synapses(device, plan, self.partition, self._room.left)
        self.arrays = Arrays(device, plan, self.partition, kinds)
        self._list_size = self.partition.per + -self.partition.per % 4
        self._lists: Memory | None = None
        self.clocks = Clocks(device, count, plastic=bool(plan.plastic)) if clocks else None
        self._spikes = Spikes(device, plan, self.partition)
        self._carried = CouplingRoom(device, plan, self.partition) if plan.couplings else None
        self._lay_out(plan)
        self._given: NetworkState | None = begun_state(plan)  # not on the device yet
        self._step, self._torn = 0, False
        self.rebuilds = Rebuilds()

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
        kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
        return blocks_beside(plan, kinds, numbers, self.partition.blocks, elements, self.device.multiprocessors)

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
                self._prepare(plan)
            else:
                del self.rows  # given back before more is taken
                self._place(plan)
            self.plan = plan
            self._given, self._step, self._torn = copied(plan, state), int(state.step), False

    @property
    def launched(self) -> tuple[Any, int, int, int]:
        """The kernel, and how it is launched: blocks, threads and bytes of shared memory."""
        return self._kernel, self.partition.blocks, self.shape.structure.threads, self.shape.shared

    @property
    def is_clustered(self) -> bool:
        """Whether all blocks are in one cluster."""
        return self._clustered

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
            return replace(given, synapses=self.plastic.synapses_of_build(given)) if self.plastic else given

    def _read(self) -> NetworkState:
        """Return the state that is on the device."""
        state = self.arrays.read(self.plan, self._step)
        return self.plastic.read(state) if self.plastic else state

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        blocks = f"{self.partition.blocks} block{'' if self.partition.blocks == 1 else 's'}"
        return f"one cluster of {blocks}" if self._clustered else blocks

    @property
    def placement(self) -> str:
        """Where everything lies on the device, in words."""
        structure, rows = self.shape.structure, self.rows
        entries = sum(projection.entries for projection in self.plan.projections)
        states = "registers" if structure.in_registers or structure.cells else self._where(structure.words_in_block)
        ring = "shared memory" if structure.ring_in_block else "memory"
        kept = " in shared memory" if structure.rows_in_block else ""
        size = f"{in_bytes(rows.nbytes)}, {short(rows.nbytes / max(1, entries), 3)} bytes a synapse"
        parts = [f"{LAYOUTS[rows.layout]}{kept}, {size}"] if entries or not self.plastic else []
        parts += [self.plastic.placement] if self.plastic else []
        parts += [self.clocks.text()] if self.clocks else []
        return (
            f"{self.device.name}: {self.units} of {structure.threads} threads, at most {self.partition.per} neurons "
            f"each, states in {states}; sums of {self.arrays.slots} steps in {ring}; {'; '.join(parts)}"
        )

    def _where(self, inside: int) -> str:
        """Say where states are stored, given how many of their words are in shared memory."""
        words = self.arrays.words
        if inside in (0, words):
            return "shared memory" if inside else "memory"
        return f"memory, {inside} word{'s'[: inside - 1]} of {words} in shared memory"

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        with self._lock:
            self._given, self._step, self._torn = copied(self.plan, state), int(state.step), False

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter."""
        with self._lock:
            if population not in self._params:
                assert self.plastic is not None
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

    def _place(self, plan: Plan) -> None:
        """Put the synapses of a plan into rows, and let all follow from them."""
        self.rows = place_synapses(self.device, plan, self.partition, self._room.left)
        if self.plastic and self.plastic.plan.plastic is not plan.plastic:
            params = self.plastic.params
            self.plastic = None  # given back before more is taken
            self.plastic = Plastic(self.device, plan, self.partition, params)
        self._lay_out(plan)

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
        net, steps = run.described(room)
        parameters = [net.tobytes(), np.uint32(self._step).tobytes(), np.uint32(steps).tobytes()]
        at_once = not self._clustered
        self.device.launch(*self.launched, parameters, at_once=at_once, clustered=self._clustered)

    def _wait(self, room: SpikeRoom) -> int:
        """Wait for a launch; return how many steps it ran."""
        ends = room.ends.download(np.uint32, (self.partition.blocks, 4))
        ran, why = int(ends[0, 0]), int(ends[0, 1])
        if why & NO_ROOM:
            self._spikes.make_room(2 * room.capacity)
        self._step += ran
        if self.clocks:
            self.clocks.steps += ran
        self._torn = False
        if why & NOT_FINITE:
            check_finite(self.plan, self._step - 1, self.arrays.read(self.plan, self._step).neurons)
        if self.plastic and self.plan.check_finite:
            check_synapses(self._step - 1, self.plastic.faults())
        return ran

    def _lay_out(self, plan: Plan) -> None:
        """Let all follow from the rows."""
        self.row_of_place = held(self.device, self.partition.by_block(self.rows.rows), "rows of neurons")
        self.couplings = {}
        if plan.couplings:
            words = coupling_words(plan, self.partition)
            self.couplings = {"couplings": held(self.device, words, "synapses of couplings")}
        self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        """Let text and tables follow from the parameters."""
        partition = self.partition
        kinds, numbers, own = kinds_of(plan, self._params)
        how: dict[str, Any] = {
            "checked": plan.check_finite or self._graded,
            "only_nan": not plan.check_finite and self._graded,
            "clocked": self.clocks is not None,
            "graded": self._graded,
            "coupled": coupled_structure(plan),
            "late": self.plastic.text.late if self.plastic else {},
        }
        populations = tuple(numbers[population.name] for population in plan.populations)
        plastic = self.plastic.text if self.plastic else None
        if self.plastic:
            self.plastic.fill(plan)
        while True:
            shape = shape_of(
                partition, self.rows, self._room, populations, clustered=self._clustered, beside=self._beside, **how
            )
            text = step_text(kinds, shape.structure, self.device.words, plastic)
            self._kernel = self.device.kernel(text, "run", shape.shared)
            launch = partition.blocks, shape.structure.threads, shape.shared
            if not self._clustered or self.device.has_room_for_cluster(self._kernel, *launch):
                break
            self._clustered = False  # the blocks send packets through memory
        self.shape, self.kinds = shape, kinds
        self.tables = Tables(self.device, plan, partition, kinds, numbers)
        self.tables.fill(self._params, own)
        words = list_words(shape, partition.blocks, self._list_size)
        if self._lists is None or self._lists.nbytes != 4 * words:
            self._lists = self.device.memory(4 * words, "lists of spikes")
        self._packets = self.device.memory(shape.packets, "packets of spikes")
        self.net = self._described()

    def _described(self) -> Any:
        """Return what all launches share."""
        partition, entry = self.partition, self.rows.entry
        assert self._lists is not None
        most = extents_of(self.kinds)
        net = filled(
            net_dtype(most, partition.common, coupled=self._carried is not None, plastic=self.plastic is not None),
            blocks=partition.blocks,
            per=partition.per,
            slots=self.arrays.slots,
            cells=partition.cells,
            sources=partition.sources,
            populations=len(self.plan.populations),
            copies=self.shape.copies,
            delay_shift=entry.delay_shift,
            cell_shift=entry.cell_shift,
            cell_mask=(1 << entry.cell_bits) - 1,
            list_size=self._list_size,
            row_words=self.shape.row_words,
            more=self._room.more,
            slot_bits=entry.bits,
            slot_mask=2**entry.bits - 1 if entry.in_slot else 0,
            weight_shift=0 if entry.wide else 32 - entry.weight_bits,
            scalars=self.tables.scalars.address,
            arrays=self.tables.arrays.address,
            rows=self.row_of_place.address,
            states=self.arrays.states.address,
            ring=self.arrays.ring.address,
            packets=self._packets.address,
            list=self._lists.address,
            **{name: memory.address for name, memory in self.rows.memories.items()},
            clocks=self.clocks.memory.address if self.clocks else 0,
            **{name: memory.address for name, memory in self.couplings.items()},
            **({"plastic": self.plastic.address} if self.plastic else {}),
        )
        if self._carried is not None:
            net["shown"], net["met"] = self._carried.shown.address, self._carried.met.address
        net["reach"][: most.receptors] = partition.reach[: most.receptors]
        return net

    def _populations(
        self, recording: Recording, given: Mapping[tuple[str, str], tuple[Memory, int]]
    ) -> tuple[Memory, Array]:
        fed = {name for name, _ in given}
        flags = {p.name: flags_of(recording.wanted, p.name, RECORDED, fed=p.name in fed) for p in self.plan.populations}
        rates = {name: memory.address for name, memory in recording.rates.items()}
        inputs = {place: (memory.address, width) for place, (memory, width) in given.items()}
        table, common = self.tables.described(flags, rates, inputs)
        return held(self.device, table, "populations"), common

    def _input(self, steps: int, place: tuple[str, str], given: Array) -> tuple[Memory, int]:
        """Return inputs on the device, and how many numbers a step has."""
        array = input_rows(self.plan, place, given, steps)
        return held(self.device, array, f"inputs {'.'.join(place)}"), array.shape[1]


class Run:
    """A run of an engine, launch by launch."""

    def __init__(self, engine: CudaEngine, steps: int, wanted: Wanted, inputs: Mapping[tuple[str, str], Array]):
        self._engine, self.steps, self._wanted = engine, steps, wanted
        check_whole(engine._torn)
        # Their memory is held here: kernels have its address alone.
        self._given = {place: engine._input(steps, place, array) for place, array in inputs.items()}
        if engine._given is not None:
            engine.arrays.write(engine._given)
            if engine.plastic:
                engine.plastic.write(engine._given)
            engine._given = None
        spikes = engine._spikes
        about = engine.device, engine.plan, engine.partition, spikes
        self.recording = Recording(*about, engine._step, steps, wanted, engine.plastic)
        self._populations = engine._populations(self.recording, self._given)
        self._of_synapses = sum(sample.of_synapses for sample in wanted.samples.values())
        self._of_neurons = len(wanted.samples) - self._of_synapses
        self.turn, self._plain = 0, not inputs and not self._of_neurons

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
        steps = min(self.steps - self.turn, STEPS if self._wanted.spikes else _STEPS)
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
            net["synapse_samples"], net["synapse_sample"] = self._of_synapses, recording.synapse_samples.address
        net["nanoseconds"] = _RECORDED if self._wanted.spikes else _NANOSECONDS
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

    def recorded(self) -> Recorded:
        """Return what was recorded."""
        return self.recording.recorded(self.turn)


def drawing_on_gpu() -> Drawing:
    """Return what draws synapses on the GPU of this process. Other kernels of engines are compiled meanwhile."""
    device = cuda_device(default_number())
    device.prepare({"place_rows": rows_text(device.words), "order_spikes": spikes_text(device.words)})
    return Drawing(device)


def _checked_bytes(asked: Any, most: int) -> int:
    if asked is None:
        return most
    if not isinstance(asked, int) or not 0 < asked <= most:
        raise NetworkError(f"build: shared_bytes is {asked!r}; pass an integer from 1 to {most}")
    return asked
