# SPDX-License-Identifier: Apache-2.0
"""`PlasticPlan`: the synapses of a plastic projection, with a weight and states of each, as engines run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .graded import largest_value
from .plasticity import PlasticRules

__all__ = ["SPIKE", "VALUE", "Past", "PlasticPlan", "kept_of", "pasts_of"]

SPIKE, VALUE = "spike", "value"
Array = Any


@dataclass(frozen=True, eq=False)
class PlasticPlan:
    """Synapses of a plastic projection, in the order of those of a `SynapsePlan`.

    Source neuron i has the entries `starts[i * parts + p]` to `starts[i * parts + p + 1] - 1` in part p of the target
    population, sorted by delay and then by target. `targets` and `delays` are as in a `SynapsePlan`. `weights`, floats
    (entries,) of the dtype of the plan, and `states`, likewise by name, are those of the build. `sizes` are the numbers
    of sources and targets; `largest_sum` is a bound of the sum of |weight| into a neuron.
    """

    name: str
    source: str
    target: str
    receptor: str
    starts: Array
    targets: Array
    delays: Array
    weights: Array
    states: Mapping[str, Array]
    rules: PlasticRules
    sizes: tuple[int, int]
    parts: int
    largest_sum: float

    @property
    def entries(self) -> int:
        """How many synapses there are."""
        return int(self.targets.size)

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

    @cached_property
    def distinct(self) -> Array:
        """The different delays, in steps and in order: int64; none without synapses."""
        return np.unique(self.delays[: self.entries]).astype(np.int64)

    @cached_property
    def which(self) -> Array:
        """The place of each synapse's delay in `distinct`: int32 (entries,)."""
        return np.broadcast_to(np.searchsorted(self.distinct, self.delays), self.entries).astype(np.int32)

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

    @cached_property
    def sources(self) -> Array:
        """The source of each synapse: int32 (entries,)."""
        return np.repeat(np.arange(self.sizes[0], dtype=np.int32), np.diff(self.starts[:: self.parts]))

    @cached_property
    def order(self) -> Any:
        """The places of synapses by source, delay and target: states of a network have this order for any parts."""
        if self.parts == 1:
            return slice(None)
        return np.lexsort((self.targets, np.broadcast_to(self.delays, self.entries), self.sources))

    @cached_property
    def incoming(self) -> tuple[Array, Array]:
        """The second index, made when it is asked for: target j has the synapses `entries[starts[j] : starts[j + 1]]`.

        Those of a neuron are in the order of the plan: by source, delay, and then as they were drawn or given.
        """
        order = np.argsort(self.targets, kind="stable").astype(np.int32 if self.entries < 2**31 else np.int64)
        return np.concatenate([[0], np.cumsum(np.bincount(self.targets, minlength=self.sizes[1]))]), order

    def bound(self, quantum: np.floating[Any]) -> int:
        """Return what a synapse delivers at most, in quanta: the largest |weight|, times the largest |value|."""
        dtype = quantum.dtype.type
        most = dtype(self.largest_weight) * dtype(largest_value(self.rules.value_range))
        return int(np.rint(most * dtype(1 / quantum)))

    def loads(self, quantum: np.floating[Any]) -> Array:
        """Return how much synapses deliver to each target at most, in quanta: int64 (targets,)."""
        return np.bincount(self.targets, minlength=self.sizes[1]).astype(np.int64) * self.bound(quantum)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take, without the second index."""
        arrays = (self.starts, self.targets, self.delays, self.weights, *self.states.values())
        return sum(int(array.nbytes) for array in arrays)


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
