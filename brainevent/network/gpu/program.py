# SPDX-License-Identifier: Apache-2.0
"""A run of a network as one custom call of XLA: tables are filled, then the kernel is launched for some steps each."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray
from ...errors import NetworkError
from ...ffi.call import native_call
from ...ffi.launch import Launch, LaunchPlan, PlanTarget, Slot
from ..plan.plan import Plan
from ..run.recorded import Wanted
from .arrays import NeuronPlaces, Tables, words_of
from .device import Device, Memory
from .kinds import kinds_of
from .partition import Partition
from .recording import flags_of
from .shape import Shape, in_program
from .structs import SAMPLE, SHOWN, filled, piece_dtype
from .text import other_text, step_text

__all__ = ["Call", "Resident", "called"]

Array = Any
Place = tuple[str, str]

_NETWORKS = 2**16  # in one launch, at most
_PIECE = 256  # words of a table that one launch fills
_LAUNCH = 500_000  # microseconds, about
_STEPS = 2**20  # of a launch, at most
_kept: dict[int, Memory] = {}  # by address: XLA may keep a program for any time, so it is never freed


class Resident:
    """What all programs of an engine share: its kernel for arrays of JAX, and the memory whose addresses they have.

    Parameters are those that the network was built with; `net` is what launches of the engine's own kernel share.
    `memories` are those whose addresses in `net` programs have, unless `rows` has their content: arrays of JAX by the
    names of the addresses, which programs are given as operands.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        partition: Partition,
        shape: Shape,
        net: Any,
        slots: int,
        memories: Mapping[str, Memory],
    ):
        self.device, self.plan, self.partition, self.net = device, plan, partition, net.copy()
        self.shape = in_program(shape)
        self.rows: Mapping[str, Array] = {}
        self.moved: Mapping[str, int] = {}  # by name of an array: how many bytes before it its address in `net` is
        self.own: frozenset[str] = frozenset()  # arrays that lie in memory of the network, not in that of a program
        self.blocks = partition.blocks  # of a launch
        params = {p.name: dict(p.params) for p in plan.populations}
        kinds, numbers, self.kinds = kinds_of(plan, params)
        self.tables = Tables(device, plan, partition, kinds, numbers)
        self.tables.fill(params, self.kinds)
        self.places = NeuronPlaces(plan, partition.whole, slots, words_of(kinds), jnp)
        structure = replace(self.shape.structure, checked=False, clocked=False, traced=True)
        if structure.populations:  # whose kinds, and tables, are those of the parameters now
            structure = replace(structure, populations=tuple(numbers[p.name] for p in plan.populations))
        if not self.tables.fit_in_block:
            structure = replace(structure, table_words=0)
        self._text = step_text(kinds, structure, device.words)
        self.run = device.code(self._text, "run")
        self._fill_text = other_text(("fill.cu",), _PIECE, device.words)
        self.fill = device.code(self._fill_text, "fill")
        self.memories = memories
        self.others: dict[int, Resident] = {}  # for several networks side by side, by how many blocks each has

    @property
    def nbytes(self) -> int:
        """How much memory the synapses take."""
        own = sum(int(one.nbytes) for one in (self.rows or self.memories).values())
        return own + sum(other.nbytes for other in self.others.values())

    @functools.cached_property
    def at_once(self) -> int:
        """How many networks may be in one launch; clusters wait by themselves until there is room for them."""
        shape, blocks = self.shape, self.partition.blocks
        if shape.structure.cluster:
            return _NETWORKS
        kernel = self.device.kernel(self._text, "run", shape.shared)
        threads = shape.structure.threads
        return max(1, self.device.networks_at_once(kernel, blocks, threads, shape.shared, clustered=False))

    def of_operands(self) -> Resident:
        """Return the same with rows as operands, so that no program keeps their memory."""
        other = copy.copy(self)
        download = {name: memory.download(np.uint8, memory.nbytes) for name, memory in self.memories.items()}
        other.rows = {name: jax.device_put(words, self.device.of_jax) for name, words in download.items()}
        other.memories = {}
        return other

    @property
    def kept(self) -> tuple[Memory, ...]:
        """The memory whose addresses programs have."""
        return (*self.memories.values(), self.tables.counted)


@dataclass(frozen=True)
class _Target(PlanTarget):
    """A plan with addresses of this process; the memory there is kept once a program is made of it."""

    memories: tuple[Memory, ...] = field(default=(), compare=False, repr=False)

    @property
    def attributes(self) -> dict[str, Any]:
        """The plan itself."""
        _kept.update((memory.address, memory) for memory in self.memories)
        return super().attributes

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Raise: the synapses are not in the program."""
        raise NetworkError(
            "simulate: a program with a network of backend='cuda' cannot be exported, since the synapses are in the "
            'memory of this process; build the network with backend="jax"'
        )


@dataclass(frozen=True, eq=False)
class Call:
    """Arrays of one run by name: operands of the call, types of its results, and those of them that begin as zeros.

    Results that begin as an operand have its name. Of several networks side by side, `elements`, each operand and
    result that has `strides` has them side by side, so many bytes apart; None is one network alone.
    """

    resident: Resident
    steps: int
    wanted: Wanted
    inputs: Mapping[Place, int]  # how many numbers a step has
    operands: Mapping[str, Array]
    outs: Mapping[str, ShapedArray]
    zeroed: tuple[str, ...]
    elements: int | None = None
    strides: Mapping[str, int] = field(default_factory=dict)

    def slot(self, name: str, byte: int, *, shift: int = 0, alignment: int = 1) -> Slot:
        """Return the slot for the address of an array in the first parameter of a launch."""
        if name in self.outs:
            number = len(self.operands) + list(self.outs).index(name)
        else:
            number = list(self.operands).index(name)
        return Slot(0, number, byte, shift, alignment)

    def plan(self) -> LaunchPlan:
        """Return the plan of all launches."""
        table, common, at_table = self._populations()
        samples, at_samples = self._samples()
        on_host = self.resident.device.of_jax.platform == "cpu"
        launches = [
            *self._filled("populations", *self._of_each(table, at_table)),
            *self._filled("samples", *self._of_each(samples, at_samples)),
        ]
        net, at_net = self._net(common)
        chunk = self._chunk
        turns = [(turn, min(chunk, self.steps - turn)) for turn in range(0, self.steps, chunk)]
        if self.elements is None:
            launches += [self._run(net, *turn, at_net, on_host) for turn in turns]
        else:
            launches += self._beside(net, turns, at_net, on_host)
        numbers = {name: len(self.operands) + k for k, name in enumerate(self.outs)}
        zeroed = tuple((numbers[name], 4 * int(np.prod(self.outs[name].shape))) for name in self.zeroed)
        buffers = len(self.operands) + len(self.outs)
        return LaunchPlan("network", buffers, tuple(launches), zeroed, in_graphs=False, host=on_host)

    @property
    def _chunk(self) -> int:
        """How many steps one launch runs."""
        return steps_of_launch(self.resident.plan, self.resident.partition.blocks)

    def _of_each(self, table: Any, slots: Sequence[Slot]) -> tuple[Any, list[Slot]]:
        """Return a table of all elements, and where addresses go in it, given those of one."""
        names = [*self.operands, *self.outs]
        strides = [self.strides.get(name, 0) for name in names]
        each = range(self.elements or 1)
        moved = [
            replace(slot, byte=slot.byte + k * table.nbytes, shift=slot.shift + k * strides[slot.buffer])
            for k in each
            for slot in slots
        ]
        return np.concatenate([np.atleast_1d(table)] * len(each)), moved

    def _beside(self, net: Any, turns: Sequence[tuple[int, int]], slots: Sequence[Slot], on_host: bool) -> list[Launch]:
        """Return the launches of several networks, as many at once as there is room for."""
        elements, width = self.elements or 1, self.resident.at_once
        net["turn"], net["first"], net["steps"] = 0, 0, self.steps
        nets, at_nets = self._of_each(net, slots)
        nets["networks"] = [min(width, elements - k // width * width) - k % width for k in range(elements)]
        launches = self._filled("nets", nets, at_nets)
        for begin in range(0, elements, width):
            to = self.slot("nets", 0, shift=begin * net.nbytes, alignment=16)
            blocks = self.resident.partition.blocks * min(width, elements - begin)
            for turn, steps in turns:
                launches.append(self._launch(blocks, np.uint64(0), turn, steps, [to], on_host))
        return launches

    def _populations(self) -> tuple[Any, Any, list[Slot]]:
        """Return the table of populations, what of it is constant, and where addresses go in the table."""
        plan, wanted = self.resident.plan, self.wanted
        fed = {name for name, _ in self.inputs}
        flags = {p.name: flags_of(wanted, p.name, SHOWN, fed=p.name in fed) for p in plan.populations}
        inputs = {place: (0, width) for place, width in self.inputs.items()}
        table, common = self.resident.tables.described(flags, {}, inputs)
        slots = []
        for k, p in enumerate(plan.populations):
            at = _offsets(table.dtype, k)
            if p.name in wanted.rates:
                shift = 4 * self.steps * wanted.rates.index(p.name)
                slots.append(self.slot("rates", at("rates"), shift=shift))
            if p.name in wanted.spikes:
                slots.append(self.slot(f"spikes {p.name}", at("shown")))
            for r, receptor in enumerate(p.quanta):
                if (p.name, receptor) in self.inputs:
                    slots.append(self.slot(f"input {p.name}.{receptor}", at("input") + 8 * r))
        return table, common, slots

    def _samples(self) -> tuple[Any, list[Slot]]:
        """Return the table of samples, and where addresses go in it."""
        plan, names = self.resident.plan, [p.name for p in self.resident.plan.populations]
        table, slots = np.zeros(len(self.wanted.samples), SAMPLE), []
        for k, (label, sample) in enumerate(self.wanted.samples.items()):
            row, at = table[k], _offsets(SAMPLE, k)
            row["population"] = names.index(sample.population)
            row["word"] = list(plan.population(sample.population).state).index(sample.state)
            row["every"], row["width"] = sample.every, self.outs[f"sample {label}"].shape[-1]
            slots.append(self.slot(f"sample {label}", at("out")))
            slots.append(self.slot("columns", at("columns"), shift=4 * k * self.operands["columns"].shape[1]))
        return table, slots

    def _net(self, common: Any) -> tuple[Any, list[Slot]]:
        """Return what all launches of the kernel share, and where addresses go in it."""
        resident = self.resident
        net = resident.net.copy()
        if resident.partition.common:
            net["common"] = common
        net["plain"] = not self.inputs and not self.wanted.samples
        net["samples"], net["nanoseconds"], net["clocks"], net["spikes"] = len(self.wanted.samples), 0, 0, 0
        at = _offsets(net.dtype)
        moved, exchanged = resident.moved, [name for name in ("shown", "met") if resident.plan.couplings]
        alignments: dict[str, int] = dict.fromkeys(("begin", "scalars", "arrays", "states", "ring", "ends"), 1)
        alignments |= dict.fromkeys(("packets", "list", *resident.rows), 16)
        alignments |= dict.fromkeys(("counts", *exchanged), 1)
        slots = [
            self.slot(name, at(name), shift=-moved.get(name, 0), alignment=1 if name in moved else alignment)
            for name, alignment in alignments.items()
            if name not in resident.own
        ]
        slots += [self.slot("populations", at("population"), alignment=8)]
        slots += [self.slot("samples", at("sample"), alignment=8)]
        fields = {int(offset): name for name, (_, offset) in net.dtype.fields.items()}
        for slot in slots:
            net[fields[slot.byte]] = 0  # equal plans are one program
        return net, slots

    def _filled(self, name: str, table: Any, slots: Sequence[Slot]) -> list[Launch]:
        """Return launches that write a table, with the addresses that go into it."""
        binary, entry = self.resident.fill
        words, at_words = np.frombuffer(table.tobytes(), np.uint64), _offsets(piece_dtype(_PIECE))("words")
        launches = []
        for begin in range(0, words.size, _PIECE):
            part = words[begin : begin + _PIECE]
            piece = filled(piece_dtype(_PIECE), count=part.size)
            piece["words"][: part.size] = part
            own = [slot for slot in slots if begin <= slot.byte // 8 < begin + _PIECE]
            moved = [replace(slot, byte=slot.byte - 8 * begin + at_words) for slot in own]
            to = self.slot(name, 0, shift=8 * begin, alignment=8)
            launches.append(Launch(binary, entry, "fill", (1, 1, 1), (_PIECE, 1, 1), (piece.tobytes(),), (to, *moved)))
        return launches

    def _run(self, net: Any, turn: int, steps: int, slots: Sequence[Slot], on_host: bool) -> Launch:
        net["turn"] = turn
        return self._launch(self.resident.blocks, net, turn, steps, slots, on_host)

    def _launch(self, blocks: int, first: Any, turn: int, steps: int, slots: Sequence[Slot], on_host: bool) -> Launch:
        """Return a launch of the kernel, given its first parameter."""
        shape, (binary, entry) = self.resident.shape, self.resident.run
        return Launch(
            binary,
            entry,
            "network",
            (blocks, 1, 1),
            (shape.structure.threads, 1, 1),
            (first.tobytes(), np.uint32(turn).tobytes(), np.uint32(steps).tobytes()),
            tuple(slots),
            shape.shared,
            together=on_host or not shape.structure.cluster,  # a GPU knows from the kernel that it has a cluster
        )


def called(call: Call) -> dict[str, Array]:
    """Run steps; return the results by name."""
    plan = call.plan()
    platform = "cpu" if plan.host else "cuda"
    target = _Target(plan, lambda *_: plan, platform, memories=call.resident.kept)
    names = list(call.outs)
    aliases = [(k, names.index(name)) for k, name in enumerate(call.operands) if name in names]
    results = native_call(target, [jnp.asarray(x) for x in call.operands.values()], list(call.outs.values()), aliases)
    return dict(zip(names, results, strict=True))


def steps_of_launch(plan: Plan, blocks: int) -> int:
    """Return how many steps one launch runs: half a second or less, where neurons spike in 1 % of the steps at most.

    A step takes some 4 microseconds, 4 ns for each neuron of a block, 1 ns for each synapse whose neuron spiked, and
    0.2 ns for each synapse of a coupling.
    """
    neurons = sum(population.size for population in plan.populations) / blocks
    synapses = sum(projection.entries for projection in plan.projections) / blocks
    coupled = sum(coupling.entries for coupling in plan.couplings) / blocks
    return max(1, min(_STEPS, int(_LAUNCH / (4 + 4e-3 * neurons + 1e-5 * synapses + 2e-4 * coupled))))


def _offsets(dtype: np.dtype[Any], row: int = 0) -> Callable[[str], int]:
    """Return a function that returns the byte of a field in a row of a table."""
    fields: Any = dtype.fields
    return lambda name: row * dtype.itemsize + int(fields[name][1])
