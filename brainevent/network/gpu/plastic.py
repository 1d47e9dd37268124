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
from ..plan.plastic import SPIKE, PlasticPlan
from ..plan.plastic_drawing import HostDrawn, Law
from ..run.finite import SynapseFault, fault_of
from ..run.report import in_bytes
from ..state import NetworkState, initial_traces
from .arrays import values_of
from .device import Device, Memory, cleared, held
from .partition import Partition
from .plastic_layout import draw_weights, laid_out
from .plastic_order import PlasticOrder
from .plastic_text import plastic_text
from .plastic_words import PlasticWords, traces_of

__all__ = ["Plastic"]

Array = Any
Params = dict[str, dict[str, Any]]
_AHEAD = 2  # steps of lists besides those on their way: a block may be one step ahead of another, or more


class Plastic:
    """What a network's plastic synapses need on a device.

    Weights, states and traces of targets exist once; of traces of sources each block has its own copy, since blocks
    may be a step apart.

    Args:
        device: What holds them.
        plan: The network.
        partition: The neurons of each block.
        params: Parameters of rules, by projection; None for those of the plan.
    """

    def __init__(self, device: Device, plan: Plan, partition: Partition, params: Params | None = None):
        self.device, self.plan, self.partition = device, plan, partition
        self.words = PlasticWords(plan)
        self._weights = {
            one.name: device.memory(4 * one.entries, f"weights of plastic synapses of {one.name}")
            for one in plan.plastic
        }
        self.layouts = {one.name: laid_out(device, one, partition, self._weights[one.name]) for one in plan.plastic}
        self._orders = {
            name: PlasticOrder(device, plan.plastic_by_name[name], partition, x) for name, x in self.layouts.items()
        }
        self.text = plastic_text(plan, list(self.layouts.values()), self.words)
        self.params = params or {one.name: dict(one.rules.params) for one in plan.plastic}
        self._lists = {one: self._list(*one) for one in self.words.lists}
        self._kept = {
            (name, state): device.memory(4 * self._slots(name) * plan.population(name).size, "states of spikes")
            for name, state in self.words.carried
        }
        self._arrays = {one.name: self._held(one) for one in plan.plastic}
        self._like = {one.name: _like(initial_traces(plan, one)) for one in plan.plastic}
        self._traces = {one.name: self._traces_of(one) for one in plan.plastic}
        self._faults = cleared(device, 8 * len(plan.plastic), "faults of plastic synapses")
        self._table = device.memory(8 * max(1, len(self.words.places)), "table of plastic synapses")
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
    def entries(self) -> int:
        """How many synapses there are."""
        return sum(one.entries for one in self.plan.plastic)

    @property
    def nbytes(self) -> int:
        """How much memory all takes."""
        memories = [*(m for own in (*self._arrays.values(), *self._traces.values()) for m in own.values())]
        memories += [*self._lists.values(), *self._kept.values(), self._table]
        return sum(memory.nbytes for memory in memories)

    @property
    def placement(self) -> str:
        """What memory they take, in words."""
        size = short(self.nbytes / max(1, self.entries), 3)
        return f"plastic synapses in memory, {in_bytes(self.nbytes)}, {size} bytes a plastic synapse"

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
        for number, plastic in enumerate(self.plan.plastic):
            for name, value in self._of_projection(number, plastic):
                yield ("projection", plastic.name, *name), value

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
        yield from ((name, memory.address) for name, memory in self._arrays[plastic.name].items())
        yield from ((name, memory.address) for name, memory in self._traces[plastic.name].items())
        yield from ((("p", name), _bits(value)) for name, value in self.params[plastic.name].items())
        for key, one in traces_of(plastic):
            yield ("rate", key), _bits(one.rate)
            yield ("add", key), _bits(one.add)
        yield from ((("every", str(k)), steps) for k, (steps, _) in enumerate(plastic.rules.every))

    def _held(self, plastic: PlasticPlan) -> dict[tuple[str, ...], Memory]:
        """Return the memory of the synapses of a projection; their states are written later."""
        what = f"plastic synapses of {plastic.name}"
        found: dict[tuple[str, ...], Memory] = {
            (name,): array.memory for name, array in self.layouts[plastic.name].arrays.items()
        }
        found["distinct",] = held(self.device, plastic.distinct.astype(np.uint32), what)
        found["weights",] = self._weights[plastic.name]
        return found | {("s", name): self.device.memory(4 * plastic.entries, what) for name in plastic.rules.states}

    def _traces_of(self, plastic: PlasticPlan) -> dict[tuple[str, ...], Memory]:
        what, found = f"traces of {plastic.name}", dict[tuple[str, ...], Memory]()
        carried = {name for name, _ in plastic.rules.carried}
        for key, (shape, _) in self._like[plastic.name].items():
            side, _, name = key.partition(".")
            copies = self.partition.blocks if side == "pre" else 1
            word = (
                ("carried", name) if side == "pre" and name in carried else ("trace", key) if name else ("last", side)
            )
            found[word] = self.device.memory(4 * copies * math.prod(shape), what)
        return found

    # ---- lists of events

    def _slots(self, population: str) -> int:
        """Return how many steps a list has: a power of two, so that numbers of steps may wrap."""
        return 1 << (self.words.kept[population].rows + self.text.lag + _AHEAD - 1).bit_length()

    def _width(self, population: str) -> int:
        """Return how many words a line has: the number of neurons, and those of a block, which are four and four."""
        return 4 * (-(-self.plan.population(population).size // self.partition.blocks) // 4 + 1)

    def _shape(self, population: str) -> tuple[int, int, int]:
        """Return how many steps, blocks and words a list has."""
        return self._slots(population), self.partition.blocks, self._width(population)

    def _list(self, population: str, event: str) -> Memory:
        return cleared(self.device, 4 * math.prod(self._shape(population)), f"lists of {event} of {population}")

    def _past(self, name: str, step: int) -> dict[str, Array]:
        """Return what is on its way from a population before a step."""
        past, size = self.plan.pasts[name], self.plan.population(name).size
        at = [(step - 1 - row) % self._slots(name) for row in range(past.rows)]
        found: dict[str, Array] = {}
        for event in past.events:
            lines = self._lists[name, event].download(np.uint32, self._shape(name))
            neurons, counts = lines[..., 1:], lines[..., 0]
            found[event] = np.zeros((past.rows, size), bool)
            for row, slot in enumerate(at):
                listed = np.arange(neurons.shape[2]) < counts[slot][:, None]
                found[event][row, neurons[slot][listed]] = True
        for state in past.states:
            words = self._kept[name, state].download(np.uint32, (self._slots(name), size))[at]
            dtype = self.plan.population(name).state[state].dtype
            found[f"state.{state}"] = np.where(found[SPIKE], values_of(words, dtype), dtype.type(0))
        return found

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
        for state in self.words.kept[name].states:
            words = np.zeros((slots, self.plan.population(name).size), np.uint32)
            for row, values in enumerate(np.asarray(past[f"state.{state}"]) if f"state.{state}" in past else ()):
                words[(step - 1 - row) % slots] = _words(values)
            self._kept[name, state].upload(words)

    # ---- the state of a network

    def read(self, state: NetworkState) -> NetworkState:
        """Return a state with what it has of plastic synapses, copied."""
        synapses = {one.name: self._synapses_of(one) for one in self.plan.plastic}
        traces = {one.name: self._read_traces(one) for one in self.plan.plastic}
        past = {name: self._past(name, int(state.step)) for name in self.plan.pasts}
        return replace(state, synapses=synapses, traces=traces, past=past)

    def synapses_of_build(self, given: NetworkState) -> dict[str, Mapping[str, Array]]:
        """Return all weights and states of synapses: those of a state, or of the build where that has none."""
        found: dict[str, Mapping[str, Array]] = {}
        for plastic in self.plan.plastic:
            if plastic.name not in given.synapses:
                self._draw(plastic)
                found[plastic.name] = self._synapses_of(plastic)
        return {**given.synapses, **found}

    def _synapses_of(self, plastic: PlasticPlan) -> dict[str, Array]:
        order = self._orders[plastic.name]
        return {name: order.read(self._memory(plastic.name, name)) for name in ("w", *plastic.rules.states)}

    def _memory(self, projection: str, state: str) -> Memory:
        """Return the memory of weights, "w", or of a state."""
        return self._arrays[projection][("weights",) if state == "w" else ("s", state)]

    def _draw(self, plastic: PlasticPlan) -> None:
        """Let the synapses of a projection be those of the build, unless they are."""
        if plastic.name in self._as_built:
            return
        layout, weights = self.layouts[plastic.name], self._weights[plastic.name]
        draw_weights(self.device, plastic, self.partition, layout, weights)
        self._begin(plastic)
        self._as_built.add(plastic.name)

    def _begin(self, plastic: PlasticPlan) -> None:
        """Write the initial values of synapses that a device draws, but for weights that are drawn."""
        if not isinstance(drawn := plastic.drawn, HostDrawn):
            return
        order = self._orders[plastic.name]
        for state, initial in drawn.initial.items():
            memory = self._memory(plastic.name, state)
            if isinstance(initial, Law):
                order.draw(memory, initial.numbers, initial.key)
            else:
                order.fill(memory, initial)

    def _read_traces(self, plastic: PlasticPlan) -> dict[str, Array]:
        """Return the traces of a projection; of sources, those of the first block."""
        memories = self._traces[plastic.name].values()
        return {
            key: values_of(memory.download(np.uint32, shape), dtype)
            for (key, (shape, dtype)), memory in zip(self._like[plastic.name].items(), memories, strict=True)
        }

    def write(self, state: NetworkState) -> None:
        """Go on from a state."""
        for plastic in self.plan.plastic:
            if plastic.name not in state.synapses:
                self._draw(plastic)
            for name, values in state.synapses.get(plastic.name, {}).items():
                memory = self._memory(plastic.name, name)
                self._orders[plastic.name].write(memory, flushed(np.asarray(values, np.float32)))
            self._as_built.discard(plastic.name)  # a run follows
            traces = (state.traces[plastic.name][key] for key in self._like[plastic.name])
            for memory, values in zip(self._traces[plastic.name].values(), traces, strict=True):
                words = _words(values).reshape(-1)
                for copy in range(memory.nbytes // max(1, words.nbytes)):
                    memory.upload(words, copy * words.nbytes)
        for name in self.words.kept:
            self._write_past(name, state.past.get(name, {}), int(state.step))
        self._faults.clear()

    def faults(self) -> list[SynapseFault]:
        """Return the first synapse of each projection that its rules made infinite or NaN in the last step."""
        noted = self._faults.download(np.uint64, len(self.plan.plastic))
        self._faults.clear()
        bad = [(one, int(bits)) for one, bits in zip(self.plan.plastic, noted, strict=True) if bits]
        found = (fault_of(one, bits, self._synapses_of(one)) for one, bits in bad)
        return [fault for fault in found if fault is not None]

    def sampled(self, projection: str, state: str, synapses: Array) -> tuple[int, Array, Array, Array]:
        """Return the address of a state, and of chosen synapses where those of each block begin, places and columns."""
        memory, places = self._memory(projection, state), self._orders[projection].places(synapses)
        columns = np.argsort(places, kind="stable")
        places = places[columns]
        starts = np.searchsorted(places, self.layouts[projection].bases.astype(np.int64))
        return memory.address, starts.astype(np.uint32), places.astype(np.uint64), columns.astype(np.uint32)


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
