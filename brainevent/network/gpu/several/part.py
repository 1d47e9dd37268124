# SPDX-License-Identifier: Apache-2.0
"""`Part`: the engine of one of several GPUs, with some of the blocks of a network and the synapses that end there."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...plan.plan import Plan
from ...run.report import in_bytes
from ...state import NetworkState
from ..arrays import slots_of
from ..device import Device, Memory, cleared
from ..engine import CudaEngine
from ..kinds import Kind
from ..partition import MOST_THREADS, Partition, Placement, placed_partition, threads_for
from ..plastic import Plastic
from ..rows import LONG_ROW, DeviceRows
from ..shape import MOST_BLOCKS, blocks_for, pushed, room_of
from ..sorter import place_synapses
from ..spikes import SpikeRoom
from ..structs import FULL, PARTED, PEER, SLOTS, filled
from ..sums import wishes_of
from .exchange import exchange_structure
from .meeting import Meeting
from .placement import grouped
from .program import PartResident, next_sums
from .rows import SorterAmongGpus

__all__ = ["Part"]

_LONG_ROW = LONG_ROW  # synapses of a neuron in a block: shorter rows take longer if fewer blocks have them
_BETWEEN = 0.1  # of all synapses, between GPUs: rows of more of them are short ones on other GPUs
PATIENCE = 10_000_000_000  # nanoseconds that a packet is awaited: another program may keep a GPU busy

Array = Any


class Part(CudaEngine):
    """What one GPU does for a network on several.

    Its state is read and written, and its launches are made, by `SeveralEngine`. Arrays of neurons are those of all
    neurons, of which it uses its own; sums, synapses and spikes are those of its own blocks.

    Args:
        plan: The network.
        number: Which of the GPUs it is.
        count: How many there are.
        meeting: Where the parts that are made at the same time pass values to each other.
        device: What runs kernels.
        placement: Which neurons each GPU has; None for shares of all populations.
        **options: Those of `CudaEngine`; `blocks` are those of each GPU.
    """

    may_cluster = False

    def __init__(
        self,
        plan: Plan,
        number: int,
        count: int,
        meeting: Meeting,
        device: Device,
        placement: Placement | None = None,
        **options: Any,
    ):
        self.number, self.gpus, self._meeting, self._placement = number, count, meeting, placement
        self.is_stale, self._defers = False, False
        self.flag = cleared(device, 16, "a flag")
        self.peers: Memory | None = None
        self.next_sums: Memory | None = None
        super().__init__(plan, device=device, **options)
        self._given = None

    def _count(self, neurons: int, asked: int | None, *, clustered: bool) -> int:
        """Return how many blocks run the network on all GPUs."""
        most = min(self.device.multiprocessors, MOST_BLOCKS // self.gpus)
        return self.gpus * blocks_for(-(-neurons // self.gpus), most, asked, clustered=clustered)

    def _partitioned(
        self, plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], count: int, shared_bytes: int
    ) -> Partition:
        """Share neurons out over blocks of all GPUs, or of those that they are placed on."""
        dealt = super()._partitioned(plan, kinds, numbers, count, shared_bytes)
        neurons = sum(population.size for population in plan.populations)
        entries = sum(projection.entries for projection in plan.projections)
        if self._placement is None or dealt.pushed or entries < _LONG_ROW * neurons * dealt.blocks:
            return dealt
        in_block = dealt.threads > 0 or dealt.per <= MOST_THREADS or dealt.on_chip
        apart = None if in_block else self._in_groups(plan, kinds, numbers, count // self.gpus, shared_bytes)
        if apart is not None:
            return apart
        if self._placement.between > _BETWEEN:
            return dealt
        placement, own = self._placement, count // self.gpus
        return self._in_threads(
            plan,
            kinds,
            threads_for(plan, kinds, count, placement),
            lambda threads: placed_partition(plan, kinds, numbers, placement, own, self.number, threads),
            shared_bytes,
        )

    def _in_groups(
        self, plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], own: int, shared_bytes: int
    ) -> Partition | None:
        """Give groups of neurons blocks of their own, if blocks list rows that are due later; else return None.

        So it is where blocks have many neurons of many populations, and sums of the next steps alone in shared memory.
        """
        assert self._placement is not None
        if (placement := grouped(plan, self._placement, own)) is None:
            return None
        found = placed_partition(plan, kinds, numbers, placement, own, self.number)
        wishes = wishes_of(plan, found, 0, beside=False)
        room = room_of(found, kinds, slots_of(plan), shared_bytes, wishes=wishes)
        return found if room.sums.mixed and 0 < room.sums.near < slots_of(plan) else None

    def _owned(self, plan: Plan, partition: Partition) -> Partition:
        """Return what blocks of this GPU own."""
        own = partition.blocks // self.gpus
        return pushed(plan, replace(partition, first=own * self.number, own=own))

    def _plastic_of(self, plan: Plan, params: Any = None) -> Plastic:
        """Return the plastic synapses of a plan that end in blocks of this GPU."""
        return Plastic(self.device, plan, self.partition, params, defers=self._calls_wait, of_all=self._of_all)

    def _has_other_plastic(self, plan: Plan) -> bool:
        """Say whether plastic synapses are not those of a plan on any GPU: all of them make theirs together."""
        return any(self._of_all(super()._has_other_plastic(plan)))

    def _sorted(self, plan: Plan) -> DeviceRows:
        """Return the synapses of a plan that end in blocks of this GPU, in rows."""
        tells = exchange_structure(self.partition, plan, self.device.multiprocessors)["message"] > 0
        apart = tells and self.partition.placement is not None
        sorting = functools.partial(SorterAmongGpus, apart=apart)
        rows = place_synapses(self.device, plan, self.partition, self._room.left, self._of_all, sorting=sorting)
        self._bytes_of_all = sum(self._of_all(rows.nbytes))
        return rows

    def _of_all(self, value: Any) -> list[Any]:
        return self._meeting.of_all(self.number, value)

    @property
    def _row_bytes(self) -> int:
        """How much memory the rows of all GPUs take."""
        return self._bytes_of_all

    @property
    def said_of_rows(self) -> str:
        """How much memory the synapses of this GPU take, in words."""
        return f"synapses take {in_bytes(self.rows.nbytes)}"

    @property
    def units(self) -> str:
        """What runs the network, in words."""
        here = self.partition.here
        return f"{self.gpus} GPUs with {here} block{'' if here == 1 else 's'} each"

    def set(self, population: str, param: str, value: Array) -> None:
        """Replace a parameter; `follow` lets all else follow from it, once for many of them."""
        self._defers = True
        try:
            super().set(population, param, value)
        finally:
            self._defers = False

    def _prepare(self, plan: Plan) -> None:
        """Let text and tables follow from the parameters."""
        self.is_stale = self._defers
        if not self._defers:
            super()._prepare(plan)

    def follow(self) -> None:
        """Let text and tables follow from parameters that were set."""
        self._prepare(self.plan)

    def suit(self, state: NetworkState) -> bool:
        """Decide whether sums are words; `follow` lets all else follow from it."""
        changes = super().suit(state)
        self.is_stale = self.is_stale or changes
        return changes

    def with_weights(self, plan: Plan, meeting: Meeting) -> None:
        """Let rows be those of a plan that differs in weights alone."""
        self._meeting = meeting
        self.__dict__.pop("resident", None)
        if hasattr(self, "rows"):
            del self.rows  # given back before more is taken
        self._place(plan)
        self.plan = plan

    def with_plan(self, plan: Plan, meeting: Meeting) -> Part:
        """Return the same with the rows of a plan that differs in weights alone; nothing changes here."""
        other = copy.copy(self)
        other.__dict__.pop("resident", None)
        other.plan, other._params = plan, {p.name: dict(p.params) for p in plan.populations}
        other._lists, other._meeting = None, meeting
        other.arrays = copy.copy(self.arrays)  # whose sums may be bytes or words
        other._place(plan)
        return other

    @functools.cached_property
    def resident(self) -> PartResident:
        """What programs of `simulate` share on this GPU."""
        memories = {**self.rows.memories, "rows": self.row_of_place, **self.couplings}
        about = self.device, self.plan, self.partition, self.shape, self.net, self.arrays.slots, memories
        return PartResident(*about, number=self.number, list_size=self._list_size, moves=self._moves)

    def _late(self, plan: Plan) -> Mapping[str, Any]:
        """Return what of the structure says how late packets are read, and where they go."""
        return {**exchange_structure(self.partition, plan, self.device.multiprocessors), **super()._late(plan)}

    def make_room(self) -> None:
        """Make room for the spikes of the steps until a launch ends whose list is full."""
        structure = self.shape.structure
        steps = (
            (3 if self.plastic else 2) + structure.lag + structure.extra + structure.hold
        )  # after the one that reports a full list
        self._spikes.make_room(steps * self.partition.per)

    def _described(self) -> Any:
        """Return what all launches share, but for the addresses of the other GPUs."""
        net, partition = super()._described(), self.partition
        net["first_block"], net["own_blocks"], net["gpu"] = partition.first, partition.here, self.number
        net["patience"] = PATIENCE
        if self.next_sums is None:
            self.next_sums = next_sums(self.device, partition, self.shape, self.arrays.slots)
        net["next_sums"] = self.next_sums.address
        for name, nbytes in self._moves.items():
            if name in net.dtype.names and name != "ends":
                self._move(net, name, nbytes)
        if self.clocks:
            self._move(net, "clocks", self.clocks.memory.nbytes // partition.here)
        return net

    @property
    def _moves(self) -> dict[str, int]:
        """How many bytes a block has in arrays that are those of own blocks, though blocks are numbered through."""
        if self.partition.pushed:  # others are those of all own blocks together
            return {"ends": 16}
        ring, starts = (
            4 * self.arrays.slots * self.partition.cells,
            self.rows.start_bytes * (self.partition.sources + 1),
        )
        if self.rows.layout in (SLOTS, PARTED):  # they lie by source
            starts = 0
        return {"ends": 16, "ring": ring, "starts": starts, "bases": 8}

    def _move(self, net: Any, name: str, nbytes: int) -> None:
        """Let an address be that of block 0, given how many bytes a block has there."""
        net[name] = (int(net[name]) - nbytes * self.partition.first) % 2**64

    @property
    def peer(self) -> Any:
        """What other GPUs are to know of this one."""
        assert self._lists is not None
        peer = filled(PEER, packets=self._packets.address, list=self._lists.address, flag=self.flag.address)
        if self._carried is not None:
            peer["shown"], peer["met"] = self._carried.shown.address, self._carried.met.address
        return peer

    def connect(self, peers: Array) -> None:
        """Learn where the other GPUs have what."""
        if self.peers is None:
            self.peers = self.device.memory(peers.nbytes, "addresses of other GPUs")
        self.peers.upload(peers)
        self.net["peers"] = self.peers.address

    def write(self, state: NetworkState, states: Array, sums: Array | None) -> None:
        """Go on from a state, given states of all neurons and the sums of all blocks, None for zeros, as on devices."""
        if self.plastic:
            self.plastic.write(state)
        self.arrays.states.upload(states)
        self.arrays.put_sums(None if sums is None else np.ascontiguousarray(self.partition.ring_here(sums)))

    def read_into(self, states: Array, sums: Array) -> None:
        """Fill in what this GPU has of the states of all neurons, and of the sums of all blocks."""
        partition = self.partition
        begin, end = partition.first * partition.per, (partition.first + partition.here) * partition.per
        for k, row in enumerate(states):
            self.arrays.states.fill(row[begin:end], 4 * (k * row.size + begin))
        partition.ring_here(sums)[...] = self.arrays.sums()

    def go_on(self, step: int) -> None:
        """Continue with a step, from a state that is whole."""
        self._step, self._torn = step, False

    def launch(self, net: Any, steps: int) -> None:
        """Start a launch of a run, which all GPUs have described."""
        self._move(net, "ends", self._moves["ends"])
        self._move(net, "spikes", 8 * int(net["capacity"]))
        parameters = [net.tobytes(), np.uint32(self._step).tobytes(), np.uint32(steps).tobytes()]
        kernel, _, threads, shared = self.launched
        blocks = self.partition.here + (self.shape.structure.message > 0)
        self.device.launch(kernel, blocks, threads, shared, parameters, at_once=True)

    def ended(self, room: SpikeRoom) -> tuple[int, int]:
        """Return how many steps a launch ran that has ended, and why."""
        ends = room.ends.download(np.uint32, (self.partition.here, 4))
        why = int(np.bitwise_or.reduce(ends[:, 1]))
        if self.plastic:
            self.plastic.full = bool(why & FULL)
        return int(ends[0, 0]), why

    def advance(self, ran: int) -> None:
        """Take it that some steps ran."""
        self._step += ran
        if self.clocks:
            self.clocks.steps += ran
        self._torn = False

    @property
    def why_lost(self) -> int:
        """The number of the block that was awaited in vain, and 1; 0 if there is none."""
        return int(self.flag.download(np.uint32, 1)[0])

    def wait(self) -> None:
        """Wait for the kernel that runs."""
        self.device.wait()

    def give_up(self) -> None:
        """Let the kernel end that runs now, beside it: it waits for a GPU whose kernel is not there."""
        self.device.beside().copy_in(self.flag.address, np.array([self.partition.blocks + 1], np.uint32))
