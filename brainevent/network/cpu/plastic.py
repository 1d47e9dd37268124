# SPDX-License-Identifier: Apache-2.0
"""`Kept`: what plastic synapses need of the last steps of a population; `PlasticArrays`: those of one projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...scalar.interpret import interpret
from ...scalar.primitives import flushed
from ...scalar.synapse import FACTOR, forms_of_synapses
from ..pages import aligned, untouched
from ..plan.plan import Plan, PopulationPlan, part_bounds
from ..plan.plastic import SPIKE, VALUE, Past, PlasticPlan, traces_of
from ..plan.plastic import kept_of as kept_in
from ..plan.plasticity import TracePlan
from ..run.finite import SynapseFault
from ..state import NetworkState, initial_traces
from .native import plastic_address, plastic_function
from .plastic_late import Waiting
from .plastic_text import ARRIVE, FINISH, plastic_text
from .plastic_words import decays_in, late_dtypes, small_of, words_of_plastic
from .tables import KEPT, STRETCH, Table, address, lines
from .waiting import SpikeLists

__all__ = ["Kept", "PlasticArrays", "kept_of", "needs_of"]

Array = Any
_MOST_FACTORS = 2**14  # of a trace that decays slowly: those of longer times are computed


def kept_of(plan: Plan) -> dict[str, Kept]:
    """Return what is kept for plastic synapses, by population."""
    needs = needs_of(plan)
    return {p.name: Kept(p, needs[p.name], plan) for p in plan.populations if p.name in needs}


def needs_of(plan: Plan) -> dict[str, Past]:
    """Return what plastic synapses need, by population: also of the step that has just been, unlike `Plan.pasts`."""
    return kept_in(plan.plastic, plan.pasts)


class Kept:
    """Lists of the events of a population in the last steps, and states and values of spikes, by names in a state."""

    def __init__(self, population: PopulationPlan, needed: Past, plan: Plan):
        self.needed, self._past = needed, plan.pasts.get(population.name)
        self.bounds = [int(bound) for bound in part_bounds(population.size, plan.parts)]
        # A part that is one step ahead writes no list that another one reads.
        self.lists = {event: SpikeLists(self.bounds, needed.rows + 2) for event in needed.events}
        slots = len(next(iter(self.lists.values())).counts[0])
        shape = slots, population.size
        self.numbers = {f"state.{name}": untouched(shape, population.state[name].dtype) for name in needed.states}
        if needed.valued:
            self.numbers[VALUE] = untouched(shape, plan.dtype)
        self._now: Mapping[str, Array] = {}
        self._tables: dict[str, Table] = {}

    @property
    def blank(self) -> list[Array]:
        """The arrays of which nothing is read but what the counts of lists say."""
        return [*(spikes for lists in self.lists.values() for spikes in lists.spikes), *self.numbers.values()]

    def read(self, states: Mapping[str, Array]) -> None:
        """Keep what is in these arrays, the states of the population."""
        for name, values in self.numbers.items():
            now = None if name == VALUE else states[name.removeprefix("state.")]
            at = 0 if now is None else address(now)
            words = {"state": at, "values": address(values), "size": values.shape[1], "itemsize": values.itemsize}
            self._tables[name] = Table(KEPT._fields, words)

    def words(self, part: int) -> dict[str, int]:
        """Return what the text of an update needs."""
        found = {f"kept:{event}": address(lists.lines[part]) for event, lists in self.lists.items()}
        return found | {f"kept_number:{name}": table.address for name, table in self._tables.items()}

    def past(self, step: int) -> dict[str, Array]:
        """Return what is on its way before a step, as in a `NetworkState`."""
        if self._past is None:
            return {}
        size, rows = self.bounds[-1], self._past.rows
        found: dict[str, Array] = {event: np.zeros((rows, size), bool) for event in self._past.events}
        for event, where in found.items():
            for row in range(rows):
                where[row, self._listed(event, step - 1 - row)] = True
        for name in self._past.numbers:
            values = self.numbers[name]
            chosen = (step - 1 - np.arange(rows)) % len(values)
            found[name] = np.where(found[SPIKE], values[chosen], values.dtype.type(0))
        return found

    def load(self, past: Mapping[str, Array], step: int) -> None:
        """Go on with what is on its way before a step."""
        for lists in self.lists.values():
            lists.clear()
        for key, rows in past.items():
            for row, values in enumerate(np.asarray(rows)):
                if key in self.numbers:
                    held = self.numbers[key]
                    held[(step - 1 - row) % len(held)] = values
                else:
                    self._list(key, step - 1 - row, np.flatnonzero(values))

    def _listed(self, event: str, step: int) -> Array:
        lists = self.lists[event]
        own = zip(lists.spikes, lists.counts, strict=True)
        return np.concatenate([spikes[step % len(spikes), : counts[step % len(counts)]] for spikes, counts in own])

    def _list(self, event: str, step: int, neurons: Array) -> None:
        lists = self.lists[event]
        for (low, high), spikes, counts in zip(pairwise(self.bounds), lists.spikes, lists.counts, strict=True):
            own = neurons[(neurons >= low) & (neurons < high)]
            spikes[step % len(spikes), : own.size], counts[step % len(counts)] = own, own.size


class PlasticArrays:
    """Weights, states and traces of the synapses of a plastic projection, and their tables, one for each part.

    Weights and states are in the order of the plan. Each part has its own traces of sources, which are the same in all.

    Where `late_dtypes` says so, events of targets wait until a spike of the source arrives at a synapse, so that
    memory is visited in order; all that reads synapses brings them up to date before.

    Args:
        plan: The network.
        plastic: The projection.
        kept: What is kept of its populations.
        states: The states of its target.
        watched: Whether numbers that are not finite are noted.
    """

    def __init__(
        self,
        plan: Plan,
        plastic: PlasticPlan,
        kept: Mapping[str, Kept],
        states: Mapping[str, Array],
        *,
        watched: bool,
    ):
        self.plan, self.plastic = plan, plastic
        self._kept, self._target = kept, states
        small, entries, given = small_of(plastic), plastic.entries, plastic.synapses
        self.order = given.order  # of synapses in a state
        self.synapses = {"w": _own(given.weights)} | {name: _own(one) for name, one in given.states.items()}
        self.params = {name: np.array([value]) for name, value in plastic.rules.params.items()}
        self._starts = np.ascontiguousarray(given.starts, np.int64)
        self.targets = np.ascontiguousarray(given.targets)
        self._which = None if small.which is None else given.which.astype(small.which)
        by_delay = None if plastic.at_axon else self._which
        into, order = given.incoming if by_delay is None else given.incoming_by_delay(by_delay)
        self._into, self._entries = np.ascontiguousarray(into, np.int64), order.astype(small.entries, copy=False)
        self._origins = given.sources[order]
        quantum = plan.population(plastic.target).quanta[plastic.receptor]
        self._per_unit = np.array([1 / quantum], plan.dtype)
        self._units = [aligned((STRETCH,), np.int32) for _ in range(plan.parts)]
        self._faulty = lines(plan.parts)
        notes = plan.parts, len(plastic.rules.all), len(self.synapses)
        self._found, self._what = np.zeros(notes, np.int64), np.zeros(notes, plan.dtype)
        self._constants = {
            key: (_factors(one, plan.dtype), np.array([one.rate, one.add])) for key, one in traces_of(plastic)
        }
        self.traces = [initial_traces(plan, plastic) for _ in range(plan.parts)]
        for others in self.traces[1:]:  # each part has targets of its own
            others |= {key: array for key, array in self.traces[0].items() if key.partition(".")[0] == "post"}
        dtypes = {name: array.dtype.name for name, array in states.items()}
        self._late = late_dtypes(plastic, dtypes, plan.dtype, watched=watched)
        self._waiting = None if self._late is None else Waiting(plan, plastic, self._late)
        found = {name: plastic_text(name, plastic, dtypes, plan.dtype, watched=watched) for name in (ARRIVE, FINISH)}
        self.functions = {name: plastic_address(text) for name, text in found.items() if text is not None}
        assert entries == 0 or self._into[-1] == entries
        self.tables = [self._table(part) for part in range(plan.parts)]

    @property
    def shared(self) -> list[Array]:
        """The arrays that nobody writes."""
        factors = [factors for factors, _ in self._constants.values()]
        which = [] if self._which is None else [self._which]
        return [self._starts, self.targets, self._into, self._entries, self._origins, *which, *factors]

    @property
    def blank(self) -> list[Array]:
        """The arrays that are filled before anything reads them, once a state is loaded."""
        waiting = [] if self._waiting is None else self._waiting.blank
        traces = {address(array): array for own in self.traces for array in own.values()}
        return [*self.synapses.values(), *self.params.values(), *traces.values(), *self._units, *waiting]

    @property
    def seen(self) -> list[Array]:
        """The steps before which sources have let all act that waited for them, of each part."""
        return [] if self._waiting is None else self._waiting.seen

    @property
    def catches(self) -> list[tuple[int, Table]]:
        """The functions that let all act that waits, with their tables."""
        return [] if self._waiting is None else [(self.functions[ARRIVE], table) for table in self.tables]

    def follow_ring(self, words: Sequence[Mapping[str, int]]) -> None:
        """Add to sums of another ring: words of each part."""
        for table, own in zip(self.tables, words, strict=True):
            table.update(own)

    def catch_up(self, step: int) -> None:
        """Let all events before a step act that wait for spikes of sources."""
        if self._waiting is not None and self._waiting.held.any():
            for table in self.tables:
                plastic_function(self.functions[ARRIVE])(table.address, step, -1)
            self._waiting.held[...] = 0

    def keep_up(self, targets: Array, step: int) -> None:
        """From a step on, let no event of some targets wait: their synapses are read after each step."""
        if self._waiting is not None:
            self.catch_up(step)
            self._waiting.most[targets] = 1

    def set(self, param: str, value: Array, step: int) -> None:
        """Replace a parameter of the rules, from a step on."""
        self.catch_up(step)
        self.params[param][...] = flushed(np.asarray(value, self.plan.dtype))

    def read(self, step: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return copies of synapses and traces before a step, as in a `NetworkState`."""
        self.catch_up(step)
        synapses = {name: np.array(array[self.order]) for name, array in self.synapses.items()}
        return synapses, {name: array.copy() for name, array in self.traces[0].items()}

    def load(self, state: NetworkState) -> None:
        """Go on from a state."""
        name = self.plastic.name
        for key, array in self.synapses.items():
            array[self.order] = flushed(np.asarray(state.synapses[name][key], array.dtype))
        for traces in self.traces:
            for key, array in traces.items():
                array[...] = state.traces[name][key]
        if self._waiting is not None:
            self._waiting.clear(int(state.step))
        self._faulty[...], self._found[...] = 0, 0

    def fault(self) -> SynapseFault | None:
        """Return the first synapse that rules made infinite or NaN in the step that ran last, if there is one."""
        bits, found = int(np.bitwise_or.reduce(self._faulty[:, 0])), self._found.copy()
        self._faulty[...], self._found[...] = 0, 0
        if not bits:
            return None
        rule = (bits & -bits).bit_length() - 1
        called, traced = self.plastic.rules.all[rule]
        state = int(found[:, rule].any(0).argmax())
        parts = np.flatnonzero(found[:, rule, state])
        # Entries of a part are in the order of states; those of several parts are not.
        order = np.arange(self.plastic.entries)[self.order]
        places = [int(np.flatnonzero(order == found[part, rule, state] - 1)[0]) for part in parts]
        first = int(np.argmin(places))
        value = self._what[parts[first], rule, state]
        return SynapseFault(self.plastic, called, traced.name, list(self.synapses)[state], places[first], value)

    def faulty(self, part: int) -> int:
        """Return the address of the word in which a part notes what is not finite."""
        return address(self._faulty[part])

    def _table(self, part: int) -> Table:
        plastic = self.plastic
        words = dict.fromkeys(words_of_plastic(plastic, self._late), 0)
        words |= {
            "parts": self.plan.parts,
            "part": part,
            "sources": plastic.sizes[0],
            "size": plastic.sizes[1],
            "rows": plastic.distinct.size,
            "spikes": address(self._kept[plastic.source].lists[SPIKE].lines),
            "starts": address(self._starts),
            "targets": address(self.targets),
            "which": 0 if self._which is None else address(self._which),
            "distinct": address(plastic.distinct),
            "weights": address(self.synapses["w"]),
            "into": address(self._into),
            "entries": address(self._entries),
            "origins": address(self._origins),
            "per_unit": address(self._per_unit),
            "units": address(self._units[part]),
            "faulty": self.faulty(part),
            "found": address(self._found[part]),
            "what": address(self._what[part]),
        }
        words |= {f"state:{name}": address(array) for name, array in self.synapses.items() if name != "w"}
        words |= {f"param:{name}": address(array) for name, array in self.params.items()}
        words |= self._words_of_traces(self.traces[part])
        if plastic.graded:
            words["values"] = address(self._kept[plastic.source].numbers[VALUE])
        if self._waiting is not None:
            words |= self._waiting.words(part)
        for word in words:
            kind, _, name = word.partition(":")
            if kind == "target":
                words[word] = address(self._target[name])
            if kind == "event":
                words[word] = address(self._kept[plastic.target].lists[name].lines)
        return Table(list(words), words)

    def _words_of_traces(self, own: Mapping[str, Array]) -> dict[str, int]:
        """Return the words of the traces of a part, and of states that travel with spikes."""
        words = {f"last:{side}": address(own[side]) if side in own else 0 for side in ("pre", "post")}
        for key, (factors, constants) in self._constants.items():
            words[f"trace:{key}"], words[f"constants:{key}"] = address(own[key]), address(constants)
            words[f"factors:{key}"], words[f"count:{key}"] = address(factors), factors.size
        for name, state in self.plastic.rules.carried:
            words[f"carried:{name}"] = address(own[f"pre.{name}"])
            words[f"kept:{state}"] = address(self._kept[self.plastic.source].numbers[f"state.{state}"])
        return words


def _own(array: Array) -> Array:
    found = aligned(array.shape, array.dtype)
    found[...] = flushed(array)
    return found


def _factors(one: TracePlan, dtype: str) -> Array:
    """Return by which factors a trace decays in 0, 1, ... steps, as rules compute them: until it is 0, if it decays."""
    decayed = decays_in(one, dtype)
    steps = np.arange(_MOST_FACTORS if decayed is None else decayed + 1, dtype=np.uint32)
    (found,) = interpret(forms_of_synapses(dtype)[FACTOR], [steps, np.full(1, one.rate, dtype)])
    assert decayed is None or found[-1] == 0
    return np.ascontiguousarray(found)
