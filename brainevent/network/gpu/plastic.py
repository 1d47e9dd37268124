# SPDX-License-Identifier: Apache-2.0
"""`Plastic`: the plastic synapses of a network on a device: weights, states, traces, lists of events, and a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...bench.words import short
from ...scalar.primitives import flushed
from ..plan.plan import Plan
from ..plan.plastic import SPIKE, PlasticPlan, traces_of
from ..plan.plastic_drawing import HostDrawn, Law
from ..run.report import in_bytes
from ..state import NetworkState, initial_traces
from .arrays import values_of
from .device import Device, Memory, cleared, held
from .partition import Partition
from .plastic_deferred import is_deferred
from .plastic_inside import bytes_inside
from .plastic_layout import draw_weights, laid_out
from .plastic_order import PlasticOrder
from .plastic_text import plastic_text
from .plastic_words import PlasticWords
from .several.meeting import Gather, alone
from .shape import Room
from .structs import ANEW, GO_ON, GPU_SHIFT
from .text import HISTORY, LATER_BYTES, PlasticText

__all__ = ["Plastic"]

Array = Any
Params = dict[str, dict[str, Any]]
_BY_BLOCK = {"starts", "into", "newest", "steps", "trace", "last", "carried"}  # arrays with a part of each block
_MOST_HANDED = 16 * 1024  # bytes: there is no more room beside other lists in shared memory
_AHEAD = 2  # steps of lists besides those on their way: a block may be one step ahead of another, or more


class Plastic:
    """What a network's plastic synapses need on a device.

    Weights, states and traces of targets exist once; of traces of sources each block has its own copy, since blocks
    may be a step apart. Of several GPUs, each has those of its own blocks. It has lists of the events of all neurons,
    and of what their spikes carry, which it tells the other GPUs.

    Args:
        device: What holds them.
        plan: The network.
        partition: The neurons of each block.
        params: Parameters of rules, by projection; None for those of the plan.
        defers: Whether calls for events of targets may be deferred, if the rules allow it.
        clustered: Whether all blocks may be in a cluster, and hand each other events, if their rules allow it.
        of_all: What returns the values that each of several GPUs passes at the same time.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        partition: Partition,
        params: Params | None = None,
        *,
        defers: bool = True,
        clustered: bool = False,
        of_all: Gather = alone,
    ):
        self.device, self.plan, self.partition = device, plan, partition
        self.words = PlasticWords(plan, partition.gpus)
        waiting = defers and not plan.check_finite
        self.layouts = {
            one.name: laid_out(device, one, partition, deferred=waiting and is_deferred(one, partition), of_all=of_all)
            for one in plan.plastic
        }
        self._weights = {name: layout.weights for name, layout in self.layouts.items()}
        self._orders = {
            name: PlasticOrder(device, plan.plastic_by_name[name], partition, x, of_all)
            for name, x in self.layouts.items()
        }
        self.clustered = clustered and not any(x.deferred for x in self.layouts.values())
        self.text = self._text()
        self.params = params or {one.name: dict(one.rules.params) for one in plan.plastic}
        self._lists = {one: self._list(*one) for one in self.words.lists}
        self._kept = {
            (name, number): device.memory(4 * self._slots(name) * plan.population(name).size, "states of spikes")
            for name, number in self.words.carried
        }
        self._arrays = {one.name: self._held(one) for one in plan.plastic}
        self._like = {one.name: _like(initial_traces(plan, one)) for one in plan.plastic}
        self._traces = {one.name: self._traces_of(one) for one in plan.plastic}
        self._faults = cleared(device, 8 * len(plan.plastic), "faults of plastic synapses")
        self._table = device.memory(8 * max(1, len(self.words.places)), "table of plastic synapses")
        self.since, self._anew, self._waiting, self.full, self.block_bytes = 0, True, False, False, 0
        self._told: list[dict[tuple[str, ...], int]] = of_all(self._telling())
        self._numbers: dict[tuple[str, str], list[int]] = {}  # addresses on all GPUs
        for one in plan.plastic:
            for state in ("w", *one.rules.states):
                self._numbers[one.name, state] = of_all(self._memory(one.name, state).address)
        self._bytes_of_all = sum(of_all(self.nbytes))
        self._as_built = {one.name for one in plan.plastic if one.drawn is not None}  # whose synapses nothing changed
        for one in plan.plastic:
            self._begin(one)
        self.fill(plan)

    @property
    def address(self) -> int:
        """Where the table lies."""
        return self._table.address

    @property
    def lists(self) -> int:
        """How many lists of events there are."""
        return len(self._lists)

    @property
    def table_words(self) -> int:
        """How many words the table has."""
        return len(self.words.places)

    @property
    def handed(self) -> int:
        """Of how many steps blocks of a cluster keep what they hand each other; 0 if they are in none."""
        if not self.clustered:
            return 0
        return max(self._slots(name) for (name, _), told in zip(self.words.lists, self.words.told, strict=True) if told)

    @property
    def told(self) -> dict[str, int]:
        """What of a `Structure` says what blocks of a cluster hand each other."""
        return {"told": sum(self.words.told), "handed": self.handed} if self.clustered else {}

    @property
    def handed_bytes(self) -> int:
        """How much shared memory a block needs for that."""
        return 16 * self.handed * sum(self.words.told) * self.partition.blocks

    @property
    def warp_bytes(self) -> int:
        """How much shared memory each warp needs."""
        return LATER_BYTES if self.text.flags["DEFERRED"] else 0

    def enter(self, room: Room) -> None:
        """Let synapses be in the shared memory of blocks, if all have room there and none waits for calls."""
        needed = 8 + sum(bytes_inside(one, self.layouts[one.name]) for one in self.plan.plastic)
        alone = self.partition.gpus == 1 and not self.text.flags["DEFERRED"]
        inside = alone and room.table > 0 and needed <= room.left
        self.block_bytes = needed if inside else 0
        self.text = replace(self.text, inside=inside)

    def _text(self) -> PlasticText:
        """Return the text, and decide whether there is room for what blocks of a cluster hand each other."""
        given = self.plan, list(self.layouts.values()), self.words
        self.text = plastic_text(*given, prompt=self.clustered)
        self.clustered = self.clustered and self.handed_bytes <= _MOST_HANDED
        return plastic_text(*given, prompt=self.clustered)

    @property
    def entries(self) -> int:
        """How many synapses there are, on all GPUs."""
        return sum(one.entries for one in self.plan.plastic)

    @property
    def nbytes(self) -> int:
        """How much memory all takes on this GPU."""
        memories = [*(m for own in (*self._arrays.values(), *self._traces.values()) for m in own.values())]
        memories += [*self._lists.values(), *self._kept.values(), self._table]
        return sum(memory.nbytes for memory in memories)

    @property
    def placement(self) -> str:
        """What memory they take, in words."""
        size = short(self._bytes_of_all / max(1, self.entries), 3)
        where = "shared memory" if self.block_bytes else "memory"
        return f"plastic synapses in {where}, {in_bytes(self._bytes_of_all)}, {size} bytes a plastic synapse"

    def set(self, projection: str, param: str, value: Array) -> None:
        """Replace a parameter of the rules of a projection."""
        self.params[projection][param] = flushed(np.asarray(value, np.float32).reshape(1))[0]
        self.fill(self.plan)

    def fill(self, plan: Plan) -> None:
        """Write the table, for a plan that may differ in quanta."""
        self.plan = plan
        table = np.zeros(len(self.words.places), np.uint64)
        for name, value in self._entries():
            table[self.words.of(*name)] = value
        self._table.upload(table)

    def _entries(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the words of the table by name."""
        for one, lines in self._lists.items():
            fields = {"lines": lines.address, "width": self._width(one[0]), "mask": self._slots(one[0]) - 1}
            yield from ((("list", *one, field), value) for field, value in fields.items())
        for one, memory in self._kept.items():
            yield ("kept", *one), memory.address
        for gpu, told in zip(self.words.others, self._told, strict=False):
            yield from (((*name, gpu), address) for name, address in told.items())
        for number, plastic in enumerate(self.plan.plastic):
            for name, value in self._of_projection(number, plastic):
                yield ("projection", plastic.name, *name), value

    def _telling(self) -> dict[tuple[str, ...], int]:
        """Return where other GPUs tell this one events, and what spikes carry."""
        told: dict[tuple[str, ...], int] = {("list", *one): memory.address for one, memory in self._lists.items()}
        return told | {("kept", *one): memory.address for one, memory in self._kept.items()}

    def _of_projection(self, number: int, plastic: PlasticPlan) -> Iterator[tuple[tuple[str, ...], int]]:
        layout, target = self.layouts[plastic.name], self.plan.population(plastic.target)
        per_unit = np.float32(1 / target.quanta[plastic.receptor])
        numbers = {
            "sources": plastic.sizes[0],
            "size": plastic.sizes[1],
            "rows": plastic.distinct.size,
            "reach": self.partition.reach[list(target.quanta).index(plastic.receptor)],
            "first_number": self.partition.begins[plastic.target],
            "places": layout.places,
            "entry_bits": layout.entry_bits,
            "per_unit": _bits(per_unit),
            "faults": self._faults.address + 8 * number,
        }
        yield from (((name,), value) for name, value in numbers.items())
        yield from self._addresses(self._arrays[plastic.name])
        yield from self._addresses(self._traces[plastic.name])
        yield from ((("p", name), _bits(value)) for name, value in self.params[plastic.name].items())
        for key, one in traces_of(plastic):
            yield ("rate", key), _bits(one.rate)
            yield ("add", key), _bits(one.add)
        yield from ((("every", str(k)), steps) for k, (steps, _) in enumerate(plastic.rules.every))

    def _addresses(self, memories: Mapping[tuple[str, ...], Memory]) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the names and addresses of arrays; of those by block, the one that block 0 of all GPUs would have."""
        for name, memory in memories.items():
            size = 0  # bytes of a block
            if name == ("bases",):
                size = 8
            elif name[0] in _BY_BLOCK:
                size = memory.nbytes // self.partition.here
            yield name, (memory.address - size * self.partition.first) % 2**64

    def _held(self, plastic: PlasticPlan) -> dict[tuple[str, ...], Memory]:
        """Return the memory of the synapses of a projection; their states are written later."""
        what = f"plastic synapses of {plastic.name}"
        found: dict[tuple[str, ...], Memory] = {
            (name,): array.memory for name, array in self.layouts[plastic.name].arrays.items()
        }
        found["distinct",] = held(self.device, plastic.distinct.astype(np.uint32), what)
        found["weights",] = self._weights[plastic.name]
        if self.layouts[plastic.name].deferred:
            targets = plastic.post_rows * self.partition.here * self.layouts[plastic.name].places
            found["newest",] = self.device.memory(16 * targets, f"last events of targets of {plastic.name}")
            found["steps",] = self.device.memory(4 * HISTORY * targets, f"lists of events of targets of {plastic.name}")
        entries = self.layouts[plastic.name].entries
        return found | {("s", name): self.device.memory(4 * entries, what) for name in plastic.rules.states}

    def _traces_of(self, plastic: PlasticPlan) -> dict[tuple[str, ...], Memory]:
        what, found = f"traces of {plastic.name}", dict[tuple[str, ...], Memory]()
        carried = {name for name, _ in plastic.rules.carried}
        for key, (shape, _) in self._like[plastic.name].items():
            side, _, name = key.partition(".")
            words = self.partition.here * math.prod(shape)
            if side == "post":  # by block
                words = shape[0] * self.partition.here * self.layouts[plastic.name].places
            word = (
                ("carried", name) if side == "pre" and name in carried else ("trace", key) if name else ("last", side)
            )
            found[word] = self.device.memory(4 * words, what)
        return found

    # ---- lists of events

    def _slots(self, population: str) -> int:
        """Return how many steps a list has: a power of two, so that numbers of steps may wrap."""
        late = self.text.lag + self.text.behind
        return 1 << (self.words.kept[population].rows + late + _AHEAD - 1).bit_length()

    def _width(self, population: str) -> int:
        """Return how many words a line has: the number of neurons, and those of a block, which are four and four."""
        return 4 * (-(-self.plan.population(population).size // self.partition.blocks) // 4 + 1)

    def _shape(self, population: str) -> tuple[int, int, int]:
        """Return how many steps, blocks and words a list has."""
        return self._slots(population), self.partition.blocks, self._width(population)

    def _list(self, population: str, event: str) -> Memory:
        return cleared(self.device, 4 * math.prod(self._shape(population)), f"lists of {event} of {population}")

    def _read_past(self, name: str, step: int, into: Mapping[str, Array]) -> None:
        """Read what is on its way from neurons of this GPU's blocks before a step; elsewhere it stays 0."""
        past, size = self.plan.pasts[name], self.plan.population(name).size
        at = [(step - 1 - row) % self._slots(name) for row in range(past.rows)]
        own = slice(self.partition.first, self.partition.first + self.partition.here)
        spiked = np.zeros((past.rows, size), bool)
        for event in past.events:
            lines = self._lists[name, event].download(np.uint32, self._shape(name))[:, own]
            neurons, counts = lines[..., 1:], lines[..., 0]
            for row, slot in enumerate(at):
                listed = neurons[slot][np.arange(neurons.shape[2]) < counts[slot][:, None]]
                into[event][row, listed] = True
                if event == SPIKE:
                    spiked[row, listed] = True
        for number in past.numbers:
            words = self._kept[name, number].download(np.uint32, (self._slots(name), size))[at]
            into[number][spiked] = values_of(words[spiked], into[number].dtype)

    def _write_past(self, name: str, past: Mapping[str, Array], step: int) -> None:
        """Go on with what is on its way from a population before a step."""
        slots, blocks, _ = self._shape(name)
        owners = (np.arange(self.plan.population(name).size) + self.partition.begins[name]) % blocks
        for event in self.words.kept[name].events:
            lines = np.zeros(self._shape(name), np.uint32)
            neurons, counts = lines[..., 1:], lines[..., 0]
            for row, spikes in enumerate(np.asarray(past[event]) if event in past else ()):
                slot, chosen = (step - 1 - row) % slots, np.flatnonzero(spikes)
                chosen = chosen[np.argsort(owners[chosen], kind="stable")]
                counts[slot] = np.bincount(owners[chosen], minlength=blocks)
                before = np.cumsum(counts[slot], dtype=np.int64) - counts[slot]
                neurons[slot, owners[chosen], np.arange(chosen.size) - before[owners[chosen]]] = chosen
            self._lists[name, event].upload(lines)
        for number in self.words.kept[name].numbers:
            words = np.zeros((slots, self.plan.population(name).size), np.uint32)
            for row, values in enumerate(np.asarray(past[number]) if number in past else ()):
                words[(step - 1 - row) % slots] = _words(values)
            self._kept[name, number].upload(words)

    # ---- the state of a network

    def read_into(self, state: NetworkState) -> None:
        """Read what this GPU has of a state besides synapses, into the arrays of one in which all is 0."""
        for one in self.plan.plastic:
            self._read_traces(one, state.traces[one.name])
        for name in self.plan.pasts:
            self._read_past(name, int(state.step), state.past[name])

    def read_synapses(self, plastic: PlasticPlan, into: Mapping[str, Array]) -> None:
        """Read weights and states of the synapses of this GPU's sources."""
        for name, array in into.items():
            self._orders[plastic.name].read(self._numbers[plastic.name, name], array)

    def _memory(self, projection: str, state: str) -> Memory:
        """Return the memory of weights, "w", or of a state."""
        return self._arrays[projection][("weights",) if state == "w" else ("s", state)]

    def draw(self, plastic: PlasticPlan) -> None:
        """Let the synapses of a projection be those of the build, unless they are."""
        if plastic.name in self._as_built:
            return
        draw_weights(self.device, plastic, self.partition, self.layouts[plastic.name])
        self._begin(plastic)
        self._as_built.add(plastic.name)

    def _begin(self, plastic: PlasticPlan) -> None:
        """Write the initial values of synapses that a device draws, but for weights that are drawn."""
        if not isinstance(drawn := plastic.drawn, HostDrawn):
            return
        order = self._orders[plastic.name]
        for state, initial in drawn.initial.items():
            if isinstance(initial, Law):
                order.draw(self._numbers[plastic.name, state], initial.numbers, initial.key)
            else:
                order.fill(self._memory(plastic.name, state), initial)

    def _read_traces(self, plastic: PlasticPlan, into: Mapping[str, Array]) -> None:
        """Read the traces of a projection: of sources, those of its first block; of targets, those of its own."""
        memories = self._traces[plastic.name].values()
        own, block, place = self._targets(plastic)
        for (key, (shape, dtype)), memory in zip(self._like[plastic.name].items(), memories, strict=True):
            if key.startswith("post"):
                words = memory.download(np.uint32, self._by_block(plastic, shape))[block, :, place]
                into[key][:, own] = values_of(np.ascontiguousarray(words.T), dtype)
            elif self.partition.first == 0:
                into[key][...] = values_of(memory.download(np.uint32, shape), dtype)

    def _targets(self, plastic: PlasticPlan) -> tuple[Array, Array, Array]:
        """Return the targets of this GPU, the place of the block of each, and its place among the targets of that."""
        first, blocks = self.partition.begins[plastic.target], self.partition.blocks
        numbers = np.arange(plastic.sizes[1], dtype=np.int64) + first
        block = numbers % blocks
        own = np.flatnonzero((block >= self.partition.first) & (block < self.partition.first + self.partition.here))
        place = numbers // blocks - (first + blocks - 1 - block) // blocks
        return own, block[own] - self.partition.first, place[own]

    def _by_block(self, plastic: PlasticPlan, shape: tuple[int, ...]) -> tuple[int, int, int]:
        return self.partition.here, shape[0], self.layouts[plastic.name].places

    def _write_traces(self, plastic: PlasticPlan, given: Mapping[str, Array]) -> None:
        own, block, place = self._targets(plastic)
        for key, memory in zip(self._like[plastic.name], self._traces[plastic.name].values(), strict=True):
            words = _words(given[key])
            if key.startswith("post"):
                by_block = np.zeros(self._by_block(plastic, words.shape), np.uint32)
                by_block[block, :, place] = words[:, own].T
                words = by_block
            words = words.reshape(-1)
            for copy in range(memory.nbytes // max(1, words.nbytes)):
                memory.upload(words, copy * words.nbytes)

    def write(self, state: NetworkState) -> None:
        """Go on from a state."""
        for plastic in self.plan.plastic:
            if plastic.name not in state.synapses:
                self.draw(plastic)
            for name, values in state.synapses.get(plastic.name, {}).items():
                numbers = self._numbers[plastic.name, name]
                self._orders[plastic.name].write(numbers, flushed(np.asarray(values, np.float32)))
            self._as_built.discard(plastic.name)  # a run follows
            self._write_traces(plastic, state.traces[plastic.name])
        for name in self.words.kept:
            self._write_past(name, state.past.get(name, {}), int(state.step))
        self._faults.clear()
        self._anew, self._waiting, self.full = True, False, False

    # ---- calls that are deferred

    def begun(self, step: int) -> tuple[int, int]:
        """Return since when calls are deferred, and what a launch from a step on does with them."""
        how = ANEW if self._anew else GO_ON
        if self._anew:
            self.since = step
        self._anew, self._waiting = False, self.text.flags["DEFERRED"]
        return self.since, how

    @property
    def waiting(self) -> bool:
        """Whether there may be calls that are deferred."""
        return self._waiting

    def treated(self, step: int) -> None:
        """Note that a launch makes all calls of the steps before one."""
        self.since, self._waiting, self.full = step, False, False

    def noted(self) -> Array:
        """Return for each projection which rules made a synapse infinite or NaN in the last step, as bits."""
        noted = self._faults.download(np.uint64, len(self.plan.plastic))
        self._faults.clear()
        return noted

    def place_of(self, projection: str, state: str) -> tuple[int, int]:
        """Return the number of a projection, and that of a state: 0 for weights."""
        number = [one.name for one in self.plan.plastic].index(projection)
        return number, ("w", *self.plan.plastic[number].rules.states).index(state)

    def sampled(self, projection: str, state: str, synapses: Array) -> tuple[int, Array, Array, Array]:
        """Return the address of a state, and of chosen synapses where those of each block begin, places and columns."""
        memory, places = self._memory(projection, state), self._orders[projection].places(synapses)
        first, here = self.partition.first, self.partition.here
        own = np.flatnonzero(places >> GPU_SHIFT == first // here)
        columns = own[np.argsort(places[own], kind="stable")]
        places = places[columns] & 2**GPU_SHIFT - 1
        starts = np.zeros(self.partition.blocks + 1, np.uint32)
        starts[first : first + here + 1] = np.searchsorted(places, self.layouts[projection].bases.astype(np.int64))
        return memory.address, starts, places.astype(np.uint64), columns.astype(np.uint32)


def _like(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], Any]]:
    return {key: (array.shape, array.dtype) for key, array in arrays.items()}


def _bits(value: Any) -> int:
    """Return the bits of a float32."""
    return int(np.float32(value).view(np.uint32))


def _words(values: Array) -> Array:
    """Return values of 32 bits, or bools, as words."""
    array = np.ascontiguousarray(values)
    if array.dtype == bool:
        return array.astype(np.uint32)
    return (flushed(array) if array.dtype == np.float32 else array).view(np.uint32)
