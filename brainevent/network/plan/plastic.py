# SPDX-License-Identifier: Apache-2.0
"""`PlasticPlan`: a plastic projection as engines run it; its synapses, with a weight and states of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from .graded import BEYOND, largest_value
from .loops import count_ends_at, index_targets, merge_parts
from .plasticity import PlasticRules, TracePlan

__all__ = [
    "SPIKE",
    "VALUE",
    "MadePlastic",
    "Past",
    "PlasticPlan",
    "PlasticSynapses",
    "kept_of",
    "pasts_of",
    "traces_of",
]

SPIKE, VALUE = "spike", "value"
_ONE_ROW = np.zeros(0, np.uint8)  # places of delays, where they do not matter
Array = Any


@dataclass(frozen=True, eq=False)
class PlasticSynapses:
    """Synapses of a plastic projection as arrays, in the order of those of a `SynapsePlan`.

    Source neuron i has the entries `starts[i * parts + p]` to `starts[i * parts + p + 1] - 1` in part p of the target
    population, sorted by delay and then by target. `targets` and `delays` are as in a `SynapsePlan`. `weights`, floats
    (entries,) of the dtype of the plan, and `states`, likewise by name, are those of the build. `sizes` are the numbers
    of sources and targets.
    """

    starts: Array
    targets: Array
    delays: Array
    weights: Array
    states: Mapping[str, Array]
    sizes: tuple[int, int]
    parts: int

    @property
    def entries(self) -> int:
        """How many synapses there are."""
        return int(self.targets.size)

    @cached_property
    def distinct(self) -> Array:
        """The different delays, in steps and in order: int64; none without synapses."""
        return np.unique(self.delays[: self.entries]).astype(np.int64)

    @cached_property
    def which(self) -> Array:
        """The place of each synapse's delay in `distinct`: int32 (entries,), of one element if there is one delay."""
        places = np.zeros(int(self.delays.max(initial=0)) + 1, np.int32)
        places[self.distinct] = np.arange(self.distinct.size)
        return np.broadcast_to(places[self.delays] if self.entries else np.zeros(0, np.int32), self.entries)

    @cached_property
    def degrees(self) -> Array:
        """How many synapses end at each target: int64 (targets,)."""
        found = np.zeros(self.sizes[1], np.int64)
        count_ends_at(self.targets, _ONE_ROW, 1, found)
        return found

    @cached_property
    def sources(self) -> Array:
        """The source of each synapse: int32 (entries,)."""
        return np.repeat(np.arange(self.sizes[0], dtype=np.int32), np.diff(self.starts[:: self.parts]))

    @cached_property
    def order(self) -> Any:
        """The places of synapses by source, delay and target: states of a network have this order for any parts."""
        if self.parts == 1:
            return slice(None)
        order: Array = np.empty(self.entries, self._place_dtype)
        merge_parts(self.starts, self.parts, self.targets, self.delays, np.zeros(self.parts, np.int64), order)
        return order

    @cached_property
    def incoming(self) -> tuple[Array, Array]:
        """The second index, made when it is asked for: target j has the synapses `entries[starts[j] : starts[j + 1]]`.

        Those of a neuron are in the order of the plan: by source, delay, and then as they were drawn or given.
        """
        starts = np.concatenate([[0], np.cumsum(self.degrees)])
        entries: Array = np.empty(self.entries, self._place_dtype)
        index_targets(self.targets, _ONE_ROW, 1, starts[:-1].copy(), entries)
        return starts, entries

    def incoming_by_delay(self, which: Array) -> tuple[Array, Array]:
        """Return the second index where each delay of a target has a start of its own, given places of delays."""
        rows = self.distinct.size
        counts = np.zeros(self.sizes[1] * rows, np.int64)
        count_ends_at(self.targets, which, rows, counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        entries: Array = np.empty(self.entries, self._place_dtype)
        index_targets(self.targets, which, rows, starts[:-1].copy(), entries)
        return starts, entries

    @property
    def _place_dtype(self) -> type:
        return np.int32 if self.entries < 2**31 else np.int64

    def in_order(self) -> dict[str, Array]:
        """Return copies of weights, as "w", and of states, by source, delay and target."""
        return {name: np.array(array[self.order]) for name, array in {"w": self.weights, **self.states}.items()}


class MadePlastic(Protocol):
    """Synapses of a plastic projection that are drawn when they are asked for: those of a device."""

    def made(self) -> PlasticSynapses:
        """Return the synapses."""


@dataclass(frozen=True, eq=False)
class PlasticPlan:
    """A plastic projection: what is known of its synapses, and the synapses, as arrays or as a way to draw them.

    `distinct` are the different delays, in steps and in order, int64; `degrees` says how many synapses end at each
    target, int64. `dtype` is that of weights and states, `sizes` are the numbers of sources and targets. `largest_sum`
    is a bound of the sum of |weight| into a neuron.
    """

    name: str
    source: str
    target: str
    receptor: str
    rules: PlasticRules
    sizes: tuple[int, int]
    parts: int
    largest_sum: float
    entries: int
    distinct: Array
    degrees: Array
    dtype: str
    of: PlasticSynapses | MadePlastic

    @property
    def synapses(self) -> PlasticSynapses:
        """The synapses. Those of a device are drawn on the host at each call: do not call it twice."""
        return self.of if isinstance(self.of, PlasticSynapses) else self.of.made()

    @property
    def drawn(self) -> MadePlastic | None:
        """How the synapses are drawn on a device; None if they are arrays."""
        return None if isinstance(self.of, PlasticSynapses) else self.of

    @property
    def largest_weight(self) -> float:
        """The largest |weight| that there may be."""
        return self.rules.largest

    @property
    def graded(self) -> bool:
        """Whether spikes of the source have values, which are delivered times the weight."""
        return self.rules.value_range is not None

    @property
    def at_axon(self) -> bool:
        """Whether the delay is that of the axon."""
        return self.rules.delay_at == "axon"

    @property
    def pre_rows(self) -> int:
        """How many rows traces of the source have: one for each different delay at the axon, else one."""
        return self.distinct.size if self.at_axon else 1

    @property
    def post_rows(self) -> int:
        """How many rows traces of the target have: one for each different delay at the dendrite, else one."""
        return 1 if self.at_axon else self.distinct.size

    @property
    def largest_delay(self) -> int:
        """The largest delay in steps, at least 1."""
        return int(self.distinct[-1]) if self.entries else 1

    @property
    def pending_rows(self) -> int:
        """For how many steps ahead their weights wait as pending input: at the axon, spikes wait instead."""
        return 1 if self.at_axon else self.largest_delay

    def bound(self, quantum: np.floating[Any]) -> int:
        """Return what a synapse delivers at most, in quanta: the largest |weight|, times the largest |value|."""
        dtype = quantum.dtype.type
        with np.errstate(over="ignore", invalid="ignore"):
            most = dtype(self.largest_weight) * dtype(largest_value(self.rules.value_range)) * dtype(1 / quantum)
        return int(np.rint(most)) if most < BEYOND else BEYOND  # NaN neither

    def loads(self, quantum: np.floating[Any]) -> Array:
        """Return how much synapses deliver to each target at most, in quanta: int64 (targets,)."""
        return self.degrees * self.bound(quantum)

    @property
    def target_dtype(self) -> type:
        """Of numbers of targets."""
        return np.uint16 if self.sizes[1] <= 2**16 else np.int32

    @property
    def like(self) -> dict[str, Array]:
        """Weights, as "w", and states as zeros that take no memory: their shapes and dtypes."""
        nothing = np.zeros((), self.dtype)
        return {name: np.broadcast_to(nothing, self.entries) for name in ("w", *self.rules.states)}

    @property
    def nbytes(self) -> int:
        """How much memory sources, targets, delays, weights and states take, without the second index."""
        targets = np.dtype(self.target_dtype).itemsize
        delays = 0 if self.distinct.size < 2 else 1 if self.largest_delay < 2**8 else 2
        floats = np.dtype(self.dtype).itemsize * (1 + len(self.rules.states))
        return 8 * (self.sizes[0] * self.parts + 1) + self.entries * (targets + delays + floats)


@dataclass(frozen=True)
class Past:
    """What is kept of the last steps of a population, and of how many: events, states that travel with spikes, values.

    `valued` says whether values of spikes are.
    """

    rows: int
    events: tuple[str, ...]
    states: tuple[str, ...]
    valued: bool = False

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of what is kept besides events, in a state of the network."""
        return (*(f"state.{state}" for state in self.states), *[VALUE] * self.valued)


def traces_of(plastic: PlasticPlan) -> Iterator[tuple[str, TracePlan]]:
    """Yield the traces of a projection, with their names in a `NetworkState`."""
    for side, traces in (("pre", plastic.rules.pre), ("post", plastic.rules.post)):
        for one in traces:
            yield f"{side}.{one.name}", one


def kept_of(plastic: Iterable[PlasticPlan], pasts: Mapping[str, Past]) -> dict[str, Past]:
    """Return what plastic projections need of a step that has just been, and of those before it, by population.

    `pasts` are what `pasts_of` returned for them.
    """
    events: dict[str, set[str]] = {}
    states: dict[str, set[str]] = {}
    valued: set[str] = set()
    for one in plastic:
        events.setdefault(one.source, set()).add(SPIKE)
        states.setdefault(one.source, set()).update(state for _, state in one.rules.carried)
        valued.update([one.source] * one.graded)
        own = events.setdefault(one.target, set())
        own.update(event for event, _ in one.rules.on_post)
        if one.rules.post:
            own.add(SPIKE)
    found = {}
    for name in (name for name, own in events.items() if own):
        rows, kept = pasts[name].rows if name in pasts else 0, states.get(name, ())
        found[name] = Past(rows, tuple(sorted(events[name])), tuple(sorted(kept)), name in valued)
    return found


def pasts_of(plastic: Iterable[PlasticPlan]) -> dict[str, Past]:
    """Return what plastic projections need of past steps, by population: that which is on its way to synapses.

    At the axon, these are spikes of sources, their values and states; at the dendrite, events of targets.
    """
    found: dict[str, Past] = {}
    for one in plastic:
        name, needed = (one.source, {SPIKE}) if one.at_axon else (one.target, {event for event, _ in one.rules.on_post})
        if not one.at_axon and one.rules.post:
            needed.add(SPIKE)
        states = {state for _, state in one.rules.carried} if one.at_axon else set[str]()
        before = found.get(name, Past(0, (), ()))
        if needed:
            events, states = needed.union(before.events), states.union(before.states)
            valued = before.valued or (one.at_axon and one.graded)
            rows = max(before.rows, one.largest_delay)
            found[name] = Past(rows, tuple(sorted(events)), tuple(sorted(states)), valued)
    return found
