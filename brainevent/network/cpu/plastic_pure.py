# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in a JAX program: what native code copies of a state, and what becomes of it.

Native code copies arrays as they are. So JAX puts synapses into the order of the plan, and makes lists of the events
that are on their way, of a line for each of the last steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..plan.plan import Plan, part_bounds
from ..plan.plastic import SPIKE, VALUE, PlasticPlan
from ..state import NetworkState, initial_traces
from .memory import Memory
from .plastic import needs_of
from .tables import address
from .waiting import slots_of

__all__ = ["Plastic", "after_run", "copies", "given_to", "plastic_of", "results_of"]

Array = Any
Plastic = Mapping[str, Mapping[str, Mapping[str, Array]]]  # "synapses", "traces", "past" and "params", by name
_HALVES = 2  # words of 32 bits in a count: JAX has none of 64 bits by default


def plastic_of(plan: Plan, state: NetworkState, params: Mapping[str, Any]) -> Plastic:
    """Return what a state has of plastic synapses, and the parameters of their rules, in the dtypes of the network."""
    synapses = {one.name: _as(plan.dtype, state.synapses[one.name]) for one in plan.plastic}
    traces = {one.name: dict(state.traces[one.name]) for one in plan.plastic}
    past = {name: dict(state.past[name]) for name in plan.pasts}
    rules = {one.name: _as(plan.dtype, params.get(one.name, one.rules.params)) for one in plan.plastic}
    return {"synapses": synapses, "traces": traces, "past": past, "params": rules} if plan.plastic else {}


def given_to(plan: Plan, plastic: Plastic, begin: Array) -> dict[str, Array]:
    """Return the operands of native code by name, for steps from `begin` on."""
    found: dict[str, Array] = {}
    for one in plan.plastic:
        places = _places(one)
        for key, array in plastic["synapses"][one.name].items():
            found[f"synapses {one.name}.{key}"] = array if places is None else array[places]
        found |= {f"trace {one.name}.{key}": array for key, array in plastic["traces"][one.name].items()}
        found |= {f"rule {one.name}.{key}": array for key, array in plastic["params"][one.name].items()}
        found[f"seen {one.name}"] = jnp.full(one.pre_rows * one.sizes[0], begin, np.uint32)
    for name, needed in needs_of(plan).items():
        past, slots = plastic["past"].get(name, {}), slots_of(needed.rows + 2)
        at = _slots(begin, needed.rows, slots)
        for event in (event for event in needed.events if event in past):
            for part, (low, high) in enumerate(_bounds(plan, name)):
                lists, counts = _listed(past[event][:, low:high], low)
                found[f"list {name}.{event}.{part}"] = _into(slots, at, lists)
                found[f"count {name}.{event}.{part}"] = _into(slots, at, counts)
        found |= {f"kept {name}.{key}": _into(slots, at, past[key]) for key in needed.numbers if key in past}
    return found


def results_of(plan: Plan) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shapes and dtypes of results of native code, by name."""
    found: dict[str, tuple[tuple[int, ...], Any]] = {}
    for one in plan.plastic:
        found |= {f"synapses after {one.name}.{key}": ((one.entries,), plan.dtype) for key in ("w", *one.rules.states)}
        found |= {f"trace after {one.name}.{key}": own for key, own in _traces(plan, one).items()}
    needs = needs_of(plan)
    for name, past in plan.pasts.items():
        slots = slots_of(needs[name].rows + 2)
        for event in past.events:
            for part, (low, high) in enumerate(_bounds(plan, name)):
                found[f"list after {name}.{event}.{part}"] = (slots, high - low + 1), np.int32
                found[f"count after {name}.{event}.{part}"] = (slots, _HALVES), np.uint32
        for key in past.numbers:
            state = plan.population(name).state.get(key.removeprefix("state."))
            dtype = plan.dtype if key == VALUE or state is None else state.dtype
            found[f"kept after {name}.{key}"] = (slots, plan.population(name).size), dtype
    return found


def after_run(plan: Plan, found: Mapping[str, Array], end: Array) -> dict[str, Any]:
    """Return the parts of a state before step `end`, given the results of native code."""
    synapses = {
        one.name: {
            key: found[f"synapses after {one.name}.{key}"][one.synapses.order] for key in ("w", *one.rules.states)
        }
        for one in plan.plastic
    }
    traces = {
        one.name: {key: found[f"trace after {one.name}.{key}"] for key in _traces(plan, one)} for one in plan.plastic
    }
    past, needs = {}, needs_of(plan)
    for name, own in plan.pasts.items():
        at = _slots(end, own.rows, slots_of(needs[name].rows + 2))
        past[name] = {event: _events(plan, name, event, found, at) for event in own.events}
        for key in own.numbers:
            values = found[f"kept after {name}.{key}"][at]
            past[name][key] = jnp.where(past[name][SPIKE], values, values.dtype.type(0))
    return {"synapses": synapses, "traces": traces, "past": past} if plan.plastic else {}


def copies(memory: Memory, numbers: Mapping[str, int], place: Callable[[int], int]) -> list[tuple[int, ...]]:
    """Return the rows of COPY for plastic synapses: operands and results by their numbers, arrays by their places."""
    rows = list[tuple[int, ...]]()
    for kind, name, array, both in [*_of_synapses(memory), *_of_past(memory)]:
        flushed = kind in _FLUSHED and array.dtype == np.float32
        for out, found in enumerate([f"{kind} {name}", f"{kind} after {name}"][: 1 + both]):
            if found in numbers and array.nbytes:
                rows.append((numbers[found], place(address(array)), array.nbytes, flushed and not out, out))
    return rows


_Copied = Iterator[tuple[str, str, Array, bool]]  # the kind, a name, an array of native code, and whether it comes back
_FLUSHED = ("synapses", "rule")  # kinds of operands that users give


def _of_synapses(memory: Memory) -> _Copied:
    """Yield the arrays of plastic projections."""
    for name, one in memory.plastic.items():
        yield from (("synapses", f"{name}.{key}", array, True) for key, array in one.synapses.items())
        yield from (("rule", f"{name}.{key}", array, False) for key, array in one.params.items())
        for part, traces in enumerate(one.traces):
            yield from (("trace", f"{name}.{key}", array, part == 0) for key, array in traces.items())
        yield from (("seen", name, array, False) for array in one.seen)


def _of_past(memory: Memory) -> _Copied:
    """Yield the arrays of what is on its way."""
    for name, kept in memory.kept.items():
        for event, lists in kept.lists.items():
            for part, (spikes, counts) in enumerate(zip(lists.spikes, lists.counts, strict=True)):
                yield "list", f"{name}.{event}.{part}", spikes, True
                yield "count", f"{name}.{event}.{part}", counts, True
        yield from (("kept", f"{name}.{key}", values, True) for key, values in kept.numbers.items())


def _places(one: PlasticPlan) -> Array | None:
    """Return the place in a state of each synapse of the plan; None if that is its own."""
    order = one.synapses.order
    if isinstance(order, slice):
        return None
    places = np.empty(one.entries, np.int32 if one.entries < 2**31 else np.int64)
    places[order] = np.arange(one.entries)
    return places


def _as(dtype: str, arrays: Mapping[str, Any]) -> dict[str, Array]:
    return {key: jnp.asarray(array, dtype) for key, array in arrays.items()}


def _traces(plan: Plan, one: PlasticPlan) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shapes and dtypes of the traces of a projection, by their names in a state."""
    return {key: (array.shape, array.dtype) for key, array in initial_traces(plan, one).items()}


def _bounds(plan: Plan, name: str) -> list[tuple[int, int]]:
    return [(int(low), int(high)) for low, high in pairwise(part_bounds(plan.population(name).size, plan.parts))]


def _slots(step: Array, rows: int, slots: int) -> Array:
    """Return where the lists of the last steps are, of a power of two: row k is of k + 1 steps before a step."""
    before = jnp.asarray(step, np.uint32) - np.uint32(1) - jnp.arange(rows, dtype=np.uint32)
    return (before & np.uint32(slots - 1)).astype(np.int32)


def _into(slots: int, at: Array, rows: Array) -> Array:
    return jnp.zeros((slots, *rows.shape[1:]), rows.dtype).at[at].set(rows)


def _listed(events: Array, low: int) -> tuple[Array, Array]:
    """Return the neurons that have an event in each row, (rows, neurons + 1), and how many: their numbers rise."""
    rows, size = events.shape
    places = jnp.where(events, jnp.cumsum(events, 1, dtype=np.int32) - 1, size)
    neurons = jnp.broadcast_to(jnp.arange(size, dtype=np.int32) + low, events.shape)
    lists = jnp.zeros((rows, size + 1), np.int32).at[jnp.arange(rows)[:, None], places].set(neurons)
    counts = events.sum(1, dtype=np.uint32)
    return lists, jnp.stack([counts, jnp.zeros_like(counts)], 1)


def _events(plan: Plan, name: str, event: str, found: Mapping[str, Array], at: Array) -> Array:
    """Return in which of the last steps neurons had an event: bool (rows, neurons)."""
    parts = []
    for part, (low, high) in enumerate(_bounds(plan, name)):
        lists = found[f"list after {name}.{event}.{part}"][at] - low
        counts = found[f"count after {name}.{event}.{part}"][at, :1]
        there = jnp.arange(high - low + 1, dtype=np.uint32) < counts
        rows = jnp.arange(len(lists))[:, None]
        where = jnp.zeros(lists.shape, bool).at[rows, jnp.where(there, lists, high - low)].set(True)
        parts.append(where[:, : high - low])
    return jnp.concatenate(parts, 1)
