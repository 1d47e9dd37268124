# SPDX-License-Identifier: Apache-2.0
"""`DeviceNetwork`: a network on a GPU: where all lies, and the kernel that runs its steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...bench.words import short
from ...errors import NetworkError
from ..calls.rebuilds import Rebuilds
from ..engine import input_rows
from ..plan.plan import Plan
from ..run.finite import check_finite, check_synapses
from ..run.report import in_bytes
from ..state import NetworkState, begun_state
from .arrays import Arrays, Tables, falling_receptors, slots_of
from .clocks import Clocks
from .couplings import CouplingRoom, coupled_structure, coupling_words
from .cuda_device import default_device
from .device import Device, Memory, held
from .kinds import Kind, extents_of, fractions_of, kinds_of
from .partition import Partition, partition_of, threads_for
from .plastic import Plastic
from .plastic_state import faults_of, read_plastic
from .recording import Recording, flags_of
from .rows import LAYOUTS, DeviceRows
from .shape import (
    CLUSTER,
    MOST_BLOCKS,
    Room,
    blocks_for,
    has_room,
    in_cluster,
    in_fours,
    in_threads,
    list_words,
    pushed,
    room_of,
    shape_of,
    suits_cluster,
)
from .sorter import place_synapses
from .spikes import SpikeRoom, Spikes
from .structs import FULL, NO_ROOM, NOT_FINITE, RECORDED, filled, net_dtype
from .structure import Structure
from .sums import wishes_of
from .text import step_text

__all__ = ["DeviceNetwork"]

Array = Any


class DeviceNetwork:
    """A network on a device: its synapses and states in memory, and the kernel that runs its steps.

    Args:
        plan: The network.
        blocks: How many blocks run it; None for what suits its size.
        shared_bytes: How much shared memory a block may use; None for all that there is.
        clocks: Whether the kernel measures where the time of a step goes.
        device: What runs kernels; None for the GPU that `jax.default_device` names, else the first.
        beside: Whether it runs side by side with others, in launches of `Beside` alone.
    """

    may_cluster = True
    tells: Collection[str] = ()  # populations whose spikes other processes are told of
    rows: DeviceRows
    row_of_place: Memory
    couplings: dict[str, Memory]
    plastic: Plastic | None
    _sums_are_wide: bool  # a state had larger ones than runs of the network
    _plastic_params: dict[str, dict[str, Any]] | None  # those that were set, if there were plastic synapses before

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
        self.device = device = default_device() if device is None else device
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
        clusters = self.may_cluster and device.has_clusters and not self._graded and not plan.couplings
        small = clusters and device.multiprocessors >= CLUSTER and suits_cluster(plan, most)
        count = self._count(neurons, blocks, clustered=small)
        self.partition = self._partitioned(plan, kinds, numbers, count, most)
        self._clustered = clusters and in_cluster(count) and not self.partition.pushed
        self._calls_wait, self._plastic_params, self._sums_are_wide = has_room(most), None, False
        self.plastic = self._plastic_of(plan) if plan.plastic else None
        own = self.plastic
        self._of_plastic = (own.lists, own.table_words, own.warp_bytes, own.handed_bytes) if own else (0, 0, 0, 0)
        self._most, self._kinds_of_build = most, kinds
        self._room = self._shared_out(plan)
        self.rows = self._sorted(plan)
        self.arrays = Arrays(device, plan, self.partition, kinds)
        self._list_size = self.partition.per + -self.partition.per % 4
        self._lists: Memory | None = None
        self.clocks = Clocks(device, self.partition.here, plastic=bool(plan.plastic)) if clocks else None
        self._spikes = Spikes(device, plan, self.partition)
        self._carried = CouplingRoom(device, plan, self.partition) if plan.couplings else None
        self._lay_out(plan)
        self._given: NetworkState | None = begun_state(plan)  # not on the device yet
        self._step, self._torn = 0, False
        self.rebuilds = Rebuilds()

    def _count(self, neurons: int, asked: int | None, *, clustered: bool) -> int:
        """Return how many blocks run the network."""
        return blocks_for(neurons, self.device.multiprocessors, asked, clustered=clustered)

    def _partitioned(
        self, plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], count: int, shared_bytes: int
    ) -> Partition:
        """Share neurons out over blocks; return what those of this GPU own."""
        dealt = self._in_threads(
            plan,
            kinds,
            threads_for(plan, kinds, count),
            lambda threads: partition_of(plan, kinds, numbers, count, threads),
            shared_bytes,
        )
        return self._in_fours(plan, kinds, numbers, self._owned(plan, dealt), shared_bytes)

    def _in_threads(
        self, plan: Plan, kinds: Sequence[Kind], threads: int, deal: Callable[[int], Partition], shared_bytes: int
    ) -> Partition:
        """Return a partition for threads that have several neurons in registers, or whatever suits a plan better."""
        return in_threads(plan, kinds, threads, deal, slots_of(plan), shared_bytes, beside=self._beside)

    def _owned(self, plan: Plan, partition: Partition) -> Partition:
        """Return what blocks of this GPU own."""
        return pushed(plan, partition)

    def _in_fours(self, plan: Plan, kinds: Any, numbers: Any, partition: Partition, shared_bytes: int) -> Partition:
        """Return a partition whose threads have neurons in fours, if those are many, on all multiprocessors."""
        if self._beside:
            return partition
        most = min(self.device.multiprocessors, MOST_BLOCKS // partition.gpus)
        blocks = partition.blocks if self.options["blocks"] is not None else most * partition.gpus
        return in_fours(plan, kinds, numbers, partition, blocks, shared_bytes)

    def _shared_out(self, plan: Plan) -> Room:
        """Return what lies in the shared memory of a block, for the synapses of a plan."""
        late = self._late(plan)
        lag = late.get("lag", 0) + late.get("extra", 0)
        wishes = wishes_of(plan, self.partition, lag, beside=self._beside)
        return room_of(
            self.partition,
            self._kinds_of_build,
            slots_of(plan),
            self._most,
            *self._of_plastic,
            wishes=wishes,
            hold=late.get("hold", 0),
        )

    def _plastic_of(self, plan: Plan, params: Any = None) -> Plastic:
        """Return the plastic synapses of a plan that end in blocks of this GPU."""
        clustered = self._clustered and self._calls_wait
        found = Plastic(self.device, plan, self.partition, params, defers=self._calls_wait, clustered=clustered)
        self._clustered = found.clustered
        return found

    def _sorted(self, plan: Plan) -> DeviceRows:
        """Return the synapses of a plan in rows."""
        return place_synapses(self.device, plan, self.partition, self._room.left)

    @property
    def launched(self) -> tuple[Any, int, int, int]:
        """The kernel, and how it is launched: blocks, threads and bytes of shared memory."""
        return self._kernel, self.partition.blocks, self.shape.structure.threads, self.shape.shared

    @property
    def is_clustered(self) -> bool:
        """Whether all blocks are in one cluster."""
        return self._clustered

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self._step

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        blocks = f"{self.partition.blocks} block{'' if self.partition.blocks == 1 else 's'}"
        return f"one cluster of {blocks}" if self._clustered else blocks

    @property
    def _row_bytes(self) -> int:
        """How much memory all rows take."""
        return self.rows.nbytes

    @property
    def placement(self) -> str:
        """Where everything lies on the device, in words."""
        structure, rows, nbytes = self.shape.structure, self.rows, self._row_bytes
        entries = sum(projection.entries for projection in self.plan.projections)
        states = "registers" if structure.in_registers or structure.cells else self._where(structure.words_in_block)
        if structure.fours:
            states = self._where_fours(structure)
        ring = "shared memory" if structure.ring_in_block else "memory, as bytes" if structure.falling else "memory"
        if structure.near:
            ring += f", those of the next {structure.near} in shared memory in 16 bits"
        kept = " in shared memory" if structure.rows_in_block else ""
        size = f"{in_bytes(nbytes)}, {short(nbytes / max(1, entries), 3)} bytes a synapse"
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

    def _where_fours(self, structure: Structure) -> str:
        """Say where states are stored, if neurons are in fours."""
        words = fractions_of(self.kinds) * len(structure.fours)
        kept, shared = structure.kept_fours, structure.shared_fours
        parts = {"registers": kept, "shared memory": shared, "memory": words - kept - shared}
        whole = ["memory, as bytes"] * (self.arrays.words > fractions_of(self.kinds))
        return ", ".join([f"{place} ({100 * part / words:.0f} %)" for place, part in parts.items() if part] + whole)

    def _read(self) -> NetworkState:
        """Return the state that is on the device."""
        state = self.arrays.read(self.plan, self._step)
        return read_plastic([self.plastic], state) if self.plastic else state

    def _place(self, plan: Plan) -> None:
        """Put the synapses of a plan into rows, and let all follow from them."""
        self._room = self._shared_out(plan)
        self.rows = self._sorted(plan)
        if plan.plastic and self._has_other_plastic(plan):
            if self.plastic:
                self._plastic_params = self.plastic.params
            self.plastic = None  # given back before more is taken
            self.plastic = self._plastic_of(plan, self._plastic_params)
        self._lay_out(plan)

    def _has_other_plastic(self, plan: Plan) -> bool:
        """Say whether plastic synapses are not those of a plan; there are none where they could not be made before."""
        return self.plastic is None or self.plastic.plan.plastic is not plan.plastic

    def _wait(self, room: SpikeRoom) -> int:
        """Wait for a launch; return how many steps it ran."""
        ends = room.ends.download(np.uint32, (self.partition.blocks, 4))
        ran, why, room.used = int(ends[0, 0]), int(ends[0, 1]), int(ends[:, 2].sum())
        if self.plastic:
            self.plastic.full = bool(why & FULL)
        if why & NO_ROOM:
            self._spikes.make_room(2 * room.capacity)
        self._step += ran
        if self.clocks:
            self.clocks.steps += ran
        self._torn = False
        if why & NOT_FINITE:
            self._raise_not_finite()
        if self.plastic and self.plan.check_finite:
            check_synapses(self._step - 1, faults_of([self.plastic]))
        return ran

    def _raise_not_finite(self) -> None:
        """Raise for the first state that is not finite after the last step."""
        check_finite(self.plan, self._step - 1, self.arrays.read(self.plan, self._step).neurons)

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
        falling = () if self._sums_are_wide else falling_receptors(plan, partition, self.rows.entry)
        how: dict[str, Any] = {
            "checked": plan.check_finite or self._graded,
            "only_nan": not plan.check_finite and self._graded,
            "clocked": self.clocks is not None,
            "graded": self._graded,
            "coupled": {**coupled_structure(plan), "falling": falling},
            "late": self._late(plan),
        }
        self.tables = Tables(self.device, plan, partition, kinds, numbers)
        self.tables.fill(self._params, own)
        populations = tuple(numbers[population.name] for population in plan.populations)
        if self.plastic:
            self.plastic.fill(plan)
            self.plastic.enter(self._room)
        plastic = self.plastic.text if self.plastic else None
        while True:
            shape = shape_of(
                partition, self.rows, self._room, populations, clustered=self._clustered, beside=self._beside, **how
            )
            if self.plastic:
                shape = replace(shape, shared=shape.shared + self.plastic.block_bytes)
            if not self.tables.fit_in_block:
                shape = replace(shape, structure=replace(shape.structure, table_words=0))
            text = step_text(kinds, shape.structure, self.device.words, plastic)
            self._kernel = self.device.kernel(text, "run", shape.shared)
            launch = partition.blocks, shape.structure.threads, shape.shared
            if not self._clustered or self.device.has_room_for_cluster(self._kernel, *launch):
                break
            self._clustered = False  # the blocks send packets through memory
        self.shape, self.kinds = shape, kinds
        words = list_words(shape, partition.blocks, self._list_size)
        if self._lists is None or self._lists.nbytes != 4 * words:
            self._lists = self.device.memory(4 * words, "lists of spikes")
        self._packets = self.device.memory(shape.packets, "packets of spikes")
        self.arrays.falling = falling
        self.net = self._described()

    def _write(self, state: NetworkState) -> None:
        """Go on from a state."""
        if self.suit(state):
            self._prepare(self.plan)
        self.arrays.write(state)

    def suit(self, state: NetworkState) -> bool:
        """Decide whether sums are words instead of bytes, so that those of a state fit; say whether that changes."""
        before, falling = self._sums_are_wide, falling_receptors(self.plan, self.partition, self.rows.entry)
        self._sums_are_wide = not self.arrays.fits(state, falling)
        return self._sums_are_wide != before

    def _late(self, plan: Plan) -> Mapping[str, Any]:
        """Return what of the structure says how late packets are read."""
        return {**self.plastic.text.late, **self.plastic.told} if self.plastic else {}

    def _described(self) -> Any:
        """Return what all launches share."""
        partition, entry = self.partition, self.rows.entry
        assert self._lists is not None
        most = extents_of(self.kinds)
        needs = {"coupled": self._carried is not None, "plastic": self.plastic is not None}
        net = filled(
            net_dtype(most, partition.common, **needs, several=partition.gpus > 1, tells=self.shape.structure.tells),
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
        flags = {name: bits | (RECORDED if name in self.tells else 0) for name, bits in flags.items()}
        rates = {name: memory.address for name, memory in recording.rates.items()}
        inputs = {place: (self._input_at(place, *one), one[1]) for place, one in given.items()}
        table, common = self.tables.described(flags, rates, inputs)
        return held(self.device, table, "populations"), common

    def _input_at(self, place: tuple[str, str], memory: Memory, width: int) -> int:
        """Return the address of the inputs of neuron 0, of memory with so many numbers for each step."""
        del place, width
        return memory.address

    def _input(self, steps: int, place: tuple[str, str], given: Array) -> tuple[Memory, int]:
        """Return inputs on the device, and how many numbers a step has."""
        array = input_rows(self.plan, place, given, steps)
        return held(self.device, array, f"inputs {'.'.join(place)}"), array.shape[1]


def _checked_bytes(asked: Any, most: int) -> int:
    if asked is None:
        return most
    if not isinstance(asked, int) or not 0 < asked <= most:
        raise NetworkError(f"build: shared_bytes is {asked!r}; pass an integer from 1 to {most}")
    return asked
