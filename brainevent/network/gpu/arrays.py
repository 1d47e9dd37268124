# SPDX-License-Identifier: Apache-2.0
"""Where states, sums and parameters of neurons lie on a device: as arrays of NumPy or of JAX, and in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.pending import largest_load
from ..plan.plan import Plan
from ..state import NetworkState
from .device import Device, held
from .kinds import Kind, extents_of, fractions_of, words_of
from .partition import Partition
from .rows import Entry
from .structs import common_dtype, population_dtype
from .sums import TABLE_ROOM

__all__ = ["Arrays", "NeuronPlaces", "Tables", "falling_receptors", "has_pending", "slots_of", "values_of", "words_of"]

Array = Any
Params = Mapping[str, Mapping[str, Array]]
_BYTE = 255  # the largest sum of a byte
_FEW = 2**24  # synapses, whose weights are added up in a moment
_AT_ONCE = 8  # numbers of a table that are read at once
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)


def slots_of(plan: Plan) -> int:
    """Return for how many steps there are sums: one more than for pending input."""
    return 1 + max((plan.rows(*place) for place in plan.receptors()), default=1)


def values_of(words: Array, dtype: Any) -> Array:
    """Return words of 32 bits as the values that they are."""
    return words != 0 if np.dtype(dtype).kind == "b" else words.view(dtype)


@dataclass(frozen=True, eq=False)
class NeuronPlaces:
    """Where a kernel has what: `words` for each place of each block, and a ring of `slots` steps for each block.

    Arrays are those of the module `of`: NumPy, or `jax.numpy`, whose values may be traced.
    """

    plan: Plan
    partition: Partition
    slots: int
    words: int
    of: Any = np

    def flushed_words(self, values: Array) -> Array:
        """Return values as words of 32 bits; denormals become zeros of their sign."""
        values = self.of.asarray(values)
        if values.dtype == bool:
            return values.astype(np.uint32)
        words = values.view(np.uint32)
        return self.of.where(words & _EXPONENT, words, words & _SIGN) if values.dtype == np.float32 else words

    def states(self, state: NetworkState) -> Array:
        """Return the states of all neurons (words, blocks x places)."""
        having = {
            p.name: [self.of.asarray(state.neurons[p.name][key], array.dtype) for key, array in p.state.items()]
            for p in self.plan.populations
        }
        rows = [
            self.by_block((name, self.flushed_words(values[k])) for name, values in having.items() if k < len(values))
            for k in range(self.words)
        ]
        return self.of.stack(rows) if rows else np.zeros((0, self.partition.per * self.partition.blocks), np.uint32)

    def neurons(self, words: Array) -> dict[str, dict[str, Array]]:
        """Return states (words, blocks x places) by population and name."""
        return {
            p.name: {
                key: values_of(self.of_population(words[k], p.name), array.dtype)
                for k, (key, array) in enumerate(p.state.items())
            }
            for p in self.plan.populations
        }

    def ring(self, state: NetworkState) -> Array:
        """Return the sums of all neurons."""
        partition, parts = self.partition, []
        for r, places in enumerate(self._places()):
            given = (
                (p.name, self._all_slots(state.arriving[p.name][list(p.quanta)[r]]))
                for p in self.plan.populations
                if r < len(p.quanta)
            )
            sums = self._by_number(given, np.zeros((self.slots, 0), np.int32))
            by_place = sums.reshape(self.slots, partition.per, partition.blocks)[:, :places]
            parts.append(by_place.transpose(2, 0, 1))
        if not parts:
            return np.zeros(partition.ring_shape(self.slots), np.int32)
        return partition.ring_by_block(self.of.roll(self.of.concatenate(parts, 2), self._now(state.step), 1))

    def arriving(self, ring: Array, step: Array, dtype: Callable[[str, str], Any]) -> dict[str, dict[str, Array]]:
        """Return the sums before a step by population and receptor, in a dtype for each."""
        partition = self.partition
        ahead = self.of.roll(partition.ring_by_block(ring), -self._now(step), 1)
        found: dict[str, dict[str, Array]] = {p.name: {} for p in self.plan.populations}
        for r, places in enumerate(self._places()):
            first = partition.reach[r]
            sums = ahead[:, :, first : first + places].transpose(1, 2, 0).reshape(self.slots, -1)
            for p in self.plan.populations:
                if r < len(p.quanta):
                    receptor, numbers = list(p.quanta)[r], partition.numbers(p.name, p.size)
                    own = sums[: self.plan.rows(p.name, receptor), numbers]
                    found[p.name][receptor] = own.astype(dtype(p.name, receptor))
        return found

    def params(self, params: Params) -> tuple[Array, Array]:
        """Return the words of parameters that neurons share, after one that is 0, and of those of each neuron."""
        scalars: list[Array] = [np.uint32(0)]
        arrays: list[Array] = []
        for p in self.plan.populations:
            for value in params[p.name].values():
                words = self.flushed_words(value)
                if words.ndim:
                    arrays.append(self.by_block([(p.name, words)]))
                else:
                    scalars.append(words)
        return self.of.stack(scalars), self.of.concatenate([*arrays, np.zeros(1, np.uint32)])

    def by_block(self, parts: Iterable[tuple[str, Array]]) -> Array:
        """Return arrays (neurons,) of populations, by name, as one array (blocks x places)."""
        partition, whole = self.partition, self._by_number(parts, np.zeros(0, np.uint32))
        return whole.reshape(partition.per, partition.blocks).T.reshape(-1)

    def of_population(self, words: Array, name: str) -> Array:
        """Return what an array (blocks x places) has for the neurons of a population."""
        partition, size = self.partition, self.plan.population(name).size
        by_number = words.reshape(partition.blocks, partition.per).T.reshape(-1)
        return by_number[partition.numbers(name, size)]

    def _by_number(self, parts: Iterable[tuple[str, Array]], empty: Array) -> Array:
        """Return arrays of populations side by side, by the numbers of their neurons, with zeros between them."""
        if self.partition.placement is not None:
            found, places, end = [], np.full(self.partition.per * self.partition.blocks, -1), 0
            for name, array in parts:
                begin, end = end, end + array.shape[-1]
                places[self.partition.numbers(name, array.shape[-1])] = np.arange(begin, end)
                found.append(array)
            zero = np.zeros((*empty.shape[:-1], 1), empty.dtype)
            return self.of.concatenate([*found, zero], -1)[..., np.where(places < 0, end, places)]
        found, end = [empty], 0
        for begin, array in sorted(((self.partition.begins[name], array) for name, array in parts), key=lambda x: x[0]):
            found += [np.zeros((*empty.shape[:-1], begin - end), empty.dtype), array]
            end = begin + array.shape[-1]
        rest = self.partition.per * self.partition.blocks - end
        return self.of.concatenate([*found, np.zeros((*empty.shape[:-1], rest), empty.dtype)], -1)

    def _all_slots(self, sums: Array) -> Array:
        """Return sums (rows, neurons) with zeros for the other slots."""
        sums = self.of.asarray(sums).astype(np.int32)
        return self.of.concatenate([sums, np.zeros((self.slots - sums.shape[0], sums.shape[1]), np.int32)])

    def _places(self) -> list[int]:
        """Return how many places of a block each receptor has."""
        return np.diff([*self.partition.reach, self.partition.cells]).tolist()

    def _now(self, step: Array) -> Array:
        """Return the slot of a step."""
        return (self.of.asarray(step, np.uint32) % np.uint32(self.slots)).astype(np.int32)


def has_pending(state: NetworkState) -> bool:
    """Say whether any input is pending: of a state before the first step, arrays of zeros take no memory yet."""
    return any(sums.any() for own in state.arriving.values() for sums in own.values())


class Arrays:
    """The memory of neurons: a word for each state and place, and a ring of sums for each block."""

    def __init__(self, device: Device, plan: Plan, partition: Partition, kinds: Sequence[Kind]):
        self.places = NeuronPlaces(plan, partition, slots_of(plan), words_of(kinds))
        shape = partition.ring_shape(self.slots)
        packed = -(-(self.words - fractions_of(kinds)) // 4) if partition.fours else 0  # words of bytes
        self.states = device.memory(4 * (self.words + packed) * partition.blocks * partition.per, "states of neurons")
        self.ring = device.memory(4 * int(np.prod(shape)), "sums of pending input")
        self.falling: tuple[int, ...] = ()  # as in `Structure`: sums are bytes

    @property
    def slots(self) -> int:
        """For how many steps there are sums."""
        return self.places.slots

    @property
    def words(self) -> int:
        """How many words a neuron has."""
        return self.places.words

    def read(self, plan: Plan, step: int) -> NetworkState:
        """Return the state before a step, in the quanta of a plan."""
        partition = self.places.partition
        words = self.states.download(np.uint32, (self.words, partition.blocks * partition.per))
        arriving = self.places.arriving(self.sums(), step, lambda *_: np.int32)
        return NetworkState(np.uint32(step), self.places.neurons(words), arriving, plan.quanta)

    def write(self, state: NetworkState) -> None:
        """Go on from a state."""
        self.states.upload(self.places.states(state))
        self.put_sums(self.places.ring(state) if has_pending(state) else None)

    def sums(self) -> Array:
        """Return the sums that are on the device."""
        shape = self.places.partition.ring_shape(self.slots)
        if not self.falling:
            return self.ring.download(np.int32, shape)
        return self.ring.download(np.uint8, shape) * self._signs

    def put_sums(self, sums: Array | None) -> None:
        """Put sums on the device; None are zero."""
        if sums is None:
            self.ring.clear()
        else:
            self.ring.upload(np.abs(sums).astype(np.uint8) if self.falling else sums)

    @property
    def _signs(self) -> Array:
        """What bytes stand for in each cell: 1 or -1. Populations of neurons in fours have places of their own."""
        partition, plan = self.places.partition, self.places.plan
        signs = np.ones(partition.cells, np.int32)
        for population, bits in zip(plan.populations, self.falling, strict=True):
            first = partition.begins[population.name] // partition.blocks
            places = -(-population.size // partition.blocks)
            for rank in range(len(population.quanta)):
                begin = partition.reach[rank] + first
                signs[begin : begin + places] = -1 if bits >> rank & 1 else 1
        return signs

    def fits(self, state: NetworkState, falling: tuple[int, ...]) -> bool:
        """Say whether the sums of a state can be bytes, if those of runs of the network can.

        To what arrives before the shortest delay has passed, nothing is added.
        """
        plan = self.places.plan
        least = min((one.delays[0] for one in plan.projections if one.entries), default=1)
        for population, bits in zip(plan.populations, falling, strict=False):
            for rank, receptor in enumerate(population.quanta):
                sign = -1 if bits >> rank & 1 else 1
                rows = state.arriving[population.name][receptor].astype(np.int64) * sign
                later = int(rows[least:].max(initial=0))
                added = largest_load(plan, population.name, receptor) if later else 0
                if rows.min(initial=0) < 0 or rows.max(initial=0) > _BYTE or later + added > _BYTE:
                    return False
        return True


def falling_receptors(plan: Plan, partition: Partition, entry: Entry) -> tuple[int, ...]:
    """Return which receptors of each population have weights below 0, as bits, if sums can be bytes; else nothing.

    They can be if no sum of |weights| into a neuron is larger than a byte, and all weights of a receptor have one sign.
    No synapse adds more than once to what arrives in a step.
    """
    if not partition.fours or entry.wide:
        return ()
    falling = []
    for population in plan.populations:
        bits = 0
        for rank, receptor in enumerate(population.quanta):
            into = [p for p in plan.projections if p.entries and (p.target, p.receptor) == (population.name, receptor)]
            low, high = (end((p.weights[k] for p in into), default=0) for k, end in enumerate((min, max)))
            known = (population.name, receptor) in plan.loads or sum(p.entries for p in into) <= _FEW
            if low < 0 < high or not known or largest_load(plan, population.name, receptor) > _BYTE:
                return ()
            bits |= (low < 0) << rank
        falling.append(bits)
    return tuple(falling)


class Tables:
    """Parameters on a device, and the table of populations that says where they are."""

    def __init__(
        self, device: Device, plan: Plan, partition: Partition, kinds: Sequence[Kind], numbers: Mapping[str, int]
    ):
        self.device, self.plan, self.partition, self.numbers = device, plan, partition, numbers
        self._dtype, self._common_dtype = population_dtype(extents_of(kinds)), common_dtype(extents_of(kinds))

    def fill(self, params: Params, own: Sequence[Kind]) -> None:
        """Copy all parameters, and the tables of Poisson numbers that follow from them."""
        places = NeuronPlaces(self.plan, self.partition, 0, 0)
        scalars, arrays = places.params(params)
        counted: dict[bytes, tuple[int, Array]] = {}  # tables, by their bytes: where each begins, and its numbers
        number, numbers = 1, 0  # of the next scalar, and of the next array
        self._table = np.zeros(len(self.plan.populations), self._dtype)
        self._common = np.zeros(len(self.plan.populations), self._common_dtype)
        for row, common, population, kind in zip(self._table, self._common, self.plan.populations, own, strict=True):
            row["begin"], row["first"], row["size"] = self.partition.share(population.name, population.size)
            row["all"] = population.size
            row["kind"], (row["key0"], row["key1"]) = self.numbers[population.name], population.key
            row["quantum"][: len(population.quanta)] = list(population.quanta.values())
            values = params[population.name].values()
            for k, value in enumerate(values):
                if np.ndim(value):
                    row["param"][k], numbers = numbers, numbers + 1
                else:
                    row["param"][k], common["p"][k], number = number, scalars[number], number + 1
            named = {n.text: np.asarray(v) for n, v in zip(population.rule.params, values, strict=True)}
            for k, one in enumerate(kind.drawn):
                table = one.table(named)
                assert table.size < 255  # a byte holds how many are counted
                table = np.append(table, np.full(_AT_ONCE - table.size % _AT_ONCE, np.inf, np.float32))
                begin = sum(other.size for _, other in counted.values())
                row["counted"][k] = 4 * counted.setdefault(table.tobytes(), (begin, table))[0]
        entries = np.concatenate([*(table for _, table in counted.values()), np.zeros(0)]).astype(np.float32)
        self.fit_in_block = entries.size <= TABLE_ROOM
        entries = np.append(entries, np.zeros(max(0, TABLE_ROOM - entries.size), np.float32))
        self.scalars = held(self.device, np.append(scalars, np.uint32(0)), "parameters")
        self.arrays = held(self.device, arrays, "parameters of each neuron")
        self.counted = held(self.device, entries, "tables of Poisson numbers")
        self._table["counted"] += np.uint64(self.counted.address)

    @property
    def nbytes(self) -> int:
        """How much memory the table of populations takes."""
        return self._table.nbytes

    def described(
        self, flags: Mapping[str, int], rates: Mapping[str, int], inputs: Mapping[tuple[str, str], Any]
    ) -> tuple[Array, Array]:
        """Return the table of populations for one run, and what of it is constant during a launch.

        `inputs` are address and width by population and receptor.
        """
        table = self._table.copy()
        for row, population in zip(table, self.plan.populations, strict=True):
            name = population.name
            row["flags"], row["rates"] = flags[name], rates.get(name, 0)
            for k, receptor in enumerate(population.quanta):
                address, width = inputs.get((name, receptor), (0, 0))
                row["input"][k], row["input_row"][k] = address, width
                row["input_item"][k] = width == population.size
        common = self._common.copy()
        for name in ("begin", "size", "first", "flags", "key0", "key1", "quantum"):
            common[name] = table[name]
        return table, common
