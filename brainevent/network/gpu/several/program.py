# SPDX-License-Identifier: Apache-2.0
"""A run of a network on several GPUs as one custom call of XLA on each of them, which begin together."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ....errors import NetworkError
from ....ffi.call import native_call
from ....ffi.launch import LaunchPlan, loaded
from ...placed import OnGpu
from ...plan.plan import Plan
from ..couplings import CouplingRoom
from ..device import Device, Memory, cleared, held
from ..partition import Partition
from ..program import Call, Resident, steps_of_launch
from ..shape import Shape, list_words
from ..structs import PEER, filled
from .calls import TARGET, Program, Share, registered

__all__ = ["AXIS", "PartResident", "SeveralResident", "called", "next_sums"]

Array = Any

AXIS = "gpus"  # of the mesh
_LAUNCHES = 64  # of a call, at most: a GPU's queue of launches must not be full before others have theirs


class PartResident(Resident):
    """What one GPU has for programs: as on a GPU alone, and memory of its own in which GPUs exchange spikes.

    Calls take turns, so that all programs share this memory.

    Args:
        *about: What a GPU alone has.
        number: Which of the GPUs it is.
        list_size: How many words a list of spikes has.
        moves: How many bytes a block has in arrays that are those of own blocks.
    """

    def __init__(self, *about: Any, number: int, list_size: int, moves: Mapping[str, int]):
        super().__init__(*about)
        device, plan, partition, self.number = self.device, self.plan, self.partition, number
        self.own = frozenset(("packets", "list", "shown", "met"))
        self.moved = {name: nbytes * partition.first for name, nbytes in moves.items()}
        self.blocks = partition.here + (self.shape.structure.message > 0)
        self.packets = device.memory(self.shape.packets, "packets of spikes")
        self.lists = device.memory(4 * list_words(self.shape, partition.blocks, list_size), "lists of spikes")
        self.flag = cleared(device, 16, "a flag")
        self.next_sums = next_sums(device, partition, self.shape, int(self.net["slots"]))
        self.carried = CouplingRoom(device, plan, partition) if plan.couplings else None
        self.peers: Memory | None = None
        # The kernel is on the device before any is launched, and so is the one that fills tables.
        device.kernel(self._text, "run", self.shape.shared)
        device.kernel(self._fill_text, "fill", 0)

    @property
    def peer(self) -> Any:
        """What other GPUs are to know of this one."""
        peer = filled(PEER, packets=self.packets.address, list=self.lists.address, flag=self.flag.address)
        if self.carried is not None:
            peer["shown"], peer["met"] = self.carried.shown.address, self.carried.met.address
        return peer

    def connect(self, peers: Array) -> None:
        """Learn where the other GPUs have what."""
        self.peers = held(self.device, peers, "addresses of other GPUs")
        self.net["peers"] = self.peers.address
        self.net["packets"], self.net["list"] = self.packets.address, self.lists.address
        self.net["next_sums"] = self.next_sums.address
        if self.carried is not None:
            self.net["shown"], self.net["met"] = self.carried.shown.address, self.carried.met.address

    @property
    def begun_as_zeros(self) -> list[Memory]:
        """What is zero when a call begins."""
        return [self.packets, self.flag, *([self.carried.met] if self.carried is not None else [])]

    @property
    def kept(self) -> tuple[Memory, ...]:
        """The memory whose addresses programs have."""
        assert self.peers is not None
        carried = () if self.carried is None else (self.carried.shown, self.carried.met)
        return (*super().kept, self.packets, self.lists, self.flag, self.peers, self.next_sums, *carried)


def next_sums(device: Device, partition: Partition, shape: Shape, slots: int) -> Memory:
    """Return memory for the sums of the next steps of a GPU, if spikes are held before they are pushed."""
    structure = shape.structure
    steps = slots - structure.hold + structure.lag if structure.hold else 0
    return device.memory(4 * steps * partition.here * partition.cells, "sums of the next steps")


class SeveralResident:
    """What programs of a network on several GPUs share: what each of them has, and a mesh of them.

    Args:
        plan: The network.
        names: What errors call the GPUs.
        parts: What each GPU has.
    """

    def __init__(self, plan: Plan, names: Sequence[str], parts: Sequence[PartResident]):
        self.plan, self.names, self.parts = plan, names, parts
        peers = np.array([part.peer for part in parts], PEER)
        for part in parts:
            part.connect(peers)
        devices = np.array([part.device.of_jax for part in parts])
        self.mesh = Mesh(devices, (AXIS,), axis_types=(AxisType.Auto,))
        self.rows: Mapping[str, Array] = {}
        self.programs: dict[Any, Any] = {}

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take."""
        return sum(part.nbytes for part in self.parts)

    def of_operands(self) -> SeveralResident:
        """Return the same with rows as operands, so that no program keeps their memory."""
        other = copy.copy(self)
        other.parts = [copy.copy(part) for part in self.parts]
        other.programs = {}
        rows = {}
        for name in self.parts[0].memories:
            words = [part.memories[name].download(np.uint8, part.memories[name].nbytes) for part in self.parts]
            size = max(own.size for own in words)
            padded = [np.concatenate([own, np.zeros(size - own.size, np.uint8)]) for own in words]
            there = [jax.device_put(own, part.device.of_jax) for own, part in zip(padded, self.parts, strict=True)]
            whole = (len(there) * size,)
            rows[name] = jax.make_array_from_single_device_arrays(whole, self.split(AXIS), there)
        other.rows = rows
        for part in other.parts:
            part.rows, part.memories = rows, {}
        return other

    def split(self, *axes: str | None) -> NamedSharding:
        """Return how arrays with these axes lie on the GPUs."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def whole(self, x: Array) -> Array:
        """Return an array where programs take it: on all GPUs, unless it is on their mesh already."""
        if isinstance(x, jax.core.Tracer):
            return x
        known = isinstance(x, jax.Array) and getattr(x.sharding, "mesh", None) == self.mesh
        return x if known else jax.device_put(x, self.split())


@dataclass(frozen=True)
class _Target(OnGpu):
    """The launches of all GPUs, as a target of `native_call`."""

    number: int
    platform: str
    title: str = "network"
    name: str = TARGET

    @property
    def attributes(self) -> dict[str, Any]:
        """The number by which calls find their launches."""
        return {"be.several": np.array([self.number], np.int64)}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Raise: the synapses are not in the program."""
        raise NetworkError(
            "simulate: a program with a network on several GPUs cannot be exported, since the synapses are in the "
            'memory of this process; build the network with backend="jax"'
        )

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> _Target:
        """Raise: it is not batched in this way."""
        raise NotImplementedError


class _Call(Call):
    """The call of one GPU, with launches that are fewer and longer."""

    @property
    def _chunk(self) -> int:
        chunk = steps_of_launch(self.resident.plan, self.resident.partition.blocks)
        return max(chunk, -(-self.steps // _LAUNCHES))


def called(resident: SeveralResident, call: Call) -> dict[str, Array]:
    """Run steps on the GPU of the program, as others do at the same time; return the results by name.

    `call` is that of the first GPU.
    """
    plans = [_on(part, call).plan() for part in resident.parts]
    host = plans[0].host
    platform = "cpu" if host else "cuda"
    shares = [_share(part, plan) for part, plan in zip(resident.parts, plans, strict=True)]
    kept = tuple(memory for part in resident.parts for memory in part.kept)
    here = resident.parts[0].partition.here
    number = registered(Program(resident.names, here, shares, kept), platform)
    names = list(call.outs)
    aliases = [(k, names.index(name)) for k, name in enumerate(call.operands) if name in names]
    operands = [jnp.asarray(x) for x in call.operands.values()]
    results = native_call(_Target(number, platform), operands, list(call.outs.values()), aliases)
    return dict(zip(names, results, strict=True))


def _on(part: PartResident, call: Call) -> _Call:
    """Return the same call on another GPU."""
    return _Call(part, call.steps, call.wanted, call.inputs, call.operands, call.outs, call.zeroed)


def _share(part: PartResident, plan: LaunchPlan) -> Share:
    words = loaded(plan, streams=not plan.host)
    return Share(part.number, part.device, part.partition.blocks, words, part.begun_as_zeros, part.flag)
